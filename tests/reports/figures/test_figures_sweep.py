"""Publication figures of sweeps: scatter plots and parallel coordinates."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from figure_blocks import NAMES, texts
from trial_samples import sweep_of

from rlexp.reports.drawing.blocks import (
    Axis,
    Coordinate,
    Figure,
    FigureLine,
    ParallelFigure,
    PointSeries,
    ReportDocument,
    ScatterFigure,
    SectionContent,
    TrialLine,
)
from rlexp.reports.drawing.palette import LIGHT, RISING_LIGHT, styles
from rlexp.reports.figures import draw_figure, draw_figures
from rlexp.reports.figures.canvas import DOUBLE_COLUMN, SINGLE_COLUMN, publication_style
from rlexp.reports.figures.scatter import MARKERS
from rlexp.reports.page.html import PATHS

pytest.importorskip("matplotlib")

RETURN = Axis(title="return", low=0, high=1)
UNIT = Coordinate(title="unit", low=0, high=4)
POINTS = ScatterFigure(
    name="f",
    title="Points",
    x=Axis(title="steps", low=0, high=4),
    y=RETURN,
    clouds=(
        PointSeries(label="complete", x=(1.0, 2.0), y=(0.25, 0.5), names=("a", "b")),
        PointSeries(label="pruned", x=(3.0,), y=(0.75,), names=("c",)),
    ),
)
THREADS = ParallelFigure(
    name="f",
    title="Threads",
    coordinates=(UNIT, UNIT, Coordinate(title="choice", names=("tanh", "relu"))),
    threads=(
        TrialLine(name="low", values=(0.0, 2.0, 0.0), value=0.0),
        TrialLine(name="high", values=(4.0, None, 1.0), value=1.0),
        TrialLine(name="grey", values=(1.0, 1.0, None), value=None),
    ),
    colour=RETURN,
)


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    with publication_style():
        yield


def study(block: Figure) -> ReportDocument:
    """A study of one figure."""
    part = SectionContent(name="p", title="", blocks=(block,))
    return ReportDocument(title="", subtitle="", labels=(), parts=(part,), version="0")


def draw(block: Figure, **changes: Any) -> Any:
    """The Matplotlib figure of a block with these changes."""
    changed_block = replace(block, **changes)
    return draw_figure(changed_block, styles(study(changed_block)))


def test_clouds_differ_in_colour_and_marker() -> None:
    """Point series differ in colour and marker, in the axes and in the legend."""
    figure = draw(POINTS)
    complete, pruned = figure.axes[0].lines
    assert ([1, 2], [0.25, 0.5]) == (list(complete.get_xdata()), list(complete.get_ydata()))
    assert [("o", LIGHT[0]), ("x", LIGHT[1])] == [
        (line.get_marker(), line.get_markerfacecolor()) for line in (complete, pruned)
    ]
    keys = figure.legends[0].get_lines()
    assert ["o", "x"] == [key.get_marker() for key in keys]
    assert SINGLE_COLUMN == figure.get_figwidth()


def test_every_shape_has_a_marker() -> None:
    """Each shape of the page has a different marker."""
    assert PATHS.keys() == MARKERS.keys()
    assert len(MARKERS) - 1 == len({marker for marker, _ in MARKERS.values()})


def test_stairs_and_marks_lie_behind_points() -> None:
    """Step lines lie behind points, and lines and marks are in the legend."""
    line = FigureLine(label="best", x=(0.0, 4.0), y=(0.25, 0.75), steps=True)
    figure = draw(POINTS, lines=(line,), marks=(("solved", 0.9),))
    stairs = next(n for n in figure.axes[0].lines if n.get_drawstyle() == "steps-post")
    points = [n for n in figure.axes[0].lines if n.get_marker() in {"o", "x"}]
    assert all(stairs.get_zorder() < cloud.get_zorder() for cloud in points)
    assert {"solved 0.90", "best", "complete", "pruned"} <= set(texts(figure))


def test_named_ticks_are_turned_where_they_need_room() -> None:
    """Short tick names are horizontal; long ones are turned."""
    short_labels, long_labels = (
        draw(POINTS, ticks=names).axes[0].get_xticklabels()
        for names in (("a", "b", "c"), ("orthogonal", "leaky_relu", "none", "xavier"))
    )
    assert (["a", "b", "c"], {0}) == (
        [text.get_text() for text in short_labels],
        {text.get_rotation() for text in short_labels},
    )
    assert {40} == {text.get_rotation() for text in long_labels}


def test_a_log_axis_has_decades() -> None:
    """A logarithmic axis has ticks at powers of ten; zero is left out."""
    cloud = PointSeries(label="complete", x=(1e-4, 1e-2, 0.0), y=(0.5,) * 3, names=("a",) * 3)
    figure = draw(POINTS, x=Axis(title="rate", log=True), clouds=(cloud,))
    assert [1e-4, 1e-2] == list(figure.axes[0].lines[0].get_xdata())
    assert {"0.0001", "0.001", "0.01"} <= set(texts(figure))


def test_many_points_are_paler() -> None:
    """Points of a long series are paler than points of a short series."""
    long_series = PointSeries(label="complete", x=(1.0,) * 400, y=(0.5,) * 400, names=("a",) * 400)
    few, crowd = (
        draw(POINTS, clouds=clouds).axes[0].lines[0] for clouds in (POINTS.clouds, (long_series,))
    )
    assert (1.0, 0.5) == (few.get_alpha(), crowd.get_alpha())


def test_trials_have_the_colour_of_their_value() -> None:
    """Grey trials are drawn first, then low and high values; missing values are gaps."""
    from matplotlib.colors import to_hex

    figure = draw(THREADS)
    grey, low, high = figure.axes[0].collections
    assert [RISING_LIGHT[0], RISING_LIGHT[11]] == [
        to_hex(lines.get_color()[0]).upper() for lines in (low, high)
    ]
    assert grey.get_zorder() < low.get_zorder() < high.get_zorder()
    assert [[(0, 0), (1, 0.5), (2, 0.25)]] == [
        [tuple(map(float, point)) for point in path] for path in low.get_segments()
    ]
    assert ([], 2) == (
        high.get_segments(),
        max(len(n.get_xdata()) for n in figure.axes[0].lines if n.get_marker() == "o"),
    )
    assert DOUBLE_COLUMN == figure.get_figwidth()


def test_the_colour_key_has_both_ends() -> None:
    """The colour key has its title and both ends; without values there is no key."""
    figure = draw(THREADS)
    assert {"0", "1", "return", "tanh", "relu", "choice"} <= set(texts(figure))
    assert 2 == len(figure.axes)
    grey = tuple(replace(thread, value=None) for thread in THREADS.threads)
    assert 1 == len(draw(THREADS, threads=grey).axes)


def test_marked_threads_have_their_names() -> None:
    """Marked trials are in front, with names and different dashes."""
    marked_threads = tuple(replace(thread, marked=True) for thread in (THREADS.threads[0],) * 2)
    named_threads = (
        replace(marked_threads[0], name="default"),
        replace(marked_threads[1], name="winner"),
    )
    figure = draw(THREADS, threads=(*THREADS.threads, *named_threads))
    assert {"default", "winner"} <= set(texts(figure))
    front = [line for line in figure.axes[0].lines if line.get_linewidth() == 1.7]
    assert [False, True] == [line.is_dashed() for line in front]
    assert all(line.get_zorder() > 5 for line in front)


def test_an_empty_figure_says_so() -> None:
    """A figure without values has the text "nothing to show"."""
    for figure in (draw(POINTS, clouds=()), draw(THREADS, threads=())):
        assert "nothing to show" in texts(figure)


@pytest.mark.parametrize("name", NAMES)
def test_names_are_only_words(name: str) -> None:
    """No name is read as a formula, and the font has every character."""
    cloud = replace(POINTS.clouds[0], label=name)
    points = replace(POINTS, title=name, clouds=(cloud,), ticks=(name, "b", "c", "d"))
    coordinate = Coordinate(title=name, names=(name,))
    thread = TrialLine(name=name, values=(0.0,), value=1.0, marked=True)
    threads = replace(THREADS, coordinates=(coordinate,), threads=(thread,), title=name)
    for block in (points, threads):
        drawn_figure = draw(block)
        assert not [text for text in drawn_figure.findobj(_text()) if text.get_parse_math()]
        drawn_figure.draw_without_rendering()


def _text() -> Any:
    from matplotlib.text import Text

    return Text


def test_every_figure_of_a_sweep_has_its_file() -> None:
    """Each figure has a file of its name, also for a sweep with only the default trial."""
    expected = {"history.svg", "threads.svg", *(f"slice-{k}.svg" for k in range(6))}
    assert expected == set(draw_figures(sweep_of(1), ("svg",)))
