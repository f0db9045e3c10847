"""Judges the open candidate of a stream, and tests its champion: each decision is written first."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from signal import Signals

from rlexp.app.execution.checks.import_permission import permission_for
from rlexp.app.streams.handed_scoring import order_scores
from rlexp.app.streams.scoring import publish_scores, score_runs, scores_of
from rlexp.app.streams.training import StreamTraining
from rlexp.errors import RecordError
from rlexp.executors.pull import Pull
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.records.run import RunRecord
from rlexp.records.selection import DEFAULT, Finalist, Selection
from rlexp.records.stream import (
    CandidateDecision,
    CandidateVerdict,
    OpenedCandidate,
    ScoredRun,
    StreamBeginning,
    StreamEnd,
    StreamLine,
    StreamRegister,
)
from rlexp.stats.sequential.candidates import (
    CandidateJudgement,
    CandidateReason,
    CandidateState,
    StreamDesign,
    candidate_level,
    judge,
)
from rlexp.store.layout import ExperimentPaths
from rlexp.store.ledger_writer import LedgerWriter
from rlexp.store.registers.streams import append_to_stream
from rlexp.store.runs import read_experiment
from rlexp.store.sweeps import read_selection, read_trials, write_selection
from rlexp.text import format_count

Pair = tuple[float | None, float | None]
"""The scores of the candidate and of the champion on a seed; None for a failed run."""
SENTENCES: Mapping[CandidateReason, str] = {
    CandidateReason.BETTER: "it won {won} of {n} and lost {lost}",
    CandidateReason.WORSE: "it lost {lost} of {n}, which shows that the champion is better",
    CandidateReason.OUT_OF_REACH: "it lost {lost} of {n}, and can no longer win often enough",
    CandidateReason.BUDGET_SPENT: "it won {won} of {n} and lost {lost}: the seeds are used up",
    CandidateReason.MORE_SEEDS: "it won {won} of {n} and lost {lost} so far",
}
"""The reason of a judgement as a sentence without a full stop."""


def design_of(beginning: StreamBeginning) -> StreamDesign:
    """The design that a stream has frozen."""
    return StreamDesign(
        alpha=beginning.alpha,
        seeds=beginning.seeds,
        horizon=beginning.horizon,
        margin=beginning.margin,
    )


def alpha_spent(design: StreamDesign, candidates: int) -> float:
    """The part of alpha that candidates have used, without what keeps have added."""
    return math.fsum(candidate_level(design, number, 0) for number in range(1, candidates + 1))


def reason_text(judgement: CandidateJudgement) -> str:
    """The reason of a judgement as a sentence without a full stop."""
    n = format_count(judgement.seeds_used, "seed")
    return SENTENCES[judgement.reason].format(won=judgement.won, lost=judgement.lost, n=n)


@dataclass(slots=True)
class OpenStream:
    """A stream that this process drives; it holds the lock of the experiment.

    Attributes:
        paths: Its files.
        register: The register as it is now.
        training: How its runs are trained.
        lean: Whether scores are computed with shortcuts that change no number.
    """

    paths: ExperimentPaths
    register: StreamRegister
    training: StreamTraining
    lean: bool

    @property
    def beginning(self) -> StreamBeginning:
        """What the stream has frozen."""
        if self.register.beginning is None:
            raise RecordError(f"{self.paths.candidates} has no beginning")
        return self.register.beginning

    def enter(self, *lines: StreamLine) -> None:
        """Append lines to the register; whatever follows from them comes after it."""
        append_to_stream(self.paths, *lines)
        for line in lines:
            self.register = self.register.followed_by(line)

    def specs(self, experiment: Experiment, number: int, phase: Phase) -> list[RunSpec]:
        """The runs of a candidate in a phase, in order of the seeds."""
        configuration = read_trials(self.paths)[number].configuration
        if configuration is None:
            raise RecordError(f"trial {number} of {self.paths.name} has no configuration")
        root, seeds = experiment.seeds.root, experiment.seeds.seeds(phase)
        return [configuration.spec(phase, root, seed) for seed in seeds]

    def judge_open(self) -> Signals | None:
        """Train and score the open candidate and the champion, seed by seed, until it is decided.

        Returns:
            The signal that ended the command before a decision, or None.
        """
        candidate = self.register.open
        if candidate is None:
            return None
        experiment = read_experiment(self.paths)
        sides = tuple(
            self.specs(experiment, number, Phase.TUNING)[: self.beginning.seeds]
            for number in (candidate.number, candidate.champion)
        )
        sign = -1.0 if experiment.default.lower_is_better else 1.0
        self.repair_scorings([*sides[0], *sides[1]])
        while True:
            judged, pairs = self._judgement(candidate, sides, sign)
            if judged.state is not CandidateState.CONTINUE:
                self.enter(_decision(candidate, judged, pairs, sides[0]))
                return None
            interrupted = self._advance(candidate, sides, _undecidable(judged))
            if interrupted is not None:
                return interrupted

    def _judgement(
        self, candidate: OpenedCandidate, sides: Sequence[Sequence[RunSpec]], sign: float
    ) -> tuple[CandidateJudgement, list[Pair]]:
        """The judgement on the seeds that both sides have been scored on, and these scores."""
        proposed, champion = (list(scores_of(side, self.register.scored)) for side in sides)
        pairs = list(zip(proposed, champion, strict=False))
        numbers = [[_number(pair[side], sign) for pair in pairs] for side in (0, 1)]
        design = design_of(self.beginning)
        return judge(numbers[0], numbers[1], candidate.level, design), pairs

    def _advance(
        self, candidate: OpenedCandidate, sides: Sequence[Sequence[RunSpec]], seeds: int
    ) -> Signals | None:
        """Train and score the next seeds, at least as many runs as are executed at a time."""
        missing = self._next_runs(sides, seeds)
        proposed = {spec.id for spec in sides[0]}
        groups: dict[str | None, list[RunSpec]] = {}
        for spec in missing:
            number = candidate.number if spec.id in proposed else candidate.champion
            groups.setdefault(self.register.commit_of(number), []).append(spec)
        interrupted = self.training.train(groups, Phase.TUNING)
        self._score(missing)
        if interrupted is None and not any(s.id in self.register.scored for s in missing):
            raise RecordError(
                f"no run of {self.paths.name} came to its end: repeat the command; to see why: "
                f"rlexp status {self.paths.name}"
            )
        return interrupted

    def _next_runs(self, sides: Sequence[Sequence[RunSpec]], seeds: int) -> list[RunSpec]:
        """The unscored runs of the next seeds.

        Args:
            sides: The runs of the candidate and of the champion, by seed.
            seeds: Number of seeds that no decision can come before.
        """
        parallel = self.training.parallel(max(s.compute["threads"] for s in sides[0]))
        missing: list[RunSpec] = []
        for pair in zip(*sides, strict=True):
            unscored = [spec for spec in pair if spec.id not in self.register.scored]
            missing += unscored
            seeds -= bool(unscored)
            if seeds <= 0 and len(missing) >= parallel:
                break
        return missing

    def _score(self, specs: Sequence[RunSpec]) -> None:
        """Score what has ended, by the trusted code; the register has each score first."""
        records = self.training.records(specs)
        ended = [
            records[s.id]
            for s in specs
            if s.id in records
            and s.id not in self.register.scored
            and not records[s.id].may_run(retry=False)
        ]
        if not ended:
            return
        scored = self._scores(ended)
        self.enter(*scored)
        publish_scores(self.paths, scored)

    def _scores(self, ended: Sequence[RunRecord]) -> list[ScoredRun]:
        """The scores of runs that have ended: by a worker where workers train, else here."""
        training = self.training
        if isinstance(training.executor, Pull):
            permission = permission_for([r.spec for r in ended], training.workspace.allowed)
            return order_scores(self.paths, ended, training.observer, permission)
        trusted = training.checkouts.of(self.beginning.commit)
        return score_runs(self.paths, ended, trusted, training.workspace, lean=self.lean)

    def repair_scorings(self, specs: Sequence[RunSpec]) -> None:
        """Write the scores of runs, and their checksums, where an earlier command was killed before."""
        scored = (self.register.scored.get(spec.id) for spec in specs)
        missing = [s for s in scored if s and not self.paths.run(s.run).scoring.exists()]
        publish_scores(self.paths, missing)
        LedgerWriter(self.paths).enter_late()

    def close(self) -> Selection:
        """Close the stream and write its selection once, before any test run exists."""
        if self.register.closed is None:
            self.enter(StreamEnd(time=time.time(), champion=self.register.champion))
        selection = read_selection(self.paths)
        if selection is None:
            selection = self._selection()
            write_selection(self.paths, selection)
        return selection

    def _selection(self) -> Selection:
        winner, count = self.register.champion, len(self.register.candidates)
        alpha = self.beginning.alpha
        rule = (
            f"the last kept of {format_count(count, 'candidate')}, false discovery rate {alpha:g} "
            "over the stream (e-LOND)"
        )
        return Selection(
            winner=winner,
            finalists=(Finalist(number=winner, tuning=tuple(self._tuning_scores(winner))),),
            rule=rule,
        )

    def _tuning_scores(self, number: int) -> Iterator[float]:
        """The scores of a candidate on tuning seeds: those of its decision, or all so far."""
        decision = self.register.decisions.get(number)
        if decision is not None:
            yield from (score for score in decision.scores if score is not None)
            return
        specs = self.specs(read_experiment(self.paths), number, Phase.TUNING)
        scored = (self.register.scored.get(spec.id) for spec in specs)
        yield from (s.score for s in scored if s is not None and s.score is not None)

    def test(self) -> Signals | None:
        """Train and score the champion and the first champion on test seeds; closed streams only.

        Returns:
            The signal that ended the command, or None.
        """
        selection, experiment = self.close(), read_experiment(self.paths)
        groups: dict[str | None, list[RunSpec]] = {}
        for number in dict.fromkeys((selection.winner, DEFAULT)):
            specs = self.specs(experiment, number, Phase.TEST)
            groups.setdefault(self.register.commit_of(number), []).extend(specs)
        every = [spec for specs in groups.values() for spec in specs]
        self.repair_scorings(every)
        missing = {
            commit: [s for s in specs if s.id not in self.register.scored]
            for commit, specs in groups.items()
        }
        interrupted = self.training.train(missing, Phase.TEST)
        self._score(every)
        return interrupted


def _undecidable(judged: CandidateJudgement) -> int:
    """The number of further seeds that a decision needs at least, so that none is trained in vain."""
    if judged.rule is None:
        return 1
    wins, losses = judged.rule.wins - judged.won, judged.rule.losses + 1 - judged.lost
    return max(min(wins, losses), 1)


def _decision(
    candidate: OpenedCandidate,
    judged: CandidateJudgement,
    pairs: Sequence[Pair],
    specs: Sequence[RunSpec],
) -> CandidateDecision:
    """The line of the register for a judgement."""
    used = pairs[: judged.seeds_used]
    return CandidateDecision(
        time=time.time(),
        candidate=candidate.number,
        champion=candidate.champion,
        state=CandidateVerdict(judged.state.value),
        code=judged.reason.value,
        reason=reason_text(judged),
        level=candidate.level,
        seeds=tuple(spec.seed for spec in specs[: judged.seeds_used]),
        scores=tuple(score for score, _ in used),
        champion_scores=tuple(champion for _, champion in used),
        won=judged.won,
        lost=judged.lost,
        e_value=judged.e_value,
        threshold=judged.threshold,
    )


def _number(score: float | None, sign: float) -> float:
    """A score so that greater is better; NaN for a failed run."""
    return math.nan if score is None else sign * score
