"""Publication figures of curves, intervals and pairs."""

import math
from collections.abc import Iterator

import pytest
from figure_blocks import STEPS, curves, draw, panels, texts
from study_blocks import impossible, interval

from rlexp.reports.drawing.blocks import (
    Axis,
    FigureLine,
    IntervalFigure,
    IntervalMark,
    Matrix,
    Panel,
)
from rlexp.reports.drawing.palette import LIGHT
from rlexp.reports.figures.canvas import publication_style
from rlexp.reports.figures.grids import pair_colour

pytest.importorskip("matplotlib")


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    with publication_style():
        yield


def test_ticks_are_short() -> None:
    """Ticks write thousands with k, and a minus as U+2212."""
    line = FigureLine(label="ppo", x=(0.0, 1e5), y=(-200.0, 0.0))
    figure_texts = texts(draw(curves(line)))
    assert {"20k", "100k", "−200"} <= set(figure_texts)


def test_a_log_axis_has_decades() -> None:
    """A logarithmic axis has ticks at powers of ten; zero is left out."""
    axis = Axis(title="steps", log=True)
    line = FigureLine(label="ppo", x=(0.0, 1.0, 1e4), y=(5.0, 1.0, 2.0))
    figure = draw(curves(line, x=axis))
    assert "log" == figure.axes[0].get_xscale()
    assert {"1", "100", "10k"} <= set(texts(figure))


def test_what_has_no_logarithm_leaves_a_gap() -> None:
    """On a logarithmic axis zero is a gap, in curves and in bands."""
    axis = Axis(title="return", log=True)
    y = (1.0, 0.0, 10.0, 20.0)
    line = FigureLine(label="ppo", x=(0.0, 1.0, 2.0, 3.0), y=y, low=y, high=(2.0, 2.0, 20.0, 30.0))
    curve, single_point = draw(curves(line, y=axis, marks=(("zero", 0.0),))).axes[0].lines
    assert [True, False, True, True] == list(map(math.isfinite, curve.get_ydata()))
    assert [0.0] == list(single_point.get_xdata())
    mark = IntervalMark(label="ppo", interval=interval(1.0, 2.0), dots=(0.0, 2.0))
    panel = Panel(title="P", axis=axis, marks=(mark,), marked=(("zero", 0.0),))
    axes = draw(IntervalFigure(name="f", title="", panels=(panel,))).axes[0]
    dots, bar, _ = axes.lines
    assert [2.0] == list(dots.get_xdata())
    assert [axes.get_xlim()[0], 3.0] == list(bar.get_xdata())


def test_a_band_and_a_gap_are_drawn() -> None:
    """A curve and its band are interrupted where there is no value."""
    line = FigureLine(
        label="ppo",
        x=(0.0, 1.0, 2.0, 3.0),
        y=(1.0, 1.0, None, 1.0),
        low=(0.5, 0.5, None, 0.5),
        high=(2.0, 2.0, None, 2.0),
    )
    axes = draw(curves(line)).axes[0]
    band = axes.collections[0].get_datalim(axes.transData)
    assert (0.5, 2.0) == (band.y0, band.y1)
    curve, single_point = axes.lines
    assert [1.0, 1.0] == list(curve.get_ydata()[:2])
    assert (curve.get_ydata()[2] != curve.get_ydata()[2], [3.0]) == (
        True,
        list(single_point.get_xdata()),
    )
    assert "o" == single_point.get_marker()


def test_stairs_keep_their_height_until_the_next_point() -> None:
    """A step line keeps its height until the next point."""
    x, y = (0.0, 1.0, 2.0), (1.0, 0.5, 0.25)
    axes = draw(curves(FigureLine(label="ppo", x=x, y=y, low=y, high=y, steps=True))).axes[0]
    assert "steps-post" == axes.lines[0].get_drawstyle()
    corners = {(float(a), float(b)) for a, b in axes.collections[0].get_paths()[0].vertices}
    assert {(0.0, 1.0), (1.0, 1.0), (1.0, 0.5), (2.0, 0.5), (2.0, 0.25)} == corners


def test_many_runs_are_paler_than_few() -> None:
    """A hundred runs are paler than four, so that they do not hide the aggregate."""
    runs = [
        FigureLine(label="ppo", x=(0.0, 1.0), y=(0.0, float(k)), faint=True) for k in range(100)
    ]
    few, many = (draw(curves(*lines)).axes[0].collections[0] for lines in (runs[:4], runs))
    assert (4, 100) == (len(few.get_segments()), len(many.get_segments()))
    assert (0.225, 0.045) == (few.get_alpha(), many.get_alpha())


