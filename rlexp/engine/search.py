"""The search of a sweep: which trial comes next, which runs it needs, which are given up.

Nothing here reads a clock or a disk. A trial is suggested, and pruned, by what the trials before
it showed, never by which of them happened to end first: so one worker and eight, and a search
that was killed and begun again, come to the same trials.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from rlexp.engine.comparison import Shown, best_merits, lost_race
from rlexp.engine.limits import full_runs, is_reached
from rlexp.engine.progress import Progress, Proposal, Stop
from rlexp.engine.question import Question
from rlexp.pruners import Point, Pruner
from rlexp.records.events import Evaluated
from rlexp.records.run import RunRecord, State
from rlexp.records.trial import Trial, TrialState
from rlexp.tuners import Suggester, Suggestion


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
