"""The search of a sweep: which trial comes next, which runs it needs, which trials are pruned.

This module reads no clock and no disk. A trial is suggested and pruned by the results of the trials
with lower numbers, never by the order in which they happened to end. Therefore one worker and eight
workers, and a search that was killed and resumed, come to the same trials.

The module holds the fixed settings of a search (`SearchProblem`), its budget (`is_reached`), the values
that the pruner compares (`PruningContext`), and the state of the search (`Search`).
"""

from collections.abc import Iterator, Mapping, Sequence, ValuesView
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING, Any

from rlexp.engine.objectives import Objectives
from rlexp.engine.relative_values import ranked_trials
from rlexp.engine.trial_state import Proposal, TrialProgress, TrialStop, steps_of
from rlexp.protocol.space import Space
from rlexp.protocol.sweep import SweepPlan
from rlexp.pruners import Pruner, PruningPoint
from rlexp.records.events import Evaluated
from rlexp.records.run import RunRecord, State
from rlexp.records.trial import Trial, TrialState
from rlexp.stats.sequential.racing import worse_than_best
from rlexp.tuners import Suggester, Suggestion

if TYPE_CHECKING:
    from rlexp.tuners.regret_bound import RegretBound


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchProblem:
    """The fixed settings of a search.

    Attributes:
        plan: The plan of the sweep, in which `lag` is a number.
        seeds: Number of tuning seeds.
        steps: Environment steps of a run at the full budget.
        every: Environment steps between two evaluations; None without evaluations.
        objectives: The objectives and their aggregate, with the tasks of a sweep on several ones.
        default: The value of every parameter in the default configuration.
        given: The configurations of the trials after the default, which are tried first.
        space: The search space; needed for `plan.stop_at_regret` only.
        root: Root of the random draws of the bound on what more trials could gain.
    """

    plan: SweepPlan
    seeds: int
    steps: int
    every: int | None
    objectives: Objectives
    default: Mapping[str, Any]
    given: tuple[Suggestion, ...] = ()
    space: Space | None = None
    root: int = 0

    @property
    def tasks(self) -> int:
        """Number of tasks on which each configuration is trained."""
        return max(len(self.objectives.tasks), 1)

    @property
    def runs(self) -> int:
        """Number of runs of a trial on all tuning seeds and tasks.

        The run at position p has the tuning seed p // tasks and the task p % tasks.
        """
        return self.seeds * self.tasks

    @property
    def screening(self) -> int:
        """Number of runs of a trial before it is compared with the other trials."""
        return (
            (self.plan.screening_tasks or 1) if self.plan.allocation == "two_stage" else self.runs
        )

    @property
    def screened_seeds(self) -> int:
        """Number of tuning seeds of a trial before it is compared with the other trials."""
        return 1 if self.plan.allocation == "two_stage" else self.seeds

    @property
    def has_front(self) -> bool:
        """Whether the sweep ends with a front: with several objectives, in all but older sweeps."""
        return self.plan.choose is not None

    @property
    def reference(self) -> tuple[float, ...] | None:
        """The declared reference point, greater is better; None where it is derived from the trials."""
        point = self.plan.reference_point
        if point is None:
            return None
        return self.objectives.oriented([point[name] for name in self.objectives.names])

    @property
    def ranks(self) -> bool:
        """Whether the value of a trial is its rank among other trials."""
        return self.plan.normalisation == "ranks"

    @property
    def lag(self) -> int:
        """Number of trials before the next one that it must not depend on."""
        return self.plan.lag or 0


def is_reached(
    question: SearchProblem, entries: Sequence[TrialProgress], visible: int, hours: float
) -> bool:
    """Whether the budget of the search is spent, so that no further trial is suggested.

    Args:
        question: The settings of the search with its limits.
        entries: The trials so far.
        visible: Number of leading trials that the next one may depend on. These count with the
            steps that they took, all others with the steps that were planned for them.
        hours: Wall-clock time of the search so far.
    """
    # Steps of trials that are not visible depend on how fast workers are: counting them would
    # make the number of trials depend on it, too.
    plan = question.plan
    return (
        (plan.full_runs is not None and full_runs(question, entries) >= plan.full_runs)
        or (
            plan.steps is not None and _steps_with_another(question, entries, visible) > plan.steps
        )
        or (plan.hours is not None and hours >= plan.hours)
    )


