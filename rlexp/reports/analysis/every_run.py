"""Column of single runs, for tables whose estimates are of few runs."""

from dataclasses import replace

from rlexp.metrics.estimate import Estimate
from rlexp.metrics.estimate_text import every_run
from rlexp.reports.drawing.blocks import REMARK_COLUMN, Table, TableColumn, Value

EVERY_RUN = TableColumn(title="every run")
"""The scores behind the estimates of a row, rising; semicolons separate tasks."""


def with_every_run(table: Table, of: str | None = None) -> Table:
    """The table with a column of the runs behind its estimates, where a row has few runs.

    The column stands at the end, or before the remarks.

    Args:
        table: Table whose estimates hold the scores of their runs.
        of: Title of the only column whose runs are listed; `None` lists those of all columns.
    """
    listed = [_runs(table, row, of) for row in table.rows]
    if not any(listed):
        return table
    at = len(table.columns) - (table.columns[-1:] == (REMARK_COLUMN,))
    return replace(
        table,
        columns=(*table.columns[:at], EVERY_RUN, *table.columns[at:]),
        rows=tuple(
            (*row[:at], runs, *row[at:]) for row, runs in zip(table.rows, listed, strict=True)
        ),
    )


def _runs(table: Table, row: tuple[Value, ...], of: str | None) -> str | None:
    """The runs of a row, with column titles where its estimates are of different runs."""
    shared: dict[tuple[tuple[float, ...], ...], tuple[list[str], str]] = {}
    for column, value in zip(table.columns, row, strict=True):
        if isinstance(value, Estimate) and value.runs and of in {None, column.title}:
            titles, _ = shared.setdefault(value.runs, ([], every_run(value)))
            titles.append(column.title)
    if len(shared) > 1:
        return " · ".join(f"{', '.join(titles)}: {runs}" for titles, runs in shared.values())
    return next((runs for _, runs in shared.values()), None)
