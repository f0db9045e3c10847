"""The picture of intervals that services show."""

from xml.etree import ElementTree as ET

from tracked_samples import aggregate

from rlexp.trackers.interval_figure import draw_intervals

SVG = "{http://www.w3.org/2000/svg}"


def drawn(*changes: dict[str, object]) -> ET.Element:
    """The picture of an aggregate with each of these changes."""
    return ET.fromstring(draw_intervals([aggregate(**c) for c in changes]))


def texts(picture: ET.Element) -> list[str]:
    """Everything that is written in it."""
    return [str(element.text) for element in picture.iter(f"{SVG}text")]


def test_it_says_n_and_method() -> None:
    """Beside each number its n, and below how the intervals were computed, with the seed."""
    written = texts(drawn({}))
    assert "ppo (n = 3)" in written
    assert "450 [400, 500]" in written
    assert "Interquartile mean over seeds; 95% interval: percentile, seed 7" in written


def test_a_longer_interval_is_a_longer_line() -> None:
    """On one scale for each task."""
    picture = drawn({}, {"label": "a2c", "low": 300.0, "high": 500.0}, {"task": "Pendulum-v1"})
    lines = [float(e.attrib["x2"]) - float(e.attrib["x1"]) for e in picture.iter(f"{SVG}line")]
    assert lines[1] == 2 * lines[0] == lines[2]


def test_what_is_missing_is_said() -> None:
    """One run has no interval, and none has no point."""
    picture = drawn({"n": 1, "low": None, "high": None}, {"label": "b", "n": 0, "iqm": None})
    assert len(list(picture.iter(f"{SVG}circle"))) == 1
    assert not list(picture.iter(f"{SVG}line"))
    assert "no score" in texts(picture)


def test_a_label_is_only_text() -> None:
    """Whatever it holds."""
    picture = drawn({"label": "</text><script>alert(1)</script>"})
    assert not list(picture.iter(f"{SVG}script"))
    assert "</text><script>alert(1)</" in "".join(texts(picture))
