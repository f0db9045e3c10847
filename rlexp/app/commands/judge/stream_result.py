"""What `rlexp propose` returns: a stream of candidates, and what a command has done in it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from rlexp.app.results import Displayed, NextCommand, Schema
from rlexp.records.stream import CandidateDecision, CandidateSource, OpenedCandidate
from rlexp.reports.drawing.blocks import SummaryCard


class StreamAnswer(StrEnum):
    """What a command of a stream has done; the codes are stable."""

    BEGUN = "begun"
    SHOWN = "shown"
    KEPT = "kept"
    DISCARDED = "discarded"
    UNDECIDED = "undecided"
    TESTED = "tested"
    INCOMPLETE = "incomplete"


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateRow:
    """A candidate of a stream with its decision.

    Attributes:
        number: Its number from 1.
        source: `settings`, `diff` or `worktree`.
        words: Its settings that differ from those of the champion.
        name: The file or folder of its code; null for settings.
        code: The digest of its code.
        commit: The commit of its code; null without git.
        champion: The number of the candidate that it was compared with; 0 is the first champion.
        level: The level of its comparison.
        decision: `kept`, `discarded` or `undecided`; null while it is open.
        reason_code: `better`, `worse`, `out_of_reach` or `budget_spent`; null while it is open.
        reason: The reason as a sentence; null while it is open.
        n: Number of tuning seeds that the decision used.
        won: Number of them on which it was better by more than the margin.
        lost: Number of them on which it was not, except ties.
        mean: Its mean score on these seeds; null where a run has no score.
        champion_mean: The mean score of the champion on these seeds; null as above.
        e_value: The evidence that it is better; null while it is open.
        threshold: The evidence that was needed; null while it is open.
    """

    number: int
    source: CandidateSource
    words: tuple[str, ...]
    name: str | None
    code: str
    commit: str | None
    champion: int
    level: float
    decision: str | None
    reason_code: str | None
    reason: str | None
    n: int
    won: int
    lost: int
    mean: float | None
    champion_mean: float | None
    e_value: float | None
    threshold: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamResult(Displayed):
    """A stream of candidates, and what a command has done in it.

    Attributes:
        study: The name of the stream.
        answer: What was done: `begun`, `shown`, `kept`, `discarded`, `undecided`, `tested`, or
            `incomplete` where a run is missing or a signal came.
        candidate: The number of the candidate that the answer is about; null without one.
        earlier: Whether an earlier command has made the decision, so that nothing was spent.
        champion: The number of the champion; 0 is the first one.
        champion_name: The champion as text.
        task: The task.
        label: The algorithm of the first champion.
        score: The rule by which runs are scored.
        quantity: What is scored: `return`, or the name of a measure.
        lower_is_better: Whether the scored quantity is minimised.
        steps: Environment steps of each run.
        seeds: Largest number of tuning seeds for one candidate.
        horizon: Largest number of candidates; null for an endless stream.
        margin: The gain that a seed must exceed to be won, in units of the score.
        alpha: The false discovery rate over the whole stream.
        alpha_spent: The part of alpha that the candidates so far have used.
        alpha_left: The part that is left.
        next_level: The level of the next candidate; null where no candidate can come.
        fewest_seeds: The fewest tuning seeds on which the next candidate can be kept; null where no
            candidate can come, or none can be kept.
        commit: The commit of the code that scores every policy; null without git.
        code: The digest of that code.
        protected: The files that no candidate may change.
        free: Settings that candidates may change besides agent and algorithm.
        candidates: Every candidate in order.
        tests_missing: Number of test runs without a score; null before the stream is closed.
        head: The sha256 of the last line of the register.
        interrupted: The signal that ended the command (`SIGINT`); null if none did.
        card: The answer of the test, as in a report; null before it.
        next: Suggested next commands.
    """

    schema: ClassVar[Schema] = Schema("stream")

    study: str
    answer: StreamAnswer
    candidate: int | None
    earlier: bool
    champion: int
    champion_name: str
    task: str
    label: str
    score: str
    quantity: str
    lower_is_better: bool
    steps: int
    seeds: int
    horizon: int | None
    margin: float
    alpha: float
    alpha_spent: float
    alpha_left: float
    next_level: float | None
    fewest_seeds: int | None
    commit: str | None
    code: str
    protected: tuple[str, ...]
    free: tuple[str, ...]
    candidates: tuple[CandidateRow, ...]
    tests_missing: int | None
    head: str | None
    interrupted: str | None
    card: SummaryCard | None
    next: tuple[NextCommand, ...]

    @property
    def judged(self) -> CandidateRow | None:
        """The candidate that the answer is about."""
        return None if not self.candidate else self.candidates[self.candidate - 1]


def candidate_row(
    candidate: OpenedCandidate, decision: CandidateDecision | None, code: str | None
) -> CandidateRow:
    """A candidate with its decision; `code` is the digest of its code."""
    scores = () if decision is None else decision.scores
    others = () if decision is None else decision.champion_scores
    return CandidateRow(
        number=candidate.number,
        source=candidate.source,
        words=candidate.words,
        name=candidate.name,
        code=code or "",
        commit=candidate.commit,
        champion=candidate.champion,
        level=candidate.level,
        decision=None if decision is None else str(decision.state),
        reason_code=None if decision is None else decision.code,
        reason=None if decision is None else decision.reason,
        n=len(scores),
        won=0 if decision is None else decision.won,
        lost=0 if decision is None else decision.lost,
        mean=_mean(scores),
        champion_mean=_mean(others),
        e_value=None if decision is None else decision.e_value,
        threshold=None if decision is None else decision.threshold,
    )


def _mean(scores: tuple[float | None, ...]) -> float | None:
    numbers = [score for score in scores if score is not None]
    return sum(numbers) / len(numbers) if numbers and len(numbers) == len(scores) else None
