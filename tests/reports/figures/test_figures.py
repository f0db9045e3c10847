"""Publication figures: reproducible files, legible texts, and names that stay text."""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from figure_blocks import NAMES, curves, draw, panels
from in_full import long
from study_blocks import interval
from study_samples import LABELS, SAMPLES, many_labels, one_run, typical

from rlexp.errors import ConfigError
from rlexp.reports.drawing.blocks import (
    Axis,
    FigureLine,
    IntervalFigure,
    IntervalMark,
    Matrix,
    Panel,
    ReportDocument,
    SectionContent,
    Table,
)
from rlexp.reports.drawing.file_names import drawn_blocks
from rlexp.reports.drawing.palette import LIGHT, styles
from rlexp.reports.figures import draw_figure, draw_figures
from rlexp.reports.figures.canvas import DOUBLE_COLUMN, SINGLE_COLUMN, label, publication_style

Text = pytest.importorskip("matplotlib.text").Text

ODD = ("hostile", "all_impossible", "empty", "logarithmic")
GAPS = (("ppo", (1.0, 2.0)), ("a2c", (None, None)))


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    with publication_style():
        yield


@cache
def _figures(make: Callable[[], ReportDocument]) -> list[Any]:
    """The figures of a sample, drawn once."""
    study = make()
    blocks = [block for block in drawn_blocks(study) if not isinstance(block, Table)]
    return [draw_figure(block, styles(study)) for block in blocks]


@cache
def _files(name: str, *kinds: str) -> Mapping[str, bytes]:
    """The files of a sample in these formats, drawn once because PDF fonts are slow."""
    return draw_figures(SAMPLES[name](), kinds)


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("one_run", ("pdf", "svg")),
        *((name, ("svg",)) for name in ODD),
        *(pytest.param(name, ("pdf",), marks=long) for name in ODD),
        pytest.param("one_trial", ("pdf", "svg"), marks=long),
    ],
)
def test_every_sample_is_drawn(name: str, kinds: tuple[str, ...]) -> None:
    """Each figure of a sample is written as a file of each format."""
    figures = [block for block in drawn_blocks(SAMPLES[name]()) if not isinstance(block, Table)]
    files = _files(name, *kinds)
    assert {f"{block.name}.{kind}" for block in figures for kind in kinds} == set(files)
    signatures = {"pdf": b"%PDF-1.4", "svg": b"<?xml"}
    assert all(content.startswith(signatures[file[-3:]]) for file, content in files.items())


def test_a_pdf_holds_its_fonts_and_no_date() -> None:
    """A PDF embeds TrueType fonts, as publishers require, and contains no date."""
    content = _files("one_run", "pdf", "svg")["aggregates-figure.pdf"]
    assert b"/FontFile2" in content
    assert b"/Type3" not in content
    assert b"Date" not in content
    assert b"(rlexp 0.1.0)" in content


def test_an_svg_holds_its_title_and_no_date() -> None:
    """An SVG has title and note in its metadata, and no date."""
    content = _files("typical", "svg")["improvement.svg"]
    assert b"<dc:title>Probability of improvement</dc:title>" in content
    assert b"How often a run of the row beats a run of the column." in content
    assert b"<dc:date>" not in content


def test_an_unknown_format_is_refused() -> None:
    """The error names the allowed formats."""
    with pytest.raises(ConfigError, match=r"drawn as 'pdff'; did you mean 'pdf'\? \(allowed:"):
        draw_figures(one_run(), ("pdff",))


def test_without_matplotlib_the_message_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without Matplotlib the error has the command that installs it."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigError, match=r"pip install 'rlexp\[figures\]'$"):
        draw_figures(one_run())


def test_a_user_s_settings_are_neither_used_nor_changed() -> None:
    """Drawing ignores the user's settings of Matplotlib and leaves them unchanged."""
    import matplotlib as mpl

    expected = draw_figures(one_run(), ("svg",))
    mpl.rcParams["lines.linewidth"] = 9.0
    mpl.rcParams["axes.facecolor"] = "black"
    assert expected == draw_figures(one_run(), ("svg",))
    assert (9.0, "black") == (mpl.rcParams["lines.linewidth"], mpl.rcParams["axes.facecolor"])


