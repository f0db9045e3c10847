"""One trial of a search while it goes on: its runs, and how far they have been judged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import fsum
from typing import Any

from rlexp.records.events import Evaluated
from rlexp.records.run import LARGEST_SCORE, RunRecord, State
from rlexp.records.trial import Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A configuration to be tried. `refused` says why it cannot be run at all."""

    number: int
    parameters: Mapping[str, Any]
    steps: int
    refused: str | None = None
    parent: int | None = None


@dataclass(frozen=True, slots=True)
class Stop:
    """Ends a run at an evaluation, `step`, because its trial is given up."""

    position: int
    step: int
    reason: str


@dataclass(slots=True)
class Progress:
    """What is known of one trial.

    Attributes:
        proposal: What is tried.
        records: Runs that have ended for good, by position of their seed.
        curves: Evaluations, by position.
        position: Of the run that is judged next.
        judged: How many of its evaluations have been.
        intermediate: Mean evaluation over the seeds so far, by environment steps of the trial.
        trial: The outcome, once there is one.
        stop: Where it was pruned, if it was.
        twin: The earlier trial with the same configuration, if there is one. Its runs are the
            runs of both, and its outcome is.
    """

    proposal: Proposal
    records: dict[int, RunRecord] = field(default_factory=dict)
    curves: dict[int, Sequence[Evaluated]] = field(default_factory=dict)
    position: int = 0
    judged: int = 0
    intermediate: dict[int, float] = field(default_factory=dict)
    trial: Trial | None = None
    stop: Stop | None = None
    twin: "Progress | None" = None

    def twin_for(self, proposal: Proposal) -> "Progress":
        """A later trial of the same configuration."""
        return Progress(
            proposal,
            records=self.records,
            curves=self.curves,
            intermediate=self.intermediate,
            twin=self,
        )

    def follow(self, elder: "Progress") -> bool:
        """End as the trial ended whose runs this one shares; says whether that one has."""
        if elder.trial is None:
            return False
        self.position, self.judged, self.stop = elder.position, elder.judged, elder.stop
        proposal = self.proposal
        self.trial = replace(
            elder.trial,
            number=proposal.number,
            parameters=proposal.parameters,
            steps=proposal.steps,
        )
        return True

    def next_evaluation(self) -> Evaluated | None:
        """The first evaluation of the present run that was not judged yet."""
        curve = self.curves.get(self.position, ())
        return curve[self.judged] if self.judged < len(curve) else None

    def mean_at(self, index: int) -> float | None:
        """Mean over the seeds so far of their evaluation with this index; nothing without one.

        What is larger than any score, or no number, is none.
        """
        curves = [self.curves.get(p, ()) for p in range(self.position + 1)]
        if any(len(curve) <= index for curve in curves):
            return None
        means = [curve[index].mean for curve in curves]
        comparable = all(abs(mean) <= LARGEST_SCORE for mean in means)
        return fsum(means) / len(means) if comparable else None

    def scores(self) -> tuple[float, ...]:
        """Scores of the runs that are over, in order, as far as they have one."""
        found = []
        for position in range(self.position + 1):
            record = self.records.get(position)
            if record is None or record.score is None:
                break
            found.append(record.score)
        return tuple(found)

    def run_failed(self) -> bool:
        """Whether the present run is over without a score."""
        record = self.records.get(self.position)
        return record is not None and record.state is not State.PRUNED and record.score is None

    def judged_runs(self) -> list[RunRecord]:
        """The runs that were judged whole, in order: what runs did besides does not count."""
        stop = self.stop
        if stop is None:
            return [self.records[p] for p in range(self.position + 1) if p in self.records]
        last = stop.position + (stop.step >= self.proposal.steps)
        return [self.records[p] for p in range(last)]


def steps_of(progress: Progress) -> int:
    """Environment steps of a trial as a plan counts them, whatever was spent besides.

    A twin takes none: its runs are counted already.
    """
    if progress.twin is not None:
        return 0
    steps, stop = progress.proposal.steps, progress.stop
    if stop is not None and stop.step < steps:
        return steps * stop.position + stop.step
    return steps * len(progress.judged_runs())
