"""The search of a sweep: which trial comes next, which runs it needs, which are given up.

Nothing here reads a clock or a disk. A trial is suggested, and pruned, by what the trials before
it showed, never by which of them happened to end first: so one worker and eight, and a search
that was killed and begun again, come to the same trials.
"""

from collections.abc import Iterator, Mapping, Sequence, ValuesView
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil
from typing import Any

from rlexp.engine.objectives import Objectives
from rlexp.engine.progress import Progress, Proposal, Stop, steps_of
from rlexp.protocol.sweep import SweepPlan
from rlexp.pruners import Point, Pruner
from rlexp.records.events import Evaluated
from rlexp.records.run import RunRecord, State
from rlexp.records.trial import Trial, TrialState
from rlexp.stats.sequential.racing import worse_than_best
from rlexp.tuners import Suggester, Suggestion


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a search is about.

    Attributes:
        plan: With a number for `lag`.
        seeds: How many tuning seeds there are.
        steps: Environment steps of a run at the full budget.
        every: Environment steps between its evaluations, if there are any.
        objectives: What is optimised.
        default: The value of every parameter in the default configuration.
    """

    plan: SweepPlan
    seeds: int
    steps: int
    every: int | None
    objectives: Objectives
    default: Mapping[str, Any]

    @property
    def screening(self) -> int:
        """Runs of a trial before it is judged against the others."""
        return 1 if self.plan.allocation == "two_stage" else self.seeds

    @property
    def lag(self) -> int:
        """How many trials before the next one it must not depend on."""
        return self.plan.lag or 0


def is_reached(question: Question, entries: Sequence[Progress], known: int, hours: float) -> bool:
    """Whether a limit keeps a further trial from being suggested.

    Args:
        question: Which limits there are.
        entries: The trials so far.
        known: How many of the first of them the further one may depend on. Those count with the
            steps that they took, and all others with the steps that were planned for them.
        hours: Wall-clock that the search has taken.
    """
    plan = question.plan
    return (
        (plan.full_runs is not None and full_runs(question, entries) >= plan.full_runs)
        or (plan.steps is not None and _steps_with_another(question, entries, known) > plan.steps)
        or (plan.hours is not None and hours >= plan.hours)
    )


def full_runs(question: Question, entries: Sequence[Progress]) -> float:
    """Full-run equivalents so far: configurations at their fidelity, whatever their seeds."""
    return sum(e.proposal.steps for e in entries) / question.steps


def promotions(question: Question, screened: int) -> int:
    """How many trials go on from their first tuning seed to all of them.

    A share of the full-run equivalents that screening took, so that what pruning saves there is
    spent where it decides. None go on where trials are run on all seeds from the start.

    Args:
        question: With the share.
        screened: Environment steps of all trials on their first seed.
    """
    if question.screening == question.seeds:
        return 0
    share = question.plan.promoted * screened / question.steps
    # One more would come of rounding alone: 0.07 × 100 is a little above 7.
    return max(ceil(share - 1e-9), 1)


def _steps_with_another(question: Question, entries: Sequence[Progress], known: int) -> int:
    """Environment steps of the trials so far and of one more, those of promotion included."""
    spent = sum(map(steps_of, entries[:known]))
    planned = sum(e.proposal.steps for e in entries[known:] if e.twin is None)
    screened = spent + question.screening * (planned + question.steps)
    further = promotions(question, screened) * (question.seeds - question.screening)
    return screened + further * question.steps


RACING_THRESHOLD = 0.51
"""Of Wilcoxon's test between a trial and the best one, below which a race is lost.

Above one half, so that a trial which is behind at all on the seeds that both had gets no further
one. On ten published landscapes this reaches a better score at equal runs than 0.1 or 0.3, which
five seeds let stop hardly any trial (`benchmarks/landscapes.py`).
"""
Place = tuple[int, int, int]
"""Position of the seed, environment steps, and those of the whole run."""


class Earlier(Mapping[int, float]):
    """What trials below a number came to, gathered when it is first asked for: few pruners do."""

    def __init__(self, values: Mapping[int, float], before: int) -> None:
        self._values, self._before = values, before

    @cached_property
    def _found(self) -> dict[int, float]:
        return {n: value for n, value in self._values.items() if n < self._before}

    def __getitem__(self, number: int) -> float:
        """The value of a trial."""
        return self._found[number]

    def __iter__(self) -> Iterator[int]:
        """The numbers."""
        return iter(self._found)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._found)

    def values(self) -> ValuesView[float]:
        """The values alone, as fast as a dict has them."""
        return self._found.values()


@dataclass(slots=True)
class Shown:
    """The values that trials came to, place by place."""

    _values: dict[Place, dict[int, float]] = field(default_factory=dict)

    def note(self, place: Place, number: int, value: float, before: int) -> Mapping[int, float]:
        """Take note of a trial's value; returns those of the trials below `before`, by number."""
        there = self._values.setdefault(place, {})
        there[number] = value
        return Earlier(there, before)

    def forget(self, number: int) -> None:
        """Take back what a trial came to."""
        for there in self._values.values():
            there.pop(number, None)