def test_runs_of_two_labels_keep_their_colours() -> None:
    """Runs keep the colour of their label in any order."""
    runs = [
        FigureLine(label=name, x=(0.0, 1.0), y=(0.0, 1.0), faint=True)
        for name in ("ppo", "a2c", "ppo")
    ]
    collections = draw(curves(*runs)).axes[0].collections
    assert 3 == sum(len(collection.get_segments()) for collection in collections)
    assert 2 == len({tuple(collection.get_color()[0]) for collection in collections})


def test_an_interval_is_a_bar_with_its_runs() -> None:
    """An estimate is a filled marker, its interval a bar, and its runs are dots."""
    mark = IntervalMark(label="ppo", interval=interval(1.0, 0.5, coverage=0.85), dots=(0.75, 1.25))
    axes = draw(panels(mark)).axes[0]
    dots, bar, estimate = axes.lines
    assert [0.75, 1.25] == list(dots.get_xdata())
    assert ([0.5, 1.5], [0, 0]) == (list(bar.get_xdata()), list(bar.get_ydata()))
    assert (LIGHT[0], 1.0) == (estimate.get_markerfacecolor(), estimate.get_xdata()[0])
    assert "†" in texts(axes.figure)


def test_an_impossible_interval_is_an_open_marker() -> None:
    """A value without an interval has an open marker, a ‡, and no bar."""
    axes = draw(panels(IntervalMark(label="ppo", interval=impossible(1.0)))).axes[0]
    (estimate,) = axes.lines
    assert "white" == estimate.get_markerfacecolor()
    assert "‡" in texts(axes.figure)


def test_panels_share_their_rows() -> None:
    """The row of a label is empty in a panel that lacks the label."""
    marks = tuple(IntervalMark(label=name, interval=interval(1.0, 0.5)) for name in ("ppo", "a2c"))
    both_panels = (
        Panel(title="one", axis=STEPS, marks=marks),
        Panel(title="two", axis=STEPS, marks=marks[1:]),
    )
    axes = draw(IntervalFigure(name="f", title="", panels=both_panels)).axes
    assert axes[0].get_ylim() == axes[1].get_ylim()
    assert 1 == axes[1].lines[-1].get_ydata()[0]


def test_panels_wrap() -> None:
    """Up to four panels stand side by side; more form rows of similar length."""
    mark = IntervalMark(label="ppo", interval=interval(1.0, 0.5))
    shapes = {}
    for n in (1, 2, 4, 5, 6, 7, 9, 12):
        axes = draw(panels(mark, panels=n)).axes
        shapes[n] = axes[0].get_subplotspec().get_gridspec().get_geometry()
    expected = {1: (1, 1), 2: (1, 2), 4: (1, 4), 5: (2, 3), 6: (2, 3), 7: (2, 4), 9: (3, 3)}
    assert expected | {12: (3, 4)} == shapes


def test_a_matrix_shows_numbers_and_intervals() -> None:
    """A cell of a matrix has its value and interval, or ‡; the diagonal is empty."""
    values = ((None, interval(0.75, 0.1)), (impossible(0.25), None))
    matrix = Matrix(name="f", title="Pairs", labels=("ppo", "a2c"), values=values)
    figure_texts = texts(draw(matrix))
    assert {"0.75", "[0.65, 0.85]", "0.25‡", "Pairs"} <= set(figure_texts)


def test_shades_run_from_orange_over_white_to_blue() -> None:
    """The middle shade is white, and values outside have the colour of the nearer end."""
    assert (1.0, 1.0, 1.0) == pair_colour(0.5, 0.0, 1.0) == pair_colour(float("nan"), 0.0, 1.0)
    assert pair_colour(1.0, 0.0, 1.0) == pair_colour(7.0, 0.0, 1.0)
    red, green, blue = pair_colour(1.0, 0.0, 1.0)
    assert red < green < blue
    red, green, blue = pair_colour(0.0, 0.0, 1.0)
    assert red > green > blue


def test_an_empty_figure_says_so() -> None:
    """A figure without values has the text "nothing to show"."""
    empty = (
        curves(),
        panels(),
        IntervalFigure(name="f", title="", panels=()),
        Matrix(name="f", title="", labels=("ppo",), values=((None,),)),
    )
    for block in empty:
        assert "nothing to show" in texts(draw(block))
