"""Where two executions of one run part, and whether they do."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest
from math import inf
from typing import Any

from rlexp.records.events import Evaluated, Measured, RunEnded
from rlexp.records.run import RunRecord

CLOCK = frozenset({"time/fps", "time/time_elapsed"})
"""What stable-baselines3 logs of the clock, which no execution repeats."""


class Likeness(StrEnum):
    """How alike two executions of a run are."""

    IDENTICAL = "identical"
    EQUAL_SCORES = "equal scores"
    DIFFERENT = "different"


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """The first thing that differs: at which step, in which event, and both of its values."""

    step: int
    event: str
    field: str
    first: Any
    second: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fact:
    """What an event tells of the numbers of a run."""

    step: int
    event: str
    values: Mapping[str, Any]


def likeness(first: RunRecord, second: RunRecord) -> Likeness:
    """How alike two completed executions of a run are.

    They are identical where their weights and every episode of every evaluation are equal; what
    the learner logged follows from these, and at times it is logged at other steps.
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
    """The first thing that differs between two executions of a run, or nothing.

    What was logged counts up to the first continuation from a checkpoint: there the library
    counts anew when it logs next. Evaluations and final weights count throughout.
    """
    until = min((c.step for c in (*first.continuations, *second.continuations)), default=inf)
    pairs = zip_longest(_facts(first, until), _facts(second, until))
    return next((found for one, other in pairs if (found := _compare(one, other))), None)


def _equal_episodes(first: RunRecord, second: RunRecord) -> bool:
    pairs = zip_longest(_episodes(first), _episodes(second))
    return all(_compare(one, other) is None for one, other in pairs)


def _facts(record: RunRecord, until: float) -> Iterator[_Fact]:
    """Everything that can be compared, in the order in which it happened."""
    logged = [m for m in record.measurements if m.step <= until]
    happened: list[Evaluated | Measured] = [*record.evaluations, *logged]
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


def _compare(one: _Fact | None, other: _Fact | None) -> Divergence | None:
    there = one or other
    assert there is not None
    if one is None or other is None or (one.step, one.event) != (other.step, other.event):
        earlier = min((f for f in (one, other) if f is not None), key=lambda f: f.step)
        return Divergence(
            step=earlier.step,
            event=earlier.event,
            field="next event",
            first=_named(one),
            second=_named(other),
        )
    for field in dict.fromkeys((*one.values, *other.values)):
        first, second = one.values.get(field), other.values.get(field)
        if not _same(first, second):
            return Divergence(
                step=there.step, event=there.event, field=field, first=first, second=second
            )
    return None


def _named(fact: _Fact | None) -> str:
    return "none" if fact is None else f"{fact.event} at step {fact.step:,}"


def _same(first: Any, second: Any) -> bool:
    """Equal, or both no number."""
    return bool(first == second) or (first != first and second != second)  # noqa: PLR0124