def best_merits(entries: Sequence[Progress], question: Question) -> tuple[float, ...]:
    """Run by run, the leading objective of the best trial that is complete; nothing without one."""
    complete = [
        (e.trial.values[0], -e.proposal.number, e)
        for e in entries
        if e.trial is not None
        and e.trial.state is TrialState.COMPLETE
        and e.proposal.steps == question.steps
    ]
    if not complete:
        return ()
    return question.objectives.merits(max(complete, key=lambda found: found[:2])[2].judged_runs())


def lost_race(point: Point, plan: SweepPlan) -> str | None:
    """Why a trial gets no further seed in a race, or nothing where it does, or where none is run."""
    if plan.allocation != "racing":
        return None
    p = worse_than_best(point.scores, point.best, RACING_THRESHOLD)
    if p is None:
        return None
    return f"worse than the best trial on {len(point.scores)} seeds (p = {p:.3f})"


@dataclass(slots=True)
class Search:
    """A search while it goes on. Feed it with what happens; ask it what to do.

    `one_by_one` says that the runs of a trial follow each other, so that a trial which is given
    up costs no further seed.
    """

    question: Question
    suggester: Suggester
    pruner: Pruner
    one_by_one: bool
    entries: list[Progress] = field(default_factory=list)
    exhausted: bool = False
    _open: set[int] = field(default_factory=set)
    _shown: Shown = field(default_factory=Shown)

    def due(self, hours: float = 0.0) -> int | None:
        """The number of the trial that can be suggested now, if one can.

        Args:
            hours: Wall-clock that the search has taken.
        """
        number = len(self.entries)
        if self.is_full(hours) or (number and not self._ended(self.sees(number))):
            return None
        return number

    def is_full(self, hours: float = 0.0) -> bool:
        """Whether no further trial may be suggested."""
        number = len(self.entries)
        if self.exhausted or number >= self.question.plan.trials:
            return True
        known = self.sees(number)
        return number > 0 and is_reached(self.question, self.entries, known, hours)

    @property
    def full_runs(self) -> float:
        """Full-run equivalents so far."""
        return full_runs(self.question, self.entries)

    def sees(self, number: int) -> int:
        """How many of the first trials the suggestion of a trial depends on."""
        return max(number - self.question.lag, self.suggester.needs(number), 0)

    def suggest(self, number: int) -> Suggestion | None:
        """What to try as trial `number`; nothing where the space is exhausted."""
        if number == 0:
            return Suggestion(self.question.default)
        found = self.suggester.suggest(self.visible(self.sees(number)), number)
        self.exhausted = found is None
        return found

    def visible(self, count: int) -> list[Trial]:
        """The first trials, as a tuner may see them."""
        trials = [e.trial for e in self.entries[:count] if e.trial is not None]
        if self.question.plan.failures == "exclude":
            return [t for t in trials if t.state is not TrialState.FAILED]
        return trials

    def add(self, proposal: Proposal, twin: int | None = None) -> None:
        """Begin a trial; the numbers come in order.

        Args:
            proposal: What is tried.
            twin: The first trial that has the same configuration, if one has. The new one makes
                no runs and comes to the same.
        """
        entry = Progress(proposal) if twin is None else self.entries[twin].twin_for(proposal)
        self.entries.append(entry)
        self._open.add(proposal.number)
        if proposal.refused is not None:
            self._close(entry, TrialState.FAILED)
        self._judge(entry)

    def wanted(self) -> list[tuple[int, int]]:
        """The runs that are to be made now and are not over: (trial, position of the seed)."""
        found = []
        for number in sorted(self._open):
            entry = self.entries[number]
            if entry.twin is not None:
                continue
            last = entry.position + 1 if self.one_by_one else self.question.screening
            found += [(number, p) for p in range(entry.position, last) if p not in entry.records]
        return found

    def observe(self, number: int, position: int, evaluations: Sequence[Evaluated]) -> None:
        """Take note of the evaluations of a run that goes on."""
        entry = self.entries[number]
        if entry.trial is None and len(evaluations) > len(entry.curves.get(position, ())):
            entry.curves[position] = tuple(evaluations)
            self._settle(entry)

    def end(self, number: int, position: int, record: RunRecord) -> None:
        """Take note of a run that is over for good."""
        entry = self.entries[number]
        entry.records[position] = record
        if entry.trial is not None:
            return
        if len(record.evaluations) >= len(entry.curves.get(position, ())):
            entry.curves[position] = record.evaluations
        self._settle(entry)

    def unneeded(self, number: int, position: int) -> Stop | None:
        """Why a run that its trial was to be judged by is to be ended, if it is."""
        entry = self.entries[number]
        if entry.trial is None or position >= self.question.screening:
            return None
        if entry.stop is not None and entry.stop.position == position:
            return entry.stop
        return Stop(position, 0, "another run of its trial ended it")

    def is_over(self, hours: float = 0.0) -> bool:
        """Whether every trial has ended and no further one is to come."""
        return self.is_full(hours) and not self._open

    def _ended(self, count: int) -> bool:
        return not self._open or min(self._open) >= count

    def _settle(self, entry: Progress) -> None:
        """Judge a trial; where that ends it, judge those that waited for it."""
        self._judge(entry)
        if entry.trial is not None:
            for number in sorted(self._open):
                self._judge(self.entries[number])

    def _judge(self, entry: Progress) -> None:
        """Follow the runs of a trial in order of seeds and steps, as far as they are known.

        Not before the trials have ended that it is compared with: one of them may be on its way
        again, as its runs were lost, or failed and are tried once more.
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
            elif entry.records[entry.position].state is State.PRUNED:
                # It was ended for what no longer holds, and is made again.
                del entry.records[entry.position]
            else:
                self._judge_run(entry)

    def _judge_evaluation(self, entry: Progress, evaluation: Evaluated) -> None:
        index = entry.judged
        entry.judged += 1
        every = self.question.every
        assert every is not None
        steps, value = entry.proposal.steps, entry.mean_at(index)
        step = min(evaluation.step, steps) // every * every
        if value is None or max(step, evaluation.step) >= steps:
            return
        entry.intermediate[entry.position * steps + step] = value
        if reason := self.pruner.prunes(self._point(entry, step, value)):
            self._stop(entry, evaluation.step, reason)

    def _judge_run(self, entry: Progress) -> None:
        if entry.position + 1 == self.question.screening:
            self._close(entry, TrialState.COMPLETE)
            return
        scores = entry.scores()
        merits = self.question.objectives.merits(entry.judged_runs())
        point = self._point(entry, entry.proposal.steps, sum(scores) / len(scores), merits)
        reason = self.pruner.prunes(point) or lost_race(point, self.question.plan)
        if reason:
            self._stop(entry, entry.proposal.steps, reason)
            return
        entry.position += 1
        entry.judged = 0

    def _point(
        self, entry: Progress, step: int, value: float, merits: tuple[float, ...] = ()
    ) -> Point:
        number, position, steps = entry.proposal.number, entry.position, entry.proposal.steps
        before = self.sees(number)
        return Point(
            number=number,
            position=position,
            step=step,
            steps=steps,
            every=self.question.every or steps,
            value=value,
            peers=self._shown.note((position, step, steps), number, value, before),
            scores=merits,
            best=best_merits(self.entries[:before], self.question) if merits else (),
        )

    def _stop(self, entry: Progress, step: int, reason: str) -> None:
        entry.stop = Stop(entry.position, step, reason)
        self._close(entry, TrialState.PRUNED)

    def _close(self, entry: Progress, state: TrialState) -> None:
        number = entry.proposal.number
        entry.trial = self._outcome(entry, state)
        self._open.discard(number)
        if entry.trial.state is TrialState.FAILED:
            # How far it came can differ from one attempt to the next.
            self._shown.forget(number)

    def _outcome(self, entry: Progress, state: TrialState) -> Trial:
        records = entry.judged_runs()[: self.question.screening]
        values: tuple[float, ...] = ()
        if state is TrialState.COMPLETE:
            found = self.question.objectives.values(records)
            state = TrialState.COMPLETE if found else TrialState.FAILED
            values = self.question.objectives.oriented(found) if found else ()
        return Trial.from_records(
            entry.proposal.number,
            entry.proposal.parameters,
            entry.proposal.steps,
            records,
            state=state,
            values=values,
            intermediate={} if state is TrialState.FAILED else entry.intermediate,
        )