def test_a_label_has_one_colour_everywhere() -> None:
    """Each label's colour is in every figure that compares labels."""
    files = _files("typical", "svg")
    for name in ("curves-0.svg", "profiles.svg", "aggregates-figure.svg"):
        text = files[name].decode()
        assert set(LABELS) == {
            n for n, k in zip(LABELS, range(3), strict=True) if LIGHT[k].lower() in text
        }


def test_labels_of_one_colour_differ_in_dashes() -> None:
    """The ninth label has the colour of the first label, and a dashed line."""
    legend = _figures(many_labels)[1].legends[0]
    names = [text.get_text() for text in legend.get_texts()]
    lines = dict(zip(names, legend.get_lines(), strict=True))
    first, ninth = lines["variant-0"], lines["variant-8"]
    assert first.get_color() == ninth.get_color()
    assert (False, True) == (first.is_dashed(), ninth.is_dashed())


def _without_runs() -> ReportDocument:
    """Intervals without dots, a curve without values, and long titles."""
    words = "the probability that a run of the row scores more than one of the column"
    axis, mark = Axis(title=words), IntervalMark(label="ppo", interval=interval(1.0, 0.5))
    four_panels = tuple(Panel(title=words, axis=axis, marks=(mark,)) for _ in range(4))
    blocks = (
        replace(
            curves(FigureLine(label="ppo", x=(0.0, 1.0), y=(1.0, 2.0))),
            x=axis,
            y=axis,
            title=words,
        ),
        replace(curves(*(FigureLine(label=n, x=(0.0, 1.0), y=y) for n, y in GAPS)), name="gaps"),
        IntervalFigure(name="i", title=words, panels=four_panels),
        Matrix(name="m", title=words, labels=("ppo", "a2c"), values=((None, mark.interval),) * 2),
    )
    part = SectionContent(name="p", title="", blocks=blocks)
    return ReportDocument(title="", subtitle="", labels=("ppo", "a2c"), parts=(part,), version="0")


@pytest.mark.parametrize(
    "make",
    [
        *(many_labels, SAMPLES["hostile"], SAMPLES["hostile_sweep"], _without_runs),
        *(pytest.param(make, marks=long) for make in (typical, one_run, SAMPLES["sweep"])),
    ],
)
def test_nothing_overlaps(make: Callable[[], ReportDocument]) -> None:
    """Legends do not touch axes, ticks do not touch each other, and all is on the page."""
    for figure in _figures(make):
        figure.draw_without_rendering()
        page = figure.bbox.padded(1)
        boxes = [axes.get_tightbbox() for axes in figure.axes]
        for legend in figure.legends:
            box = legend.get_window_extent()
            assert not [other for other in boxes if box.overlaps(other)]
            assert page.contains(box.x0, box.y0)
            assert page.contains(box.x1, box.y1)
        for axes, box in zip(figure.axes, boxes, strict=True):
            assert page.contains(box.x0, box.y0)
            assert page.contains(box.x1, box.y1)
            ticks = [
                t.get_window_extent() for t in axes.get_xticklabels() if t.get_rotation() == 0
            ]
            assert not [1 for a, b in pairwise(ticks) if a.x1 > b.x0]


def test_widths_are_those_of_columns() -> None:
    """Curves are one column wide, several panels two columns."""
    widths = {figure.get_figwidth() for figure in _figures(many_labels)}
    assert {SINGLE_COLUMN, DOUBLE_COLUMN} == widths
    assert SINGLE_COLUMN == draw(panels()).get_figwidth()


@pytest.mark.parametrize("name", NAMES)
def test_names_are_only_words(name: str) -> None:
    """No name is read as a formula or missing in the legend, and the font has every character."""
    figure = curves(
        FigureLine(label=name, x=(0.0, 1.0), y=(0.0, 1.0)), title=name, marks=((name, 0.5),)
    )
    drawn_figure = draw(figure)
    assert [label(name)] == [text.get_text() for text in drawn_figure.legends[0].get_texts()]
    assert not [text for text in drawn_figure.findobj(Text) if text.get_parse_math()]
    part = SectionContent(name="p", title="", blocks=(figure,))
    study = ReportDocument(title="", subtitle="", labels=(name,), parts=(part,), version="0")
    assert ["f.svg"] == list(draw_figures(study, ("svg",)))
