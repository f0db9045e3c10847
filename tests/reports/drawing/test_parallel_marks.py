"""Layout of parallel coordinates: positions, colours and gaps of the trials."""

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlexp.reports.drawing.axes import AxisScale, Tick
from rlexp.reports.drawing.blocks import Axis, Coordinate, ParallelFigure, TrialLine
from rlexp.reports.drawing.point_layout import (
    ParallelLayout,
    apart,
    choice,
    colour_ends,
    coordinate_scale,
    coordinate_ticks,
    parallel_notes,
    strands,
)

NAN, ENDLESS = float("nan"), float("inf")
UNIT = Coordinate(title="unit", low=0, high=4)
LOG = Coordinate(title="log", low=1e-4, high=1, log=True)
CHOICE = Coordinate(title="choice", names=("tanh", "relu", "elu", "gelu"))


def thread(
    *values: float | None, value: float | None = 0.5, name: str = "trial 1", marked: bool = False
) -> TrialLine:
    """A trial with these values on the coordinates."""
    return TrialLine(name=name, values=values, value=value, marked=marked)


def parallel(*threads: TrialLine, low: float | None = 0, high: float | None = 1) -> ParallelFigure:
    """A figure of trials over three coordinates, coloured from 0 to 1."""
    return ParallelFigure(
        name="f",
        title="f",
        coordinates=(UNIT, LOG, CHOICE),
        threads=threads,
        colour=Axis(title="return", low=low, high=high),
    )


def layout_of(figure: ParallelFigure) -> ParallelLayout:
    """The layout of the trials, which must exist."""
    layout = strands(figure)
    assert layout is not None
    return layout


def test_heights_are_shares_of_each_coordinate() -> None:
    """A height is a share of the length, the logarithmic length, or the number of choices."""
    (strand,) = layout_of(parallel(thread(1, 1e-2, 2))).strands
    assert (0.25, 0.5, 0.625) == pytest.approx(strand.heights)


def test_a_missing_value_is_a_gap() -> None:
    """A missing value is a gap; a value that cannot be shown is a gap and is counted."""
    layout = layout_of(parallel(thread(1, None, NAN), thread(2, 0, 7)))
    assert [(0.25, None, None), (0.5, None, None)] == [s.heights for s in layout.strands]
    assert 3 == layout.left_out


def test_coordinates_reach_as_far_as_their_values() -> None:
    """A coordinate extends to a default outside the space, and equal ends have room."""
    assert AxisScale(-1, 4) == coordinate_scale(UNIT, (-1, 2))
    assert AxisScale(1e-4, 10, log=True) == coordinate_scale(LOG, (10, None, NAN))
    assert AxisScale(0.9, 1.1) == coordinate_scale(replace(UNIT, low=1, high=1), (1,))
    assert AxisScale(-0.5, 3.5) == coordinate_scale(CHOICE, ())
    assert None is coordinate_scale(replace(LOG, low=0, high=0), (-1, None))


def test_choices_are_ticks() -> None:
    """Each choice has a tick, and only some of very many choices are named."""
    ticks = coordinate_ticks(CHOICE, coordinate_scale(CHOICE, ()))
    assert [Tick(12.5, "tanh"), Tick(37.5, "relu")] == ticks[:2]
    many_choices = replace(CHOICE, names=tuple(map(str, range(40))))
    texts = [
        tick.text for tick in coordinate_ticks(many_choices, coordinate_scale(many_choices, ()))
    ]
    assert ["0", "3", "6"] == texts[:3]
    assert len(texts) <= 16
    assert [] == coordinate_ticks(LOG, None)


def test_numbers_are_ticks_on_their_scale() -> None:
    """A logarithmic coordinate has ticks at decades."""
    texts = [tick.text for tick in coordinate_ticks(LOG, coordinate_scale(LOG, ()))]
    assert ["0.0001", "0.001", "0.01", "0.1", "1"] == texts


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, 0), (0.5, 6), (1, 11), (7, 11), (-7, 0), (None, None), (NAN, None), (ENDLESS, None)],
)
def test_a_value_gives_the_colour(value: float | None, expected: int | None) -> None:
    """The value selects one of twelve colours, clipped at the ends, or none."""
    layout = layout_of(parallel(thread(1, 1, 1, value=value), thread(1, 1, 1)))
    assert expected in {strand.shade for strand in layout.strands}
    shades = [s.shade for s in layout.strands if s.thread.value is value]
    assert expected == shades[0]