def full_runs(question: SearchProblem, entries: Sequence[TrialProgress]) -> float:
    """Full-run equivalents so far: the sum over trials of their share of the full budget.

    A run that continues from a state counts with the steps after it.
    """
    # Sums of whole numbers are exact: without continued runs, this is the sum of the trials' steps.
    runs = question.screening
    return sum(e.proposal.planned(runs) for e in entries) / (question.steps * runs)


def promotions(question: SearchProblem, screened: int) -> int:
    """The number of trials that are promoted from their first tuning seed to all tuning seeds.

    It is a share of the full-run equivalents that screening took. 0 where every trial is run on
    all seeds from the start.

    Args:
        question: The settings of the search with the share.
        screened: Environment steps of all trials in their screening.
    """
    if question.screening == question.runs:
        return 0
    share = question.plan.promoted * screened / (question.steps * question.screening)
    # In floats, 0.07 × 100 is slightly above 7: without the slack, `ceil` would give 8.
    return max(ceil(share - 1e-9), 1)


def _steps_with_another(
    question: SearchProblem, entries: Sequence[TrialProgress], visible: int
) -> int:
    """Environment steps of the trials so far, of one more trial, and of all promotions."""
    spent = sum(map(steps_of, entries[:visible]))
    runs = question.screening
    planned = sum(e.proposal.planned(runs) for e in entries[visible:] if e.twin is None)
    screened = spent + planned + runs * question.steps
    further = promotions(question, screened) * (question.runs - question.screening)
    return screened + further * question.steps


RACING_THRESHOLD = 0.51
"""p-value of Wilcoxon's test between a trial and the best trial, below which the trial is pruned.

The threshold is above one half, so that a trial which is behind at all on the common seeds gets no
further seed. On ten published landscapes this reaches a better score at equal runs than 0.1 or 0.3,
which with five seeds stop hardly any trial (`benchmarks/landscapes.py`).
"""
ComparisonPoint = tuple[int, int, int]
"""Position of the seed, environment steps so far, and environment steps of the whole run."""


class EarlierValues(Mapping[int, float]):
    """The values of the trials with numbers below `before`.

    The values are gathered at the first access, because few pruners read them.
    """

    def __init__(self, values: Mapping[int, float], before: int) -> None:
        self._all, self._before = values, before

    @cached_property
    def _earlier(self) -> dict[int, float]:
        return {n: value for n, value in self._all.items() if n < self._before}

    def __getitem__(self, number: int) -> float:
        """The value of a trial."""
        return self._earlier[number]

    def __iter__(self) -> Iterator[int]:
        """The numbers of the trials."""
        return iter(self._earlier)

    def __len__(self) -> int:
        """The number of trials."""
        return len(self._earlier)

    def values(self) -> ValuesView[float]:
        """The values; the view of a dict is much faster than that of `Mapping`."""
        return self._earlier.values()


@dataclass(slots=True)
class PruningContext:
    """The values that trials reached, by point of comparison: what the pruner compares."""

    _values: dict[ComparisonPoint, dict[int, float]] = field(default_factory=dict)

    def note(
        self, point: ComparisonPoint, number: int, value: float, before: int
    ) -> Mapping[int, float]:
        """Store a trial's value; returns the values of the trials below `before`, by number."""
        values = self._values.setdefault(point, {})
        values[number] = value
        return EarlierValues(values, before)

    def forget(self, number: int) -> None:
        """Remove the values of a trial."""
        for values in self._values.values():
            values.pop(number, None)


def best_merits(entries: Sequence[TrialProgress], question: SearchProblem) -> tuple[float, ...]:
    """The first objective of each run of the best complete trial; empty without such a trial."""
    complete = [
        # The minus makes the lower number win between equal values.
        (e.trial.values[0], -e.proposal.number, e)
        for e in entries
        if e.trial is not None
        and e.trial.state is TrialState.COMPLETE
        and e.proposal.steps == question.steps
    ]
    if not complete:
        return ()
    # Only value and number are compared: the third item has no order.
    return question.objectives.merits(max(complete, key=lambda item: item[:2])[2].judged_runs())


def lost_race(point: PruningPoint, plan: SweepPlan) -> str | None:
    """Why a trial gets no further seed in a race; None if it gets one, or without racing."""
    if plan.allocation != "racing":
        return None
    p = worse_than_best(point.scores, point.best, RACING_THRESHOLD)
    if p is None:
        return None
    return f"worse than the best trial on {len(point.scores)} seeds (p = {p:.3f})"


