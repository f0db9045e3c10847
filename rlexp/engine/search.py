"""The search of a sweep: which trial comes next, which runs it needs, which are given up.

Nothing here reads a clock or a disk. A trial is suggested, and pruned, by what the trials before
it showed, never by which of them happened to end first: so one worker and eight, and a search
that was killed and begun again, come to the same trials.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from rlexp.engine.progress import Progress, Proposal, Stop, steps_of
from rlexp.engine.question import Question
from rlexp.pruners import Point, Pruner
from rlexp.records.events import Evaluated
from rlexp.records.run import RunRecord, State
from rlexp.records.trial import Trial, TrialState
from rlexp.stats.racing import worse_than_best
from rlexp.tuners import Suggester, Suggestion

RACING_THRESHOLD = 0.1
"""Of Wilcoxon's test between a trial and the best one, below which a race is lost."""


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
    _peers: dict[tuple[int, int, int], dict[int, float]] = field(default_factory=dict)

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
        plan, number = self.question.plan, len(self.entries)
        if self.exhausted or number >= plan.trials:
            return True
        if number == 0:
            return False
        known, steps = self.entries[: self.sees(number)], self.question.steps
        planned = [e.proposal.steps for e in self.entries]
        spent = [*map(steps_of, known), *planned[len(known) :]]
        one = steps * self.question.screening
        later = (self.question.screening - 1) * sum(planned[len(known) :])
        return (
            (plan.full_runs is not None and sum(planned) >= plan.full_runs * steps)
            or (plan.steps is not None and sum(spent) + later + one > plan.steps)
            or (plan.hours is not None and hours >= plan.hours)
        )

    @property
    def full_runs(self) -> float:
        """Full-run equivalents so far: configurations at their fidelity, whatever their seeds."""
        return sum(e.proposal.steps for e in self.entries) / self.question.steps

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

    def add(self, proposal: Proposal) -> None:
        """Begin a trial; the numbers come in order."""
        entry = Progress(proposal)
        self.entries.append(entry)
        if proposal.refused is None:
            self._open.add(proposal.number)
        else:
            entry.trial = self._outcome(entry, TrialState.FAILED)

    def wanted(self) -> list[tuple[int, int]]:
        """The runs that are to be made now and are not over: (trial, position of the seed)."""
        found = []
        for number in sorted(self._open):
            entry = self.entries[number]
            last = entry.position + 1 if self.one_by_one else self.question.screening
            found += [(number, p) for p in range(entry.position, last) if p not in entry.records]
        return found

    def observe(self, number: int, position: int, evaluations: Sequence[Evaluated]) -> None:
        """Take note of the evaluations of a run that goes on."""
        entry = self.entries[number]
        if entry.trial is None and len(evaluations) > len(entry.curves.get(position, ())):
            entry.curves[position] = tuple(evaluations)
            self._judge(entry)

    def end(self, number: int, position: int, record: RunRecord) -> None:
        """Take note of a run that is over for good."""
        entry = self.entries[number]
        entry.records[position] = record
        if entry.trial is not None:
            return
        if len(record.evaluations) >= len(entry.curves.get(position, ())):
            entry.curves[position] = record.evaluations
        self._judge(entry)

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

    def _judge(self, entry: Progress) -> None:
        """Follow the runs of a trial in order of seeds and steps, as far as they are known."""
        while entry.trial is None:
            if (evaluation := entry.next_evaluation()) is not None:
                self._judge_evaluation(entry, evaluation)
            elif entry.position not in entry.records:
                return
            elif entry.run_failed():
                self._close(entry, TrialState.FAILED)
            elif entry.records[entry.position].state is State.PRUNED:
                self._stop(entry, entry.records[entry.position].step, "pruned")
            else:
                self._judge_run(entry)

    def _judge_evaluation(self, entry: Progress, evaluation: Evaluated) -> None:
        index = entry.judged
        entry.judged += 1
        every = self.question.every
        assert every is not None
        step, value = (index + 1) * every, entry.mean_at(index)
        if value is None or step >= entry.proposal.steps:
            return
        entry.intermediate[entry.position * entry.proposal.steps + step] = value
        if reason := self.pruner.prunes(self._point(entry, step, value)):
            self._stop(entry, evaluation.step, reason)

    def _judge_run(self, entry: Progress) -> None:
        scores = entry.scores()
        if entry.position + 1 == self.question.screening:
            self._close(entry, TrialState.COMPLETE)
            return
        point = self._point(entry, entry.proposal.steps, sum(scores) / len(scores), scores)
        reason = self.pruner.prunes(point) or self._lost_race(point)
        if reason:
            self._stop(entry, entry.proposal.steps, reason)
            return
        entry.position += 1
        entry.judged = 0

    def _lost_race(self, point: Point) -> str | None:
        if self.question.plan.allocation != "racing":
            return None
        p = worse_than_best(point.scores, point.best, RACING_THRESHOLD)
        return (
            None
            if p is None
            else f"worse than the best trial on {len(point.scores)} seeds (p = {p:.3f})"
        )

    def _point(
        self, entry: Progress, step: int, value: float, scores: tuple[float, ...] = ()
    ) -> Point:
        number, steps = entry.proposal.number, entry.proposal.steps
        there = self._peers.setdefault((entry.position, step, steps), {})
        before = self.sees(number)
        peers = {n: v for n, v in there.items() if n < before}
        there[number] = value
        return Point(
            number=number,
            position=entry.position,
            step=step,
            steps=steps,
            every=self.question.every or steps,
            value=value,
            peers=peers,
            scores=scores,
            best=self._best(before) if scores else (),
        )

    def _best(self, before: int) -> tuple[float, ...]:
        complete = [
            e.trial
            for e in self.entries[:before]
            if e.trial is not None
            and e.trial.state is TrialState.COMPLETE
            and e.proposal.steps == self.question.steps
        ]
        best = max(complete, key=lambda t: (t.values[0], -t.number), default=None)
        return best.scores if best else ()

    def _stop(self, entry: Progress, step: int, reason: str) -> None:
        entry.stop = Stop(entry.position, step, reason)
        self._close(entry, TrialState.PRUNED)

    def _close(self, entry: Progress, state: TrialState) -> None:
        entry.trial = self._outcome(entry, state)
        self._open.discard(entry.proposal.number)

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
            intermediate=entry.intermediate,
        )
