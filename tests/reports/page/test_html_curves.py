"""Curves of the page as paths in a square of 10,000 units."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from study_samples import empty

from rlexp.reports.drawing.blocks import Axis, FigureLine, LineFigure
from rlexp.reports.drawing.palette import Style
from rlexp.reports.page.curves import LinePlot, line_plot

LOOK = {"ppo": Style(0), "a2c": Style(1)}
UNIT = Axis(title="x", low=0, high=4)
SHARE = Axis(title="y", low=0, high=1)
RISE = FigureLine(label="ppo", x=(0, 2, 4), y=(0, 0.5, 1))


def plot_of(*lines: FigureLine) -> LinePlot:
    """The plot of these lines, with x from 0 to 4 and y from 0 to 1."""
    return line_plot(LineFigure(name="f", title="f", x=UNIT, y=SHARE, lines=lines), LOOK)


def paths(plot: LinePlot) -> list[tuple[str, str]]:
    """Kind and data of each path."""
    return [(path.kind, path.d) for path in plot.paths]


def test_a_curve_goes_from_point_to_point() -> None:
    """A path connects the points, with y downwards as on a page."""
    assert [("line", "M0 10000L5000 5000L10000 0")] == paths(plot_of(RISE))


def test_a_gap_stays_a_gap() -> None:
    """No line crosses a gap, and a point between two gaps is a dot."""
    line = FigureLine(label="ppo", x=(0, 1, 2, 3, 4), y=(0, 0, None, float("nan"), 1))
    assert [("line", "M0 10000L2500 10000"), ("point", "M10000 0L10000 0")] == paths(plot_of(line))


def test_stairs_hold_their_value_until_the_next() -> None:
    """A step line keeps its value until the next point."""
    line = replace(RISE, y=(1, 0.5, 0), steps=True)
    assert [("line", "M0 0L5000 0L5000 5000L10000 5000L10000 10000")] == paths(plot_of(line))


def test_a_band_is_a_ring_behind_its_line() -> None:
    """The path of a band follows the high ends, and returns along the low ends."""
    line = replace(RISE, low=(0, 0.25, None), high=(0.5, 0.75, 1))
    ring = "M0 5000L5000 2500L5000 7500L0 10000Z"
    assert [("band", ring), ("line", "M0 10000L5000 5000L10000 0")] == paths(plot_of(line))


def test_single_runs_lie_between_bands_and_aggregates() -> None:
    """The drawing order does not depend on the order in the report."""
    line = replace(RISE, low=RISE.y, high=RISE.y)
    kinds = [kind for kind, _ in paths(plot_of(line, replace(RISE, faint=True)))]
    assert ["band", "faint", "line"] == kinds


@pytest.mark.parametrize(("runs", "expected"), [(0, 0), (10, 0), (11, 1), (30, 1), (31, 2)])
def test_many_runs_are_fainter(runs: int, expected: int) -> None:
    """Many runs of one label are drawn fainter; runs of other labels do not count."""
    other_runs = [replace(RISE, label="a2c", faint=True)] * 5
    ppo_runs = [replace(RISE, faint=True)] * runs
    assert expected == plot_of(RISE, *ppo_runs, *other_runs).crowd


def test_the_script_gets_aggregates_only() -> None:
    """The data for the script has six significant digits, and null for non-finite values."""
    line = replace(RISE, y=(0.12345678, float("inf"), None), low=(0, None, 1), high=(1, 1, 1))
    data = plot_of(line, replace(RISE, faint=True)).data
    assert data is not None
    assert {"low": 0, "high": 1, "log": False, "title": "y", "digits": 3} == data["y"]
    expected = {
        "label": 0,
        "x": [0, 2, 4],
        "y": [0.123457, None, None],
        "low": [0, None, 1],
        "high": [1, 1, 1],
    }
    assert [expected] == data["curves"]


def test_zero_has_no_position_on_a_log_axis() -> None:
    """A value without a logarithm appears neither in the path nor in the data."""
    line = FigureLine(label="ppo", x=(0, 1, 10, 100), y=(5, 2, 0, 1))
    log = Axis(title="x", log=True)
    plot = line_plot(LineFigure(name="f", title="f", x=log, y=log, lines=(line,)), LOOK)
    assert plot.data is not None
    assert [None, 2, None, 1] == plot.data["curves"][0]["y"]
    assert ["point"] == [path.kind for path in plot.paths]


def test_a_threshold_is_in_view() -> None:
    """The axis includes a marked height, and the mark has its position."""
    axis = Axis(title="y")
    figure = LineFigure(
        name="f", title="f", x=UNIT, y=axis, lines=(RISE,), marks=(("solved", 3.0), ("no", -1.0))
    )
    (_, high), (_, low) = line_plot(figure, LOOK).marks
    assert 0 < high < low < 100
    clipped = line_plot(replace(figure, y=SHARE), LOOK)
    assert [-200, 200] == [round(at) for _, at in clipped.marks]


def test_lines_beyond_the_axes_are_cut() -> None:
    """A plot is inside only if no curve leaves the axes."""
    assert plot_of(RISE).inside
    assert not plot_of(replace(RISE, y=(0, 0.5, 1.2))).inside


def test_nothing_is_drawn_of_nothing() -> None:
    """A figure without lines, or with gaps only, has no paths."""
    figures = [b for b in empty().parts[0].blocks if isinstance(b, LineFigure)]
    plots = [line_plot(figure, LOOK) for figure in figures]
    assert [([], None)] * 2 == [(list(plot.paths), plot.data) for plot in plots]


@given(st.lists(st.none() | st.floats(-1e6, 1e6), min_size=2, max_size=20))
def test_paths_are_pairs_within_the_square(y: list[float | None]) -> None:
    """Paths consist of pairs of integers, which the script parses."""
    line = FigureLine(label="a2c", x=tuple(map(float, range(len(y)))), y=tuple(y))
    figure = LineFigure(name="f", title="f", x=Axis(title="x"), y=Axis(title="y"), lines=(line,))
    plot = line_plot(figure, LOOK)
    assert plot.inside
    points = sum(len(re.findall(r"\d+ \d+", path.d)) for path in plot.paths)
    dots = sum(path.kind == "point" for path in plot.paths)
    assert (len(y) - y.count(None) > 0) == (points > 0)
    assert dots <= 1
    for path in plot.paths:
        assert re.fullmatch(r"(M\d+ \d+(L\d+ \d+)+)+", path.d)
