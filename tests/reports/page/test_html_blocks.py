"""Tables, forest plots and matrices of the page."""

from dataclasses import replace

import pytest
from study_blocks import forest as forest_figure
from study_blocks import impossible, interval, matrix, without_intervals
from study_samples import LABELS

from rlexp.reports.drawing.blocks import (
    Axis,
    IntervalFigure,
    IntervalMark,
    Panel,
    Table,
    TableColumn,
    Value,
)
from rlexp.reports.drawing.palette import Style
from rlexp.reports.page.grids import shade_step, shaded_matrix
from rlexp.reports.page.intervals import forest_plot
from rlexp.reports.page.tables import cell, drawn_table

LOOKS = {label: Style(k) for k, label in enumerate(LABELS)}


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (None, "missing", "—"),
        (True, "yes", "yes"),
        (False, "no", "no"),
        (20_000, "number", "20,000"),
        (-0.126, "number", "−0.13"),
        ("ppo", "words", "ppo"),
        (interval(0.5, 0.125), "interval", "0.50"),
        (impossible(0.5), "estimate", "0.50"),
    ],
)
def test_each_value_looks_like_what_it_is(value: Value, kind: str, text: str) -> None:
    """A boolean is not shown as a number, and a missing value not as zero."""
    table_cell = cell(value, TableColumn(title="x"), LOOKS)
    assert (kind, text) == (table_cell.kind, table_cell.text)


def test_a_label_has_its_colour() -> None:
    """A known label in a column of labels is shown with its colour."""
    column = TableColumn(title="label", label=True)
    assert ("label", Style(1)) == (
        (table_cell := cell("a2c", column, LOOKS)).kind,
        table_cell.style,
    )
    assert "words" == cell("all", column, LOOKS).kind


def test_only_short_coverage_is_marked() -> None:
    """An interval is marked with † if its expected coverage is below 90 %."""
    too_narrow = [
        cell(interval(0.5, 0.1, coverage=c), TableColumn(title="x"), LOOKS).too_narrow
        for c in (0.89, 0.9, 0.95)
    ]
    assert [True, False, False] == too_narrow
    unknown = replace(interval(0.5, 0.1), coverage=None)
    assert not cell(unknown, TableColumn(title="x"), LOOKS).too_narrow


def test_numbers_stand_to_the_right() -> None:
    """Columns of numbers are aligned right, unlike columns of texts and booleans."""
    columns = tuple(TableColumn(title=t) for t in "abcd")
    rows = ((1, "x", True, None), (None, 2, False, None))
    table = Table(name="t", title="t", columns=columns, rows=rows)
    assert [True, False, False, True] == list(drawn_table(table, LOOKS).numeric)
    assert [False] * 4 == list(drawn_table(replace(table, rows=()), LOOKS).numeric)


def test_long_tables_scroll() -> None:
    """A table with more than thirty rows scrolls."""
    table = Table(name="t", title="t", columns=(TableColumn(title="n"),), rows=((1,),) * 30)
    assert not drawn_table(table, LOOKS).long
    assert drawn_table(replace(table, rows=((1,),) * 31), LOOKS).long


def panel(*marks: IntervalMark, marked: tuple[tuple[str, float], ...] = ()) -> IntervalFigure:
    """A figure with one panel from 0 to 10."""
    axis = Axis(title="score", low=0, high=10)
    single_panel = Panel(title="IQM", axis=axis, marks=marks, marked=marked)
    return IntervalFigure(name="f", title="f", panels=(single_panel,))


def test_an_interval_lies_on_its_axis() -> None:
    """Intervals, runs and marked values are positioned in per cent of the axis."""
    mark = IntervalMark(label="ppo", interval=interval(5.0, 2.0), dots=(1.0, 9.0, float("nan")))
    (panel_plot,) = forest_plot(panel(mark, marked=(("solved", 7.5),)), LOOKS).panels
    (row,) = panel_plot.rows
    assert (50, (30, 70), [10, 90]) == (row.at, row.bar, row.dots)
    assert ("5.0", "[3.0, 7.0]") == (row.estimate, row.ends)
    assert [("solved 7.5", 75)] == panel_plot.marked
    assert ["0", "2", "4", "6", "8", "10"] == [tick.text for tick in panel_plot.ticks]