def test_equal_values_have_the_middle_colour() -> None:
    """Equal values, and the value of a single trial, have the middle colour."""
    (strand,) = layout_of(parallel(thread(1, 1, 1, value=7), low=None, high=None)).strands
    assert 6 == strand.shade


def test_without_values_threads_have_no_colour() -> None:
    """Without values there is no colour key, and every trial is grey."""
    figure = parallel(thread(1, 1, 1, value=None), thread(1, 1, 1, value=NAN))
    layout = layout_of(figure)
    assert (None, [None, None]) == (layout.colour, [s.shade for s in layout.strands])
    assert ["2 of 2 have no value (grey)."] == parallel_notes(figure)


def test_the_key_marks_values_beyond_its_ends() -> None:
    """The ends of the colour key have a ≤ or ≥ sign if values lie beyond them."""
    inside = parallel(thread(1, 1, 1, value=0.2), thread(1, 1, 1, value=1))
    assert ("0", "1") == colour_ends(inside, AxisScale(0, 1))
    beyond = parallel(thread(1, 1, 1, value=-3), thread(1, 1, 1, value=1.5))
    assert ("≤ 0", "≥ 1") == colour_ends(beyond, AxisScale(0, 1))


def test_notes_count_grey_threads_and_hidden_values() -> None:
    """The notes count trials without a value and values that are not shown."""
    assert [] == parallel_notes(parallel(thread(1, 1, 1)))
    assert [] == parallel_notes(parallel())
    figure = parallel(thread(1, -1, 1, value=None), thread(1, 1, 1))
    assert [
        "1 of 2 has no value (grey).",
        "1 value is not shown (not finite, or outside its axis).",
    ] == parallel_notes(figure)


def test_threads_are_drawn_by_rising_value() -> None:
    """Grey trials are drawn first and marked trials last."""
    figure = parallel(
        thread(1, 1, 1, value=0.1, name="marked", marked=True),
        thread(1, 1, 1, value=0.9, name="high"),
        thread(1, 1, 1, value=None, name="grey"),
        thread(1, 1, 1, value=0.2, name="low"),
    )
    names = [strand.thread.name for strand in layout_of(figure).strands]
    assert ["grey", "low", "high", "marked"] == names


def test_no_value_has_no_layout() -> None:
    """Without threads, coordinates or values there is no layout."""
    assert None is strands(parallel())
    assert None is strands(parallel(thread(None, NAN, None)))
    assert None is strands(replace(parallel(thread()), coordinates=()))


def test_a_thread_of_another_length_is_refused() -> None:
    """A trial with too few values for the coordinates raises an error."""
    with pytest.raises(ValueError, match="zip"):
        strands(parallel(thread(1, 1)))


def test_choices_have_names() -> None:
    """Numbers stay numbers, and an invalid index of a choice has no name."""
    assert ["relu", None, None, None] == [choice(CHOICE, v) for v in (1, 9, NAN, None)]
    assert [0.25, None] == [choice(UNIT, v) for v in (0.25, None)]


@given(st.lists(st.floats(0, 100), max_size=30))
def test_names_keep_a_minimal_distance(places: list[float]) -> None:
    """Names keep the minimal distance, or an even one, inside the axis and in order."""
    positions = apart(places, least=5)
    least = min(5, 100 / max(1, len(places) - 1))
    assert all(-0.01 <= at <= 100.01 for at in positions)
    ranked = [at for _, at in sorted(zip(places, positions, strict=True))]
    assert all(b - a >= least - 0.02 for a, b in pairwise(ranked))


def test_names_that_have_room_stay() -> None:
    """Names that are too close are moved, and other names stay in place."""
    assert [10, 50, 90] == apart([10, 50, 90], least=5)
    assert [100, 95, 0] == apart([99, 98, 0], least=5)


@given(st.randoms(use_true_random=False))
def test_the_layout_does_not_depend_on_the_order(generator: random.Random) -> None:
    """Trials in another order give the same layout."""
    threads = [
        thread(k % 4, 1, k % 3, value=None if k == 4 else k % 5, name=f"trial {k}", marked=k == 3)
        for k in range(12)
    ]
    shuffled = threads.copy()
    generator.shuffle(shuffled)
    assert strands(parallel(*threads)) == strands(parallel(*shuffled))
