"""From evidence to the runs that reach a task's threshold, and to those that do not."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rlexp.records.run import State
from rlexp.reports.evidence.runs import Evidence, Member
from rlexp.reports.wording import states
from rlexp.stats.survival import SurvivalCurve, kaplan_meier
from rlexp.stats.threshold import time_to_threshold


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """The runs of a label on a task, each followed up to the threshold or to its end.

    Attributes:
        times: Environment steps of the evaluated runs, of shape (n,), rising: of the first
            evaluation at the threshold, or of the last one.
        reached: Whether it is the former, of shape (n,).
        full: The last evaluation of a completed run; nothing where no evaluated run completed.
        successes: Ended runs that reached the threshold.
        decided: Ended runs: what the share of successes is of.
        planned: Runs that were asked for.
        remark: What is missing, in words.
    """

    label: str
    task: str
    times: tuple[float, ...]
    reached: tuple[bool, ...]
    full: float | None
    successes: int
    decided: int
    planned: int
    remark: str

    def curve(self, level: float) -> SurvivalCurve | None:
        """The share of runs still on their way; nothing where no run was evaluated."""
        return kaplan_meier(self.times, self.reached, level) if self.times else None


def follow(evidence: Evidence, label: str, task: str, threshold: float) -> Followed:
    """Follow the runs of a label on a task.

    A run that ended without reaching the threshold is no success, and is followed up to its last
    evaluation. One that has not ended is followed as far as it is, and stands in no share.
    """
    cell = evidence.cell(label, task)
    members = cell.members if cell else ()
    evaluated = [member for member in members if member.is_evaluated]
    found = sorted(_reach(member, threshold) for member in evaluated)
    ended = [member for member in members if _has_ended(member)]
    # Of runs under way, those that were fast would stand for all: the share is of ended ones.
    successes = sum(m.is_evaluated and _reach(m, threshold)[1] for m in ended)
    completed = [m for m in evaluated if m.record.state is State.COMPLETED]
    return Followed(
        label=label,
        task=task,
        times=tuple(time for time, _ in found),
        reached=tuple(reached for _, reached in found),
        full=max((float(m.record.evaluations[-1].step) for m in completed), default=None),
        successes=successes,
        decided=len(ended),
        planned=len(members),
        remark="; ".join(_remarks(members, threshold)) if members else "not asked for",
    )


def _reach(member: Member, threshold: float) -> tuple[float, bool]:
    return time_to_threshold((member.steps, member.returns), threshold)


def _has_ended(member: Member) -> bool:
    """Whether more of the run could not change whether it reached the threshold."""
    record = member.record
    if record.state is State.FAILED:
        return True
    return record.state in {State.COMPLETED, State.PRUNED} and member.is_evaluated


def _remarks(members: Sequence[Member], threshold: float) -> Iterator[str]:
    unseen = [member for member in members if not member.is_evaluated]
    if unseen:
        yield f"{len(unseen)} without an evaluation ({states(unseen)})"
    short = [
        member
        for member in members
        if member.is_evaluated and member.record.state is not State.COMPLETED
        if not _reach(member, threshold)[1]
    ]
    if short:
        yield f"{len(short)} below it when last seen ({states(short)})"