def test_no_interval_is_an_estimate_alone() -> None:
    """A value without an interval is an estimate, and its tooltip contains the reason."""
    (panel_plot,) = forest_plot(
        panel(IntervalMark(label="a2c", interval=impossible(5.0))), LOOKS
    ).panels
    (row,) = panel_plot.rows
    assert (None, 50, "no interval") == (row.bar, row.at, row.ends)
    assert "a2c\n5.0 (no interval: one run has no spread" in row.tooltip


def test_a_panel_without_numbers_has_no_axis() -> None:
    """The rows of a panel without finite values have texts only."""
    (panel_plot,) = forest_plot(
        panel(IntervalMark(label="a2c", interval=impossible(float("nan")))), LOOKS
    ).panels
    assert ([], None, "not a number") == (
        list(panel_plot.ticks),
        panel_plot.rows[0].at,
        panel_plot.rows[0].estimate,
    )


@pytest.mark.parametrize(
    ("panels", "label", "expected"),
    [(1, "a", 1), (3, "a", 3), (4, "a", 4), (4, "a long name", 2), (6, "a", 3), (8, "a", 4)],
)
def test_panels_share_the_width(panels: int, label: str, expected: int) -> None:
    """The number of panels side by side depends on the length of the labels."""
    one_panel = panel(IntervalMark(label=label, interval=interval(5.0, 2.0)))
    figure = replace(one_panel, panels=one_panel.panels * panels)
    assert expected == forest_plot(figure, {label: Style(0)}).columns


def test_the_mark_of_a_forest_plot_is_explained() -> None:
    """The note on † appears only if † is used."""
    figure = forest_figure(LABELS)
    assert ("Dots are runs.",) == forest_plot(figure, LOOKS).notes
    too_narrow = panel(IntervalMark(label="ppo", interval=interval(5.0, 2.0, coverage=0.7)))
    assert ("† Too narrow: expected coverage below 90 %.",) == forest_plot(too_narrow, LOOKS).notes
    assert ("Dots are runs.",) == forest_plot(without_intervals(figure), LOOKS).notes


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.0, -10), (0.5, 0), (1.0, 10), (0.71, 4), (2.0, 10), (-1.0, -10), (float("nan"), 0)],
)
def test_shades_are_even(value: float, expected: int) -> None:
    """There are ten shades on each side of the middle; values outside get the last shade."""
    assert expected == shade_step(value, 0.0, 1.0)
    assert -expected == shade_step(-value, -1.0, 0.0)


def test_a_scale_without_width_has_no_shades() -> None:
    """A scale whose ends are equal gives the middle shade and no division by zero."""
    assert 0 == shade_step(1.0, 1.0, 1.0)


def test_pairs_stand_row_against_column() -> None:
    """Each pair has its number, interval and tooltip; the diagonal is empty."""
    shaded = shaded_matrix(matrix(("ppo", "a2c")), LOOKS)
    first_row = shaded.rows[0].pairs
    assert ["", "0.92"] == [pair.estimate for pair in first_row]
    assert ("[0.85, 0.99]", 8) == (first_row[1].ends, first_row[1].shade)
    assert first_row[1].tooltip.startswith("ppo against a2c\n0.92 [0.85, 0.99]\n")
    assert [(-10, "0.00"), (0, "0.50"), (10, "1.00")] == [k for k in shaded.key if k[1]]


def test_a_missing_pair_is_told_from_the_diagonal() -> None:
    """A missing pair is shown as a dash, and a cell of the diagonal is empty."""
    figure = replace(matrix(("ppo", "a2c")), values=((None, None), (None, None)))
    pairs = [[pair.estimate for pair in row.pairs] for row in shaded_matrix(figure, LOOKS).rows]
    assert [["", "—"], ["—", ""]] == pairs
