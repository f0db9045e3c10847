"""Layout of scatter plots: positions of points on axes and beside ticks."""

import math
import random
from dataclasses import replace
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlexp.reports.drawing.axes import AxisScale
from rlexp.reports.drawing.blocks import Axis, FigureLine, PointSeries, ScatterFigure
from rlexp.reports.drawing.point_layout import (
    PlacedPoint,
    ScatterLayout,
    left_out_note,
    scatter_layout,
    tick_name,
)

NAN, ENDLESS = float("nan"), float("inf")
UNIT = Axis(title="x", low=0, high=4)
SHARE = Axis(title="y", low=0, high=1)


def cloud(*points: tuple[float, float], label: str = "complete") -> PointSeries:
    """Points named by their numbers."""
    x, y = (tuple(p[k] for p in points) for k in (0, 1))
    return PointSeries(
        label=label, x=x, y=y, names=tuple(f"trial {k}" for k in range(len(points)))
    )


def scatter(
    *clouds: PointSeries, x: Axis = UNIT, y: Axis = SHARE, ticks: tuple[str, ...] = ()
) -> ScatterFigure:
    """A figure of these point series."""
    return ScatterFigure(name="f", title="f", x=x, y=y, clouds=clouds, ticks=ticks)


def layout_of(figure: ScatterFigure) -> ScatterLayout:
    """The layout of a figure, which must exist."""
    layout = scatter_layout(figure)
    assert layout is not None
    return layout


def test_points_keep_their_coordinates() -> None:
    """Points keep their coordinates, on axes with fixed ends."""
    layout = layout_of(scatter(cloud((0, 0.5), (4, 1))))
    assert (AxisScale(0, 4), AxisScale(0, 1), 0) == (layout.x, layout.y, layout.left_out)
    assert ((PlacedPoint(0, 0, 0.5), PlacedPoint(1, 4, 1)),) == layout.clouds


def test_axes_frame_points_curves_and_marks() -> None:
    """Without fixed ends, axes extend 2 % horizontally and 4 % vertically beyond the data."""
    line = FigureLine(label="best", x=(0, 10), y=(0, 100), steps=True)
    axis = Axis(title="")
    figure = replace(scatter(cloud((5, 50)), x=axis, y=axis), lines=(line,), marks=(("m", 200),))
    layout = layout_of(figure)
    assert (AxisScale(0, 10.2), AxisScale(0, 208)) == (layout.x, layout.y)


def test_points_that_are_not_shown_are_counted() -> None:
    """Points that are not finite, have no logarithm or lie outside the axes are counted."""
    log = Axis(title="x", log=True)
    figure = scatter(
        cloud((1, 0.5), (0, 0.5), (-1, 0.5), (10, NAN), (ENDLESS, 0.5), (2, 7)), x=log
    )
    layout = layout_of(figure)
    assert ([0], 5) == ([place.number for place in layout.clouds[0]], layout.left_out)
    assert "5 points are not shown (not finite, or outside the axes)." == left_out_note(figure)
    one_outside = scatter(cloud((1, 0.5), (1, 2)))
    assert "1 point is not shown (not finite, or outside the axes)." == left_out_note(one_outside)
    assert "" == left_out_note(scatter(cloud((1, 0.5))))


def test_no_point_has_no_layout() -> None:
    """A figure without finite points has no layout, and its note counts the other points."""
    assert None is scatter_layout(scatter())
    figure = scatter(cloud((NAN, 1), (1, NAN)), ticks=("a", "b"))
    assert None is scatter_layout(figure)
    assert left_out_note(figure).startswith("2 points are not shown")
    assert "" == left_out_note(scatter())


def test_a_point_alone_stands_above_its_tick() -> None:
    """A single point stays at its tick, and points with neighbours are moved near it."""
    figure = scatter(cloud((0, 0.5), (1, 0.1), (1, 0.2), (1, 0.3)), ticks=("tanh", "relu"))
    layout = layout_of(figure)
    assert AxisScale(-0.5, 1.5) == layout.x
    single_point, *others = layout.clouds[0]
    assert 0 == single_point.x
    assert [True] * 3 == [0.7 <= place.x <= 1.3 and place.x != 1 for place in others]
    assert ["relu"] * 3 == [tick_name(figure, place.x) for place in others]


def test_equal_points_do_not_hide_each_other() -> None:
    """A hundred equal points are spread within 0.3 of their tick."""
    figure = scatter(cloud(*[(0, 0.5)] * 100), ticks=("tanh",))
    xs = sorted(place.x for place in layout_of(figure).clouds[0])
    assert -0.3 <= xs[0] < -0.28
    assert 0.28 < xs[-1] <= 0.3
    assert min(b - a for a, b in pairwise(xs)) > 0.002


def test_ticks_have_names_at_their_index() -> None:
    """A position near a tick has the name of the tick, and other positions have none."""
    figure = scatter(ticks=("tanh", "relu"))
    assert ["tanh", "relu", None, None, None] == [
        tick_name(figure, x) for x in (-0.3, 1.3, 1.6, -1, NAN)
    ]
    assert None is tick_name(scatter(), 0)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5)), min_size=1, max_size=30),
    st.randoms(use_true_random=False),
)
def test_the_layout_does_not_depend_on_the_order(
    points: list[tuple[int, int]], generator: random.Random
) -> None:
    """Points in another order give the same layout."""
    named_points = [(float(a), float(b), f"trial {k}") for k, (a, b) in enumerate(points)]

    def positions(order: list[tuple[float, float, str]]) -> set[tuple[str, float, float]]:
        x, y, names = zip(*order, strict=True)
        series = PointSeries(label="complete", x=x, y=y, names=names)
        (placed_points,) = layout_of(
            scatter(series, y=Axis(title=""), ticks=("a", "b", "c"))
        ).clouds
        return {(names[p.number], p.x, p.y) for p in placed_points}

    shuffled = named_points.copy()
    generator.shuffle(shuffled)
    assert positions(named_points) == positions(shuffled)


@pytest.mark.parametrize("count", [2, 5, 40])
def test_neighbours_in_height_have_different_offsets(count: int) -> None:
    """No two of three neighbours in height have the same offset."""
    points = [(0.0, k / count) for k in range(count)]
    xs = [place.x for place in layout_of(scatter(cloud(*points), ticks=("a",))).clouds[0]]
    neighbours = [(a, b) for k in range(count) for a, b in combinations(xs[k : k + 3], 2)]
    assert all(not math.isclose(a, b, abs_tol=0.01) for a, b in neighbours)
