"""Runs, evaluations, episodes and measurements as tables, for spreadsheets, R, pandas and DuckDB."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import fsum, isnan
from typing import Literal, TypeAlias

from rlexp.exchange.exporters.exported_runs import ExportedRun
from rlexp.protocol.measures import results_among
from rlexp.records.events import Evaluated, Measured
from rlexp.records.logged_values import logged_values

CellValue: TypeAlias = str | int | float | bool | None
"""A value in a table. A missing value is `None`, never zero."""
ColumnType: TypeAlias = Literal["text", "integer", "number", "boolean"]
LEVELS = ("runs", "evaluations", "episodes", "measurements")
"""What a row is: a run, an evaluation, an episode, or one value that a learner logged."""

_RUN: tuple[tuple[str, ColumnType], ...] = (("label", "text"), ("task", "text"))
_WHERE: tuple[tuple[str, ColumnType], ...] = (
    ("phase", "text"),
    ("state", "text"),
    ("run", "text"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """A table: `columns` are names and types; rows have one cell for each column."""

    name: str
    columns: tuple[tuple[str, ColumnType], ...]
    rows: tuple[tuple[CellValue, ...], ...]

    @property
    def titles(self) -> list[str]:
        """The names of the columns."""
        return [name for name, _ in self.columns]


def make_sheet(level: str, outcomes: Sequence[ExportedRun]) -> Sheet:
    """The table of one level.

    Args:
        level: One of `LEVELS`.
        outcomes: The runs.
    """
    makers = {
        "runs": _runs,
        "evaluations": _evaluations,
        "episodes": _episodes,
        "measurements": _measurements,
    }
    return makers[level](outcomes)


def _runs(outcomes: Sequence[ExportedRun]) -> Sheet:
    """One row for each run, with the means of the measures over its final evaluation."""
    columns: tuple[tuple[str, ColumnType], ...] = (
        *_RUN,
        ("phase", "text"),
        ("seed", "integer"),
        ("state", "text"),
        ("score", "number"),
        ("steps", "integer"),
        ("run", "text"),
    )
    names = results_among({name for o in outcomes for name in o.record.measures})
    rows = tuple(
        (
            *(o.label, o.task, _phase(o), o.seed, o.state, o.score, o.record.step, o.run),
            *(o.record.measures.get(name) for name in names),
        )
        for o in outcomes
    )
    return Sheet(name="scores", columns=_with_measures(columns, names), rows=rows)


def _with_measures(
    columns: tuple[tuple[str, ColumnType], ...], names: Sequence[str]
) -> tuple[tuple[str, ColumnType], ...]:
    """The columns, followed by one for each measure.

    A measure with the name of another column, such as `step`, is headed `measure/step`.
    """
    taken = {title for title, _ in columns}
    titles = [f"measure/{name}" if name in taken else name for name in names]
    return (*columns, *((title, "number") for title in titles))


def _names_in(events: Iterable[Evaluated]) -> list[str]:
    return sorted({name for event in events for name in event.measures or {}})


def _evaluations(outcomes: Sequence[ExportedRun]) -> Sheet:
    """One row for each evaluation, with means over its episodes; `final` marks the final one.

    The mean of a measure is that of the episodes that report it.
    """
    names = results_among(_names_in(e for o in outcomes for e in _evaluated(o)))
    columns: tuple[tuple[str, ColumnType], ...] = (
        *_RUN,
        ("seed", "integer"),
        ("step", "integer"),
        ("return", "number"),
        ("mean_length", "number"),
        ("episodes", "integer"),
        ("final", "boolean"),
        *_WHERE,
    )
    rows = tuple(
        (
            *_begin(o, e),
            e.mean,
            fsum(e.lengths) / len(e.lengths) if e.lengths else None,
            len(e.returns),
            e.final,
            *_where(o),
            *(e.mean_of_reported(name) for name in names),
        )
        for o in outcomes
        for e in _evaluated(o)
    )
    return Sheet(name="evaluations", columns=_with_measures(columns, names), rows=rows)


def _episodes(outcomes: Sequence[ExportedRun]) -> Sheet:
    """One row for each episode, with its measures; contexts are among them."""
    names = _names_in(e for o in outcomes for e in _evaluated(o))
    columns: tuple[tuple[str, ColumnType], ...] = (
        *_RUN,
        ("seed", "integer"),
        ("step", "integer"),
        ("return", "number"),
        ("length", "integer"),
        ("episode", "integer"),
        ("final", "boolean"),
        *_WHERE,
    )
    rows = tuple(
        (
            *(*_begin(o, e), value, length, number, e.final, *_where(o)),
            *(_of_episode(e, name, number) for name in names),
        )
        for o in outcomes
        for e in _evaluated(o)
        for number, (value, length) in enumerate(zip(e.returns, _lengths(e), strict=True))
    )
    return Sheet(name="episodes", columns=_with_measures(columns, names), rows=rows)


def _of_episode(event: Evaluated, name: str, number: int) -> float | None:
    """A measure of one episode; None where the episode does not report it."""
    values = event.values_of(name)
    return None if not values or isnan(values[number]) else values[number]


def _measurements(outcomes: Iterable[ExportedRun]) -> Sheet:
    """One row for each logged value; `seconds` counts from the start of the run."""
    columns: tuple[tuple[str, ColumnType], ...] = (
        *_RUN,
        ("seed", "integer"),
        ("step", "integer"),
        ("metric", "text"),
        ("value", "number"),
        ("seconds", "number"),
        *_WHERE,
    )
    rows = tuple(
        (o.label, o.task, o.seed, event.step, name, value, _seconds(o, event), *_where(o))
        for o in outcomes
        for event in o.record.measurements
        for name, value in logged_values(event)
    )
    return Sheet(name="measurements", columns=columns, rows=rows)


def _seconds(outcome: ExportedRun, event: Measured) -> float | None:
    started = outcome.record.started
    return None if started is None else event.time - started


def _evaluated(outcome: ExportedRun) -> Iterator[Evaluated]:
    yield from outcome.record.evaluations
    if outcome.record.final is not None:
        yield outcome.record.final


def _lengths(event: Evaluated) -> Sequence[int | None]:
    """Lengths of the episodes, None where missing: a damaged journal may have too few."""
    lengths: list[int | None] = list(event.lengths[: len(event.returns)])
    return lengths + [None] * (len(event.returns) - len(lengths))


def _begin(outcome: ExportedRun, event: Evaluated) -> tuple[CellValue, ...]:
    return outcome.label, outcome.task, outcome.seed, event.step


def _where(outcome: ExportedRun) -> tuple[CellValue, ...]:
    return _phase(outcome), outcome.state, outcome.run


def _phase(outcome: ExportedRun) -> str:
    return str(outcome.record.spec.phase)
