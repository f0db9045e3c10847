"""Tables in words, as Markdown and LaTeX print them before they escape them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from rlexp.metrics.estimate_words import (
    digits_of,
    ends,
    footnotes,
    no_interval,
    possible,
    too_narrow,
)
from rlexp.reports.drawing.blocks import (
    Column,
    Figure,
    Intervals,
    Matrix,
    Parallel,
    Scatter,
    Table,
    Value,
)
from rlexp.reports.drawing.marks import left_out_words, parallel_words
from rlexp.stats.interval import Interval
from rlexp.text import number, plain_value


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTable:
    """A table of words: `numeric` says which columns stand to the right."""

    titles: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: Sequence[bool]
    notes: Sequence[str]


def as_text_table(table: Table) -> TextTable:
    """Put every value of a table into words."""
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


def cell(value: Value, column: Column) -> str:
    """A value in words: `yes`, `—` for a missing one, `0.84 [0.79, 0.90]` for an interval.

    A † says that the interval is too narrow, a ‡ that none is possible; the notes say more.
    """
    if isinstance(value, Interval):
        return _interval(value, column.digits)
    return plain_value(value, column.digits)


def interval_notes(intervals: Iterable[Interval]) -> list[str]:
    """How intervals were made, what the marks mean, and every reason that one of them gives."""
    every = list(intervals)
    missing = dict.fromkeys(map(_why_not, (i for i in every if not possible(i))))
    caveats = dict.fromkeys(i.reason for i in every if possible(i) and i.reason)
    return [
        *footnotes(every),
        *map(_sentence, caveats),
        *([f"‡ {_sentence('; '.join(missing))}"] if missing else []),
    ]


def caption_notes(figure: Figure) -> Iterator[str]:
    """What a caption must say of a figure: its note, how many runs, how intervals were made."""
    every = list(_intervals(figure))
    if figure.note:
        yield figure.note
    yield from _remarks(figure)
    counts = sorted({interval.n for interval in every})
    if counts:
        spread = " to ".join(f"{n:,}" for n in dict.fromkeys((counts[0], counts[-1])))
        yield f"n = {spread}."
    yield from interval_notes(every)


def _remarks(figure: Figure) -> Iterator[str]:
    match figure:
        case Scatter() if words := left_out_words(figure):
            yield words
        case Parallel():
            yield from parallel_words(figure)


def _intervals(figure: Figure) -> Iterator[Interval]:
    match figure:
        case Intervals():
            yield from (mark.interval for panel in figure.panels for mark in panel.marks)
        case Matrix():
            yield from (value for row in figure.values for value in row if value is not None)


def _interval(interval: Interval, digits: int) -> str:
    estimate = number(interval.estimate, digits_of(interval, digits))
    if not possible(interval):
        return f"{estimate} ‡"
    return f"{estimate} {ends(interval, digits)}{' †' if too_narrow(interval) else ''}"


def _why_not(interval: Interval) -> str:
    """That there is no interval, and why, as a sentence begins."""
    known = interval if interval.reason else replace(interval, reason="the data allow none")
    words = no_interval(known)
    return words[:1].upper() + words[1:]


def _sentence(words: str) -> str:
    return words if words.endswith((".", "!", "?")) else f"{words}."


def _numeric(values: Sequence[Value]) -> bool:
    there = [value for value in values if value is not None]
    return bool(there) and all(
        isinstance(v, int | float | Interval) and not isinstance(v, bool) for v in there
    )
