"""Runs, evaluations and episodes as tables, for spreadsheets, R, pandas and DuckDB."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Literal, TypeAlias

from rlexp.exchange.exporters.outcomes import Outcome
from rlexp.records.events import Evaluated

Cell: TypeAlias = str | int | float | bool | None
"""What may stand in a table. A missing value is `None`, never zero."""
Kind: TypeAlias = Literal["text", "integer", "number", "boolean"]
LEVELS = ("runs", "evaluations", "episodes")
"""What a row may be, the coarsest first."""

_RUN: tuple[tuple[str, Kind], ...] = (("label", "text"), ("task", "text"))
_WHERE: tuple[tuple[str, Kind], ...] = (("phase", "text"), ("state", "text"), ("run", "text"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """A table: `columns` are names and kinds, rows have a cell for each."""

    name: str
    columns: tuple[tuple[str, Kind], ...]
    rows: tuple[tuple[Cell, ...], ...]

    @property
    def titles(self) -> list[str]:
        """The names of the columns."""
        return [name for name, _ in self.columns]


def sheet(level: str, outcomes: Sequence[Outcome]) -> Sheet:
    """The table of one level.

    Args:
        level: One of `LEVELS`.
        outcomes: The runs.
    """
    makers = {"runs": _runs, "evaluations": _evaluations, "episodes": _episodes}
    return makers[level](outcomes)


def _runs(outcomes: Iterable[Outcome]) -> Sheet:
    columns: tuple[tuple[str, Kind], ...] = (
        *_RUN,
        ("phase", "text"),
        ("seed", "integer"),
        ("state", "text"),
        ("score", "number"),
        ("steps", "integer"),
        ("run", "text"),
    )
    rows = tuple(
        (o.label, o.task, _phase(o), o.seed, o.state, o.score, o.record.step, o.run)
        for o in outcomes
    )
    return Sheet(name="scores", columns=columns, rows=rows)


def _evaluations(outcomes: Iterable[Outcome]) -> Sheet:
    """A row per evaluation: means over its episodes; the last of a run is on fresh episodes."""
    columns: tuple[tuple[str, Kind], ...] = (
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
        )
        for o in outcomes
        for e in _evaluated(o)
    )
    return Sheet(name="evaluations", columns=columns, rows=rows)


def _episodes(outcomes: Iterable[Outcome]) -> Sheet:
    columns: tuple[tuple[str, Kind], ...] = (
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
        (*_begin(o, e), value, length, number, e.final, *_where(o))
        for o in outcomes
        for e in _evaluated(o)
        for number, (value, length) in enumerate(zip(e.returns, _lengths(e), strict=True))
    )
    return Sheet(name="episodes", columns=columns, rows=rows)


def _evaluated(outcome: Outcome) -> Iterator[Evaluated]:
    yield from outcome.record.evaluations
    if outcome.record.final is not None:
        yield outcome.record.final


def _lengths(event: Evaluated) -> Sequence[int | None]:
    """Lengths of the episodes; a damaged journal may hold fewer than it has returns."""
    own: list[int | None] = list(event.lengths[: len(event.returns)])
    return own + [None] * (len(event.returns) - len(own))


def _begin(outcome: Outcome, event: Evaluated) -> tuple[Cell, ...]:
    return outcome.label, outcome.task, outcome.seed, event.step


def _where(outcome: Outcome) -> tuple[Cell, ...]:
    return _phase(outcome), outcome.state, outcome.run


def _phase(outcome: Outcome) -> str:
    return str(outcome.record.spec.phase)
