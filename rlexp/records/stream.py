"""Streams of candidates: the lines of their register, and what follows from them.

A stream is a sweep whose trials come from outside. Its register holds its design, every candidate
with its share of alpha, every score that counts, and every decision, in this order.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, ClassVar, Self

from rlexp.errors import RecordError
from rlexp.protocol.identity import digest
from rlexp.records.events import Evaluated, from_plain, to_plain
from rlexp.records.selection import DEFAULT


class CandidateSource(StrEnum):
    """Where a candidate comes from."""

    SETTINGS = "settings"
    DIFF = "diff"
    WORKTREE = "worktree"


class CandidateVerdict(StrEnum):
    """What a stream has decided about a candidate."""

    KEPT = "kept"
    DISCARDED = "discarded"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamBeginning:
    """What a stream freezes before its first run.

    Attributes:
        time: When it began, in seconds since 1970.
        experiment: The fingerprint of its experiment: first champion, budget, root of the seeds.
        words: The words of the first champion.
        commit: The commit of the trusted code, which scores every policy; None without git.
        code: The digest of the trusted code.
        modules: The modules of the workspace that the environment is made of.
        declared: Further protected files and folders, relative to the workspace.
        protected: The sha256 of every protected file, by its path relative to the workspace.
        free: Settings that candidates may change besides agent and algorithm.
        operational: Settings of every attempt that change no number.
        alpha: The level over all candidates.
        seeds: Largest number of tuning seeds for one candidate.
        horizon: Largest number of candidates; None for an endless stream.
        margin: The gain that a candidate must exceed, in units of the score.
    """

    tag: ClassVar[str] = "began"
    time: float
    experiment: str
    words: tuple[str, ...]
    commit: str | None
    code: str
    modules: tuple[str, ...]
    declared: tuple[str, ...]
    protected: Mapping[str, str]
    free: tuple[str, ...]
    operational: Mapping[str, Any]
    alpha: float
    seeds: int
    horizon: int | None
    margin: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedCandidate:
    """A candidate that has its share of alpha; nothing was trained for it before this line.

    Attributes:
        time: When it was proposed, in seconds since 1970.
        number: Its number from 1; the first champion has the number 0.
        fingerprint: The identity of its configuration, which includes its code.
        configuration: Its configuration, as JSON values.
        parameters: What is shown as its parameters.
        champion: The number of the candidate that it is compared with.
        source: Where it comes from.
        words: Its settings that differ from those of the champion.
        commit: The commit of its code; None without git.
        name: The name of the file or folder that it came from; None for settings.
        level: The level of its comparison.
    """

    tag: ClassVar[str] = "opened"
    time: float
    number: int
    fingerprint: str
    configuration: Mapping[str, Any]
    parameters: Mapping[str, Any]
    champion: int
    source: CandidateSource
    words: tuple[str, ...]
    commit: str | None
    name: str | None
    level: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredRun:
    """The valid score of a run, which the trusted code computes in a separate process.

    Attributes:
        time: When it was scored, in seconds since 1970.
        run: The name of the run.
        id: The identity of the run.
        policy: The sha256 of the policy's files.
        evaluation: The final evaluation; None where the policy cannot be scored.
        score: The score; None without one.
        problem: Why there is no score; None with one.
    """

    tag: ClassVar[str] = "scored"
    time: float
    run: str
    id: str
    policy: str | None
    evaluation: Evaluated | None
    score: float | None
    problem: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateDecision:
    """The decision about a candidate, written before anything follows from it.

    Attributes:
        time: When it was decided, in seconds since 1970.
        candidate: The number of the candidate.
        champion: The number of the candidate that it was compared with.
        state: The decision.
        code: The kind of reason, a stable name.
        reason: The reason as a sentence without a full stop.
        level: The level of the comparison.
        seeds: The tuning seeds that the decision used, in order.
        scores: The scores of the candidate on these seeds; None for a failed run.
        champion_scores: The scores of the champion on these seeds.
        won: Number of seeds on which the candidate was better by more than the margin.
        lost: Number of seeds on which it was not, except ties.
        e_value: The evidence that the candidate is better.
        threshold: The evidence that was needed.
    """

    tag: ClassVar[str] = "decided"
    time: float
    candidate: int
    champion: int
    state: CandidateVerdict
    code: str
    reason: str
    level: float
    seeds: tuple[int, ...]
    scores: tuple[float | None, ...]
    champion_scores: tuple[float | None, ...]
    won: int
    lost: int
    e_value: float
    threshold: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEnd:
    """The end of a stream: no candidate comes any more, and the champion is tested."""

    tag: ClassVar[str] = "closed"
    time: float
    champion: int


StreamLine = StreamBeginning | OpenedCandidate | ScoredRun | CandidateDecision | StreamEnd
KINDS: Mapping[str, type[StreamLine]] = {
    kind.tag: kind
    for kind in (StreamBeginning, OpenedCandidate, ScoredRun, CandidateDecision, StreamEnd)
}
TUPLES = (
    *("words", "modules", "declared", "free"),
    *("seeds", "scores", "champion_scores"),
)
"""Fields that JSON holds as lists, where they are no numbers."""


def plain_line(line: StreamLine) -> dict[str, Any]:
    """The JSON object of a line: its kind first, and a checksum of all values last."""
    values = {"kind": line.tag, **asdict(line)}
    if isinstance(line, ScoredRun) and line.evaluation is not None:
        values["evaluation"] = to_plain(line.evaluation)
    values = {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}
    return {**values, "sum": digest(values)}


def line_from_plain(document: Mapping[str, Any]) -> StreamLine:
    """The line of a JSON object; the inverse of `plain_line`.

    Raises:
        RecordError: It is no line, or its checksum is not that of its content.
    """
    try:
        kind = KINDS[document["kind"]]
        values = {f.name: _value(f.name, document[f.name]) for f in fields(kind)}
        for name, convert in (("source", CandidateSource), ("state", CandidateVerdict)):
            if name in values:
                values[name] = convert(values[name])
        line: StreamLine = kind(**values)
        line = replace(line, time=float(line.time))
        sum_ = plain_line(line)["sum"]
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise RecordError(f"not a line of a stream: {error!r}"[:160]) from error
    if document.get("sum") != sum_:
        raise RecordError("its checksum is not that of its content")
    return line


def _value(name: str, value: Any) -> Any:
    if name == "evaluation" and value is not None:
        event = from_plain(value)
        if not isinstance(event, Evaluated):
            raise TypeError("its evaluation is none")
        return event
    return tuple(value) if name in TUPLES and isinstance(value, list) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRegister:
    """The content of the register of a stream.

    Attributes:
        lines: The lines that can be read, in order.
        sums: The sha256 of every complete line.
        breaks: Messages about lines that were changed, and about places where the chain is broken.
        torn: Whether the last line is incomplete.
        beginning: What the stream has frozen; None for an empty register.
        candidates: The candidates in order of their numbers.
        scored: The last score of each run, by its id.
        decisions: The decision about each candidate, by its number.
        closed: The end of the stream; None while it takes candidates.
    """

    lines: tuple[StreamLine, ...] = ()
    sums: tuple[str, ...] = ()
    breaks: tuple[str, ...] = ()
    torn: bool = False
    beginning: StreamBeginning | None = None
    candidates: tuple[OpenedCandidate, ...] = ()
    scored: Mapping[str, ScoredRun] = field(default_factory=dict)
    decisions: Mapping[int, CandidateDecision] = field(default_factory=dict)
    closed: StreamEnd | None = None

    @classmethod
    def of(
        cls,
        lines: tuple[StreamLine, ...],
        *,
        sums: tuple[str, ...] = (),
        breaks: tuple[str, ...] = (),
        torn: bool = False,
    ) -> Self:
        """The register with these lines; an order that no command writes is a break."""
        register = cls(lines=lines, sums=sums, breaks=breaks, torn=torn)
        for line in lines:
            register = register.followed_by(line)
        return register

    def followed_by(self, line: StreamLine) -> Self:
        """The register with a further line."""
        if wrong := self._contradiction(line):
            return replace(self, breaks=(*self.breaks, wrong))
        match line:
            case StreamBeginning():
                return replace(self, beginning=line)
            case OpenedCandidate():
                return replace(self, candidates=(*self.candidates, line))
            case ScoredRun():
                return replace(self, scored={**self.scored, line.id: line})
            case CandidateDecision():
                return replace(self, decisions={**self.decisions, line.candidate: line})
            case StreamEnd():
                return replace(self, closed=line)

    def _contradiction(self, line: StreamLine) -> str | None:
        """Why a line cannot follow, as a sentence without a full stop."""
        if (self.beginning is None) != isinstance(line, StreamBeginning):
            return "its first line, and no other, must be that of its beginning"
        if isinstance(line, StreamBeginning | ScoredRun):
            return None
        if self.closed is not None:
            return "a line other than a score follows its end"
        return self._out_of_turn(line)

    def _out_of_turn(self, line: StreamLine) -> str | None:
        """Why a candidate or a decision does not follow from the lines before it."""
        if isinstance(line, OpenedCandidate):
            expected = len(self.candidates) + 1
            if line.number != expected:
                return f"candidate {line.number} stands where candidate {expected} is expected"
            if self.open is not None:
                return f"candidate {line.number} was opened before the decision about candidate {self.open.number}"
            if line.champion != self.champion:
                return f"candidate {line.number} was not compared with the champion"
        if isinstance(line, CandidateDecision) and (
            self.open is None or self.open.number != line.candidate
        ):
            return f"the decision about candidate {line.candidate} follows no open candidate"
        return None

    @property
    def head(self) -> str | None:
        """The sha256 of the last line, which depends on all lines; None for an empty register."""
        return self.sums[-1] if self.sums else None

    @property
    def open(self) -> OpenedCandidate | None:
        """The candidate without a decision, if any."""
        last = self.candidates[-1] if self.candidates else None
        return last if last is not None and last.number not in self.decisions else None

    @property
    def kept(self) -> tuple[int, ...]:
        """The numbers of the kept candidates, in order."""
        kept = CandidateVerdict.KEPT
        return tuple(n for n, decision in self.decisions.items() if decision.state is kept)

    @property
    def champion(self) -> int:
        """The number of the champion: the last kept candidate, or the first champion."""
        return self.kept[-1] if self.kept else DEFAULT

    def candidate(self, number: int) -> OpenedCandidate | None:
        """A candidate; None for the first champion."""
        return None if number == DEFAULT else self.candidates[number - 1]

    def commit_of(self, number: int) -> str | None:
        """The commit of the code of a candidate or of the first champion."""
        candidate = self.candidate(number)
        if candidate is not None:
            return candidate.commit
        return self.beginning.commit if self.beginning is not None else None

    def words_of(self, number: int) -> tuple[str, ...]:
        """The settings by which a candidate differs from the first champion, later ones winning."""
        candidate = self.candidate(number)
        if candidate is None:
            return ()
        return (*self.words_of(candidate.champion), *candidate.words)
