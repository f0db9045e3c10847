"""From evidence to learning curves: the evaluations of runs, brought to common points."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rlexp.records.run import State
from rlexp.reports.evidence.runs import Evidence, Member
from rlexp.reports.sentences import counted
from rlexp.reports.wording import states

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Curve:
    """The evaluations of one run.

    Attributes:
        x: Environment steps, a share of them, or seconds since the run started; of shape (T,),
            rising.
        y: Mean return of each evaluation, of shape (T,); NaN where that is no finite number.
        completed: Whether the run is.
    """

    x: Array
    y: Array
    completed: bool

    @property
    def order(self) -> tuple[tuple[float, ...], tuple[float, ...], bool]:
        """What curves are sorted by: runs have no order."""
        returns = np.where(np.isnan(self.y), -np.inf, self.y)
        return tuple(self.x.tolist()), tuple(returns.tolist()), self.completed


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """The curves of a label on a task.

    Attributes:
        planned: Runs that were asked for.
        curves: One of each run that has any, in the order of their values.
        remarks: What is missing from them, in words.
    """

    label: str
    task: str
    planned: int
    curves: tuple[Curve, ...]
    remarks: tuple[str, ...] = ()

    @property
    def told(self) -> str:
        """The remarks, or why there is nothing to remark on."""
        return "; ".join(self.remarks) if self.planned else "not asked for on this task"

    def scaled(self, x: float = 1.0, y: Callable[[Array], Array] = np.asarray) -> "Curves":
        """The same with x in units of `x`, and y as a function of it."""
        return replace(self, curves=tuple(replace(c, x=c.x / x, y=y(c.y)) for c in self.curves))


def by_steps(evidence: Evidence, label: str, task: str) -> Curves:
    """The evaluations of a label's runs on a task over environment steps."""
    return _curves(evidence, label, task, lambda member: member.steps)


def by_seconds(evidence: Evidence, label: str, task: str) -> Curves:
    """The same over the seconds since a run started.

    Of a run with several attempts, the first that the others continue is its start: what lies
    between attempts counts. A run whose times do not rise (its clock was set back) is left out, and
    that is said.
    """
    return _curves(evidence, label, task, seconds_of)


def seconds_of(member: Member) -> Array:
    """Seconds from the start of a run to its evaluations, of shape (T,); NaN without a start."""
    started = member.record.started
    begun = np.nan if started is None else started
    return np.asarray([e.time - begun for e in member.record.evaluations], dtype=np.float64)


def curve_of(member: Member, x: Callable[[Member], Array]) -> Curve:
    """The evaluations of a run over x."""
    return Curve(x(member), member.returns, member.record.state is State.COMPLETED)


def common_points(tasks: Sequence[Curves], points: int) -> Array:
    """Where curves are brought together: at most `points` of their own x, rising.

    Every completed run has begun there and is not over, and so have at least half of all runs of
    every task: what lies beyond would be the curve of those that are slow, or that survived.
    """
    if not all(curves.curves for curves in tasks):
        return np.empty(0)
    union = np.unique(np.concatenate([c.x for t in tasks for c in t.curves]))
    enough = np.ones(len(union), dtype=bool)
    for curves in tasks:
        completed = [curve for curve in curves.curves if curve.completed]
        enough &= 2 * _under_way(curves.curves, union) >= len(curves.curves)
        enough &= _under_way(completed, union) == len(completed)
    return thinned(union[enough], points)


def _under_way(curves: Sequence[Curve], x: Array) -> NDArray[np.int64]:
    """How many curves have begun and are not over, of shape (T,)."""
    begun = np.searchsorted(np.sort([c.x[0] for c in curves]), x, side="right")
    over = np.searchsorted(np.sort([c.x[-1] for c in curves]), x, side="left")
    return np.asarray(begun - over, dtype=np.int64)


def thinned(x: Array, points: int) -> Array:
    """At most `points` of x, evenly spread, both ends among them."""
    if len(x) <= points:
        return x
    return np.asarray(x[np.linspace(0, len(x) - 1, points).round().astype(int)])


def _curves(evidence: Evidence, label: str, task: str, x: Callable[[Member], Array]) -> Curves:
    cell = evidence.cell(label, task)
    members = cell.members if cell else ()
    evaluated = [member for member in members if member.record.evaluations]
    curves = [curve_of(member, x) for member in evaluated]
    rising = [c for c in curves if c.x[0] >= 0 and (np.diff(c.x) > 0).all()]
    return Curves(
        label=label,
        task=task,
        planned=len(members),
        curves=tuple(sorted(rising, key=lambda curve: curve.order)),
        remarks=tuple(_remarks(members, evaluated, len(curves) - len(rising), rising)),
    )


def _remarks(
    members: Sequence[Member], evaluated: Sequence[Member], disordered: int, kept: Sequence[Curve]
) -> Iterator[str]:
    total, runs = len(members), counted(len(members), "run")
    if len(evaluated) < total:
        told = states([m for m in members if not m.record.evaluations])
        yield f"{total - len(evaluated)} of {runs} without an evaluation ({told})"
    if disordered:
        yield f"{disordered} of {runs} left out, the times of their evaluations not rising"
    gaps = sum(int(np.isnan(c.y).sum()) for c in kept)
    if gaps:
        own = sum(bool(np.isnan(c.y).any()) for c in kept)
        yield f"evaluations that are no finite number: {gaps}, in {own} of {runs}"
