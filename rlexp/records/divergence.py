"""Comparison of two executions of one run: whether they are equal, and where they diverge."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest
from math import inf
from typing import Any

from rlexp.records.events import Evaluated, Measured, RunEnded
from rlexp.records.run import RunRecord

CLOCK = frozenset({"time/fps", "time/time_elapsed"})
"""Metrics of stable-baselines3 that depend on the clock and so differ in every execution."""


class Likeness(StrEnum):
    """Degree of agreement between two executions of a run."""

    IDENTICAL = "identical"
    EQUAL_SCORES = "equal scores"
    DIFFERENT = "different"


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """The first difference between two executions: step, event, field and both values."""

    step: int
    event: str
    field: str
    first: Any
    second: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fact:
    """The values of an event that are compared."""

    step: int
    event: str
    values: Mapping[str, Any]


def likeness(first: RunRecord, second: RunRecord) -> Likeness:
    """Degree of agreement between two completed executions of a run.

    They are identical if the final weights and all episodes of all evaluations are equal. The
    learner's logs are not compared: they follow from these, and may be written at other steps.
    """
    if (
        first.weights is not None
        and first.weights == second.weights
        and _equal_episodes(first, second)
    ):
        return Likeness.IDENTICAL
    if first.score is not None and first.score == second.score:
        return Likeness.EQUAL_SCORES
    return Likeness.DIFFERENT


def first_divergence(first: RunRecord, second: RunRecord) -> Divergence | None:
    """The first difference between two executions of a run; None if there is none.

    Evaluations and final weights are always compared; logged metrics only up to the first
    continuation from a checkpoint.
    """
    # After a continuation the library restarts its logging interval: logs come at other steps.
    until = min((c.step for c in (*first.continuations, *second.continuations)), default=inf)
    pairs = zip_longest(_facts(first, until), _facts(second, until))
    return next((match for a, b in pairs if (match := _compare(a, b))), None)


def _equal_episodes(first: RunRecord, second: RunRecord) -> bool:
    pairs = zip_longest(_episodes(first), _episodes(second))
    return all(_compare(a, b) is None for a, b in pairs)


def _facts(record: RunRecord, until: float) -> Iterator[_Fact]:
    """All comparable events, in chronological order."""
    logged = [m for m in record.measurements if m.step <= until]
    happened: list[Evaluated | Measured] = [*record.evaluations, *logged]
    # Both executions need one order of the events at a step: they are compared pair by pair.
    for event in sorted(happened, key=lambda e: (e.step, isinstance(e, Measured))):
        yield _metrics(event) if isinstance(event, Measured) else _evaluation(event)
    if record.final is not None:
        yield _evaluation(record.final)
    if record.weights is not None:
        yield _Fact(step=record.step, event=RunEnded.tag, values={"weights": record.weights})


def _episodes(record: RunRecord) -> Iterator[_Fact]:
    final = () if record.final is None else (record.final,)
    for event in (*record.evaluations, *final):
        yield _evaluation(event)


def _evaluation(event: Evaluated) -> _Fact:
    values: dict[str, Any] = {"final": event.final, "episodes": len(event.returns)}
    for number, (height, length) in enumerate(zip_longest(event.returns, event.lengths)):
        values[f"returns[{number}]"] = height
        values[f"lengths[{number}]"] = length
    for name, measured in (event.measures or {}).items():
        values |= {f"{name}[{number}]": value for number, value in enumerate(measured)}
    return _Fact(step=event.step, event=event.tag, values=values)


def _metrics(event: Measured) -> _Fact:
    values = {name: value for name, value in event.metrics.items() if name not in CLOCK}
    return _Fact(step=event.step, event=event.tag, values=values)


def _compare(a: _Fact | None, b: _Fact | None) -> Divergence | None:
    if a is None or b is None or (a.step, a.event) != (b.step, b.event):
        earlier = min((f for f in (a, b) if f is not None), key=lambda f: f.step)
        return Divergence(
            step=earlier.step,
            event=earlier.event,
            field="next event",
            first=_named(a),
            second=_named(b),
        )
    # A set of texts has another order in each process: the first difference would vary.
    for field in dict.fromkeys((*a.values, *b.values)):
        first, second = a.values.get(field), b.values.get(field)
        if not _same(first, second):
            return Divergence(step=a.step, event=a.event, field=field, first=first, second=second)
    return None


def _named(fact: _Fact | None) -> str:
    return "none" if fact is None else f"{fact.event} at step {fact.step:,}"


def _same(first: Any, second: Any) -> bool:
    """Whether two values are equal; NaN equals NaN here."""
    return bool(first == second) or (first != first and second != second)  # noqa: PLR0124
