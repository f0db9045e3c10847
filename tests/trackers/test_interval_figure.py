"""The figure of intervals that services show."""

from dataclasses import replace
from xml.etree import ElementTree as ET

from tracked_samples import aggregate, estimate

from rlexp.trackers.interval_figure import draw_intervals

SVG = "{http://www.w3.org/2000/svg}"


def picture_of(*changes: dict[str, object]) -> ET.Element:
    """The figure of several aggregates, each with some changes."""
    return ET.fromstring(draw_intervals([aggregate(**c) for c in changes]))


def texts(picture: ET.Element) -> list[str]:
    """Every text in the figure."""
    return [str(element.text) for element in picture.iter(f"{SVG}text")]


def test_the_figure_says_n_and_method() -> None:
    """Each label has its n, and the last line has the method and the seed."""
    lines = texts(picture_of({}))
    assert "ppo (n = 3)" in lines
    assert "450 [400, 500]" in lines
    assert (
        "IQM over seeds; 95 % interval, method percentile bootstrap, 1,000 repetitions, seed 7"
        in lines[-1]
    )


def test_a_longer_interval_is_a_longer_line() -> None:
    """Intervals of one task are drawn on one scale."""
    picture = picture_of(
        {}, {"label": "a2c", "estimate": estimate(low=300.0)}, {"task": "Pendulum-v1"}
    )
    lines = [float(e.attrib["x2"]) - float(e.attrib["x1"]) for e in picture.iter(f"{SVG}line")]
    assert lines[1] == 2 * lines[0] == lines[2]


def test_missing_values_are_explained() -> None:
    """A label with one run has no interval, a label without runs has no point, and both say so."""
    single_run = replace(
        estimate(n=1, sizes=(1,), runs=((450.0,),)),
        low=None,
        high=None,
        reason="too few runs for an interval (n = 1)",
    )
    picture = picture_of(
        {"n": 1, "estimate": single_run}, {"label": "b", "n": 0, "estimate": None}
    )
    assert ["4", "2"] == [dot.attrib["r"] for dot in picture.iter(f"{SVG}circle")]
    assert texts(picture)[-1].endswith("; too few runs for an interval (n = 1)")
    assert not list(picture.iter(f"{SVG}line"))
    assert "no score" in texts(picture)


def test_a_label_is_only_text() -> None:
    """The text of a label is escaped."""
    picture = picture_of({"label": "</text><script>alert(1)</script>"})
    assert not list(picture.iter(f"{SVG}script"))
    assert "</text><script>alert(1)</" in "".join(texts(picture))
