"""Tables and notes as unescaped text, which Markdown and LaTeX then escape."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from rlexp.metrics.estimate_text import (
    digits_of,
    ends,
    footnotes,
    no_interval,
    possible,
    too_narrow,
)
from rlexp.reports.drawing.blocks import (
    Figure,
    IntervalFigure,
    Matrix,
    ParallelFigure,
    ScatterFigure,
    Table,
    TableColumn,
    Value,
)
from rlexp.reports.drawing.point_layout import left_out_note, parallel_notes
from rlexp.stats.interval import Interval
from rlexp.text import format_number, format_value


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTable:
    """A table of texts; `numeric` says which columns are aligned to the right."""

    titles: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: Sequence[bool]
    notes: Sequence[str]


def as_text_table(table: Table) -> TextTable:
    """Convert every value of a table into text."""
    every = [value for row in table.rows for value in row if isinstance(value, Interval)]
    columns = range(len(table.columns))
    return TextTable(
        titles=[column.title for column in table.columns],
        rows=[
            [cell(v, column) for v, column in zip(row, table.columns, strict=True)]
            for row in table.rows
        ],
        numeric=[_numeric([row[k] for row in table.rows]) for k in columns],
        notes=[*([table.note] if table.note else []), *interval_notes(every)],
    )


def cell(value: Value, column: TableColumn) -> str:
    """A value as text: `yes`, `—` for a missing one, `0.84 [0.79, 0.90]` for an interval.

    A † marks an interval that is too narrow, a ‡ an estimate without an interval; the notes explain
    both.
    """
    if isinstance(value, Interval):
        return _interval(value, column.digits)
    return format_value(value, column.digits)


def interval_notes(intervals: Iterable[Interval]) -> list[str]:
    """Notes on how intervals were computed, on the meaning of † and ‡, and on their reasons."""
    every = list(intervals)
    missing = dict.fromkeys(map(_why_not, (i for i in every if not possible(i))))
    caveats = dict.fromkeys(i.reason for i in every if possible(i) and i.reason)
    return [
        *footnotes(every),
        *map(_sentence, caveats),
        *([f"‡ {_sentence('; '.join(missing))}"] if missing else []),
    ]


def caption_notes(figure: Figure) -> Iterator[str]:
    """The sentences of a figure's caption: its note, the number of runs, notes on its intervals."""
    every = list(_intervals(figure))
    if figure.note:
        yield figure.note
    yield from _remarks(figure)
    counts = sorted({interval.n for interval in every})
    if counts:
        counts_text = " to ".join(f"{n:,}" for n in dict.fromkeys((counts[0], counts[-1])))
        yield f"n = {counts_text}."
    yield from interval_notes(every)


def _remarks(figure: Figure) -> Iterator[str]:
    match figure:
        case ScatterFigure() if text := left_out_note(figure):
            yield text
        case ParallelFigure():
            yield from parallel_notes(figure)


def _intervals(figure: Figure) -> Iterator[Interval]:
    match figure:
        case IntervalFigure():
            yield from (mark.interval for panel in figure.panels for mark in panel.marks)
        case Matrix():
            yield from (value for row in figure.values for value in row if value is not None)


def _interval(interval: Interval, digits: int) -> str:
    estimate = format_number(interval.estimate, digits_of(interval, digits))
    if not possible(interval):
        return f"{estimate} ‡"
    return f"{estimate} {ends(interval, digits)}{' †' if too_narrow(interval) else ''}"


def _why_not(interval: Interval) -> str:
    """The sentence on why there is no interval, with a capital letter."""
    explained = interval if interval.reason else replace(interval, reason="the data allow none")
    text = no_interval(explained)
    return text[:1].upper() + text[1:]


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _numeric(values: Sequence[Value]) -> bool:
    there = [value for value in values if value is not None]
    return bool(there) and all(
        isinstance(v, int | float | Interval) and not isinstance(v, bool) for v in there
    )
