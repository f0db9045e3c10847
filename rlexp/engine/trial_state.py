"""State of one trial during a search: its runs, and how far the pruner has judged them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import fsum
from typing import Any, Self

from rlexp.protocol.spec import Parent
from rlexp.records.events import Evaluated
from rlexp.records.run import LARGEST_SCORE, RunRecord, State
from rlexp.records.trial import Trial, TrialOrigin


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A proposed configuration.

    Attributes:
        number: Number of the trial.
        parameters: Values of the searched parameters.
        steps: Environment steps of each run.
        refused: Why the configuration is invalid, if it is.
        parent: The trial whose configuration it repeats with more steps, if any.
        parents: The state from which each run continues, in order of the tuning seeds, None where
            a run begins at step 0; empty where all do.
        anew: Why runs begin at step 0 although the trial repeats another one.
        origin: Where the configuration comes from, if not from the tuner.
        changing: Whether values change while its runs train, by a schedule of a population.
    """

    number: int
    parameters: Mapping[str, Any]
    steps: int
    refused: str | None = None
    parent: int | None = None
    parents: tuple[Parent | None, ...] = ()
    anew: str | None = None
    origin: TrialOrigin | None = None
    changing: bool = False

    def parent_of(self, position: int) -> Parent | None:
        """The state from which the run on a tuning seed continues, if any."""
        return self.parents[position] if position < len(self.parents) else None

    def trained(self, position: int, step: int) -> int:
        """Environment steps that the run on a tuning seed itself trains, to reach a step."""
        parent = self.parent_of(position)
        return step if parent is None else max(step - parent.step, 0)

    def planned(self, runs: int) -> int:
        """Environment steps of the first runs, up to their end."""
        return sum(self.trained(position, self.steps) for position in range(runs))


@dataclass(frozen=True, slots=True)
class TrialStop:
    """The evaluation at which a trial is pruned.

    Attributes:
        position: Position of the seed whose run is stopped.
        step: Environment step of the evaluation.
        reason: Why the trial is pruned.
    """

    position: int
    step: int
    reason: str


@dataclass(slots=True)
class TrialProgress:
    """The state of one trial.

    Attributes:
        proposal: The configuration of the trial.
        records: Runs that have ended for good, by position of their seed.
        curves: Evaluations of each run, by position of its seed.
        position: Position of the run that is judged next.
        judged: Number of evaluations of that run that have been judged.
        intermediate: Mean evaluation over the seeds so far, by environment steps of the trial;
            greater is better.
        trial: The outcome; None while the trial goes on.
        stop: Where the trial was pruned, if it was.
        twin: The earlier trial with the same configuration, if any. Both trials share its runs
            and its outcome.
    """

    proposal: Proposal
    records: dict[int, RunRecord] = field(default_factory=dict)
    curves: dict[int, Sequence[Evaluated]] = field(default_factory=dict)
    position: int = 0
    judged: int = 0
    intermediate: dict[int, float] = field(default_factory=dict)
    trial: Trial | None = None
    stop: TrialStop | None = None
    twin: Self | None = None

    def twin_for(self, proposal: Proposal) -> Self:
        """The state of a later trial with the same configuration."""
        return type(self)(
            proposal,
            records=self.records,
            curves=self.curves,
            intermediate=self.intermediate,
            twin=self,
        )

    def follow(self, elder: Self) -> bool:
        """Copy the outcome of the twin; returns False while the twin goes on."""
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
        """The first evaluation of the present run that has not been judged yet."""
        curve = self.curves.get(self.position, ())
        return curve[self.judged] if self.judged < len(curve) else None

    def mean_at(self, index: int, height: Callable[[Evaluated, int], float]) -> float | None:
        """The mean of the evaluations with this index over the seeds so far.

        None where a seed lacks the evaluation, or its value is not a number that a score can have.

        Args:
            index: Number of the evaluation within a run.
            height: The value of an evaluation of the run at a position; greater is better.
        """
        curves = [self.curves.get(p, ()) for p in range(self.position + 1)]
        if any(len(curve) <= index for curve in curves):
            return None
        means = [height(curve[index], position) for position, curve in enumerate(curves)]
        comparable = all(abs(mean) <= LARGEST_SCORE for mean in means)
        return fsum(means) / len(means) if comparable else None

    def judged_values(self, judge: Callable[[RunRecord, int], float | None]) -> tuple[float, ...]:
        """The values of the ended runs, in order, up to the first run without a value.

        Args:
            judge: The value of the run at a position; greater is better.
        """
        values = []
        for position in range(self.position + 1):
            record = self.records.get(position)
            scored = record is not None and record.score is not None
            value = judge(record, position) if scored and record is not None else None
            if value is None:
                break
            values.append(value)
        return tuple(values)

    def run_failed(self) -> bool:
        """Whether the present run has ended without a score and was not pruned."""
        record = self.records.get(self.position)
        return record is not None and record.state is not State.PRUNED and record.score is None

    def judged_runs(self) -> list[RunRecord]:
        """The runs that were judged to their end, in order; later runs do not count."""
        stop = self.stop
        if stop is None:
            return [self.records[p] for p in range(self.position + 1) if p in self.records]
        # A run that was stopped at its last step has a score and counts as a whole run.
        last = stop.position + (stop.step >= self.proposal.steps)
        return [self.records[p] for p in range(last)]


def steps_of(progress: TrialProgress) -> int:
    """The planned environment steps of a trial; restarts and late stops are not counted.

    A run that continues from a state counts with the steps after it. A twin counts as 0, because its runs are counted already.
    """
    if progress.twin is not None:
        return 0
    proposal, stop = progress.proposal, progress.stop
    if stop is not None and stop.step < proposal.steps:
        return proposal.planned(stop.position) + proposal.trained(stop.position, stop.step)
    return proposal.planned(len(progress.judged_runs()))