@dataclass(slots=True)
class Search:
    """The state of a search: it takes results in, and says which trials and runs come next.

    Attributes:
        question: The fixed settings of the search.
        suggester: The tuner.
        pruner: The pruner.
        one_by_one: Whether the runs of a trial are executed one after the other, so that a pruned
            trial costs no further seed.
        entries: The trials so far, by number.
        exhausted: Whether the tuner has no further trial to suggest.
        recorded: Whether another tool has judged the trials, so that its verdicts are taken.
    """

    question: SearchProblem
    suggester: Suggester
    pruner: Pruner
    one_by_one: bool
    entries: list[TrialProgress] = field(default_factory=list)
    exhausted: bool = False
    recorded: bool = False
    _open: set[int] = field(default_factory=set)
    _ranked: int = 0
    """Number of ended trials when ranks were computed last."""
    _context: PruningContext = field(default_factory=PruningContext)
    _bounds: "dict[int, RegretBound | None]" = field(default_factory=dict)
    """The bound on what more trials could gain, by the number of trials that it depends on."""

    def due(self, hours: float = 0.0) -> int | None:
        """The number of the trial that can be suggested now; None if none can.

        Args:
            hours: Wall-clock time of the search so far.
        """
        number = len(self.entries)
        if self.is_full(hours) or (number and not self._ended(self.sees(number))):
            return None
        return number

    def is_full(self, hours: float = 0.0) -> bool:
        """Whether the search makes no further trial."""
        number = len(self.entries)
        if self.exhausted or number >= self.question.plan.trials:
            return True
        visible = self.sees(number)
        reached = number > 0 and is_reached(self.question, self.entries, visible, hours)
        return reached or self._gains_little()

    def _gains_little(self) -> bool:
        """Whether more trials could gain so little that the plan stops."""
        limit, bound = self.question.plan.stop_at_regret, self.regret_bound
        return limit is not None and bound is not None and bound.gain <= limit

    @property
    def regret_bound(self) -> "RegretBound | None":
        """The bound on what more trials could gain, from the trials that the next one may depend on.

        None where the plan does not stop by it, with few trials, and while one of them is in progress.
        """
        # The later trials depend on how fast workers are, and so would the end of the search.
        visible, question = self.sees(len(self.entries)), self.question
        if question.plan.stop_at_regret is None or not visible or not self._ended(visible):
            return None
        if visible not in self._bounds:
            from rlexp.tuners.regret_bound import regret_bound

            assert question.space is not None
            trials = self.visible(visible)
            bound = regret_bound(question.space, trials, question.steps, question.root)
            self._bounds[visible] = bound
        return self._bounds[visible]

    @property
    def full_runs(self) -> float:
        """Full-run equivalents so far."""
        return full_runs(self.question, self.entries)

    def sees(self, number: int) -> int:
        """The number of leading trials that the suggestion of a trial may depend on."""
        return max(number - self.question.lag, self.suggester.needs(number), 0)

    def suggest(self, number: int) -> Suggestion | None:
        """The suggestion for trial `number`; None where the space is exhausted."""
        if number == 0:
            return Suggestion(self.question.default)
        suggestion = self.suggester.suggest(self.visible(self.sees(number)), number)
        if number <= len(self.question.given):
            # In the place of a suggestion, and with its steps: a tuner that works in generations
            # finds the configuration among those of its first one.
            steps = None if suggestion is None else suggestion.steps
            return replace(self.question.given[number - 1], steps=steps)
        self.exhausted = suggestion is None
        if suggestion is None or suggestion.parent is None or suggestion.earlier:
            return suggestion
        # The tuner computes values from points of the unit cube. Those of a given configuration can
        # differ from it in the last digit there, and its run could not be continued.
        repeated = self.entries[suggestion.parent].proposal.parameters
        return replace(suggestion, parameters=repeated)

    @property
    def in_generations(self) -> bool:
        """Whether trials are parts of the trainings of a population."""
        return self._trained_steps(0) is not None

    def planned_steps(self, number: int) -> int:
        """Environment steps that each run of a trial trains, as far as this is known beforehand."""
        trained = self._trained_steps(number)
        # Without continuation, every part is trained from step 0, up to where its generation ends.
        if trained is None or not self.question.plan.continuation:
            return self.question.steps
        return trained

    def _trained_steps(self, number: int) -> int | None:
        trained = getattr(self.suggester, "trained_steps", None)
        return None if trained is None else trained(number)

    def place(self, number: int) -> str | None:
        """Where a trial stands in a population, in words; None in other searches."""
        name = getattr(self.suggester, "place", None)
        return None if name is None else name(number)

    def visible(self, count: int) -> list[Trial]:
        """The first `count` trials as the tuner sees them."""
        entries = self.entries[:count]
        trials = [e.trial for e in entries if e.trial is not None]
        if self.question.ranks:
            # Among the visible trials only: later ones depend on how fast workers are.
            trials = ranked_trials(entries, self.question.objectives, self.question.screening)
        if self.question.plan.failures == "exclude":
            return [t for t in trials if t.state is not TrialState.FAILED]
        return trials

    def add(self, proposal: Proposal, twin: int | None = None) -> None:
        """Begin a trial; trials are added in the order of their numbers.

        Args:
            proposal: The configuration of the trial.
            twin: Number of the first trial with the same configuration, if any. The new trial
                makes no runs and gets the same outcome.
        """
        entry = TrialProgress(proposal) if twin is None else self.entries[twin].twin_for(proposal)
        self.entries.append(entry)
        self._open.add(proposal.number)
        if proposal.refused is not None:
            self._close(entry, TrialState.FAILED)
        self._judge(entry)
        self._rank()

    def due_runs(self) -> list[tuple[int, int]]:
        """The runs that are due and have not ended: (trial, position of the seed)."""
        due = []
        for number in sorted(self._open):
            entry = self.entries[number]
            if entry.twin is not None:
                continue
            last = entry.position + 1 if self.one_by_one else self.question.screening
            due += [(number, p) for p in range(entry.position, last) if p not in entry.records]
        return due

    def observe(self, number: int, position: int, evaluations: Sequence[Evaluated]) -> None:
        """Take in the evaluations of a run in progress."""
        entry = self.entries[number]
        if entry.trial is None and len(evaluations) > len(entry.curves.get(position, ())):
            entry.curves[position] = tuple(evaluations)
            self._settle(entry)

    def end(self, number: int, position: int, record: RunRecord) -> None:
        """Take in the record of a run that has ended for good."""
        entry = self.entries[number]
        entry.records[position] = record
        if entry.trial is not None:
            return
        if len(record.evaluations) >= len(entry.curves.get(position, ())):
            entry.curves[position] = record.evaluations
        self._settle(entry)

    def rule(self, number: int, runs: int, state: TrialState, reason: str = "") -> None:
        """Take over a decision about a trial, made on its first runs, which have all ended.

        Args:
            number: The number of the trial.
            runs: Number of its runs that the decision used, 1 or more.
            state: The decision.
            reason: Why the trial is pruned.
        """
        entry = self.entries[number]
        entry.trial, entry.stop, entry.position = None, None, runs - 1
        if state is TrialState.PRUNED:
            self._stop(entry, entry.proposal.steps, reason)
        else:
            self._close(entry, state)

    def unneeded(self, number: int, position: int) -> TrialStop | None:
        """Why a screening run should be stopped; None if it should go on."""
        entry = self.entries[number]
        if entry.trial is None or position >= self.question.screening:
            return None
        if entry.stop is not None and entry.stop.position == position:
            return entry.stop
        return TrialStop(position, 0, "another run of its trial ended it")

    def is_over(self, hours: float = 0.0) -> bool:
        """Whether every trial has ended and no further trial comes."""
        return self.is_full(hours) and not self._open

    def _ended(self, count: int) -> bool:
        return not self._open or min(self._open) >= count

    def _settle(self, entry: TrialProgress) -> None:
        """Judge a trial; if that ends it, judge the trials that waited for it."""
        self._judge(entry)
        if entry.trial is not None:
            for number in sorted(self._open):
                self._judge(self.entries[number])
        self._rank()

    def _rank(self) -> None:
        """Compute the ranks of the ended trials again, where another one has ended."""
        ended = len(self.entries) - len(self._open)
        if not self.question.ranks or ended == self._ranked:
            return
        self._ranked = ended
        trials = ranked_trials(self.entries, self.question.objectives, self.question.screening)
        for trial in trials:
            self.entries[trial.number].trial = trial

    def _judge(self, entry: TrialProgress) -> None:
        """Judge the evaluations and runs of a trial in order of seeds and steps.

        A trial waits until all trials that it is compared with have ended: one of them may be in
        progress again, because its runs were lost, or failed and are repeated.
        """
        if entry.twin is not None:
            if entry.follow(entry.twin):
                self._open.discard(entry.proposal.number)
            return
        if not self._ended(self.sees(entry.proposal.number)):
            return
        while entry.trial is None:
            if (evaluation := entry.next_evaluation()) is not None:
                self._judge_evaluation(entry, evaluation)
            elif entry.position not in entry.records:
                return
            elif entry.run_failed():
                self._close(entry, TrialState.FAILED)
            elif self.recorded and entry.records[entry.position].state is State.PRUNED:
                record = entry.records[entry.position]
                self._stop(entry, record.step, record.reason or "pruned")
            elif entry.records[entry.position].state is State.PRUNED:
                # It was pruned by a comparison that is no longer valid: the run is repeated.
                del entry.records[entry.position]
            else:
                self._judge_run(entry)

    def _judge_evaluation(self, entry: TrialProgress, evaluation: Evaluated) -> None:
        index = entry.judged
        entry.judged += 1
        every = self.question.every
        assert every is not None
        steps, value = entry.proposal.steps, entry.mean_at(index, self.question.objectives.height)
        # Vectorised environments evaluate slightly after each multiple: trials are compared at
        # the multiple itself, so that different numbers of environments stay comparable.
        step = min(evaluation.step, steps) // every * every
        # An evaluation at the last step belongs to the whole run, which is judged separately.
        if value is None or max(step, evaluation.step) >= steps:
            return
        # Steps count on over the seeds, so that a seed does not replace values of an earlier one.
        entry.intermediate[entry.position * steps + step] = value
        if reason := self.pruner.prunes(self._point(entry, step, value)):
            self._stop(entry, evaluation.step, reason)

    def _judge_run(self, entry: TrialProgress) -> None:
        if entry.position + 1 == self.question.screening:
            self._close(entry, TrialState.COMPLETE)
            return
        values = entry.judged_values(self.question.objectives.judged)
        if len(values) <= entry.position:
            # A run lacks the measure that is the objective, so its trial has no value.
            self._close(entry, TrialState.FAILED)
            return
        merits = self.question.objectives.merits(entry.judged_runs())
        point = self._point(entry, entry.proposal.steps, sum(values) / len(values), merits)
        reason = self.pruner.prunes(point) or lost_race(point, self.question.plan)
        if reason:
            self._stop(entry, entry.proposal.steps, reason)
            return
        entry.position += 1
        entry.judged = 0

    def _point(
        self, entry: TrialProgress, step: int, value: float, merits: tuple[float, ...] = ()
    ) -> PruningPoint:
        number, position, steps = entry.proposal.number, entry.position, entry.proposal.steps
        before = self.sees(number)
        return PruningPoint(
            number=number,
            position=position,
            step=step,
            steps=steps,
            every=self.question.every or steps,
            value=value,
            peers=self._context.note((position, step, steps), number, value, before),
            scores=merits,
            best=best_merits(self.entries[:before], self.question) if merits else (),
        )

    def _stop(self, entry: TrialProgress, step: int, reason: str) -> None:
        entry.stop = TrialStop(entry.position, step, reason)
        self._close(entry, TrialState.PRUNED)

    def _close(self, entry: TrialProgress, state: TrialState) -> None:
        number = entry.proposal.number
        entry.trial = self._outcome(entry, state)
        self._open.discard(number)
        if entry.trial.state is TrialState.FAILED:
            # A failing run can reach another step in the next attempt: its values would make the
            # pruning of other trials depend on chance.
            self._context.forget(number)

    def _outcome(self, entry: TrialProgress, state: TrialState) -> Trial:
        records = entry.judged_runs()[: self.question.screening]
        values: tuple[float, ...] = ()
        if state is TrialState.COMPLETE:
            measured = self.question.objectives.values(records)
            state = TrialState.COMPLETE if measured else TrialState.FAILED
            values = self.question.objectives.oriented(measured) if measured else ()
        return Trial.from_records(
            entry.proposal.number,
            entry.proposal.parameters,
            entry.proposal.steps,
            records,
            state=state,
            values=values,
            intermediate={} if state is TrialState.FAILED else entry.intermediate,
        )
