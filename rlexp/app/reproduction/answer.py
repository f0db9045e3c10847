"""What running again has shown: how alike two executions are, where they part, and likely why."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from rlexp.app.reproduction.original import Original
from rlexp.app.reproduction.surroundings import Surroundings
from rlexp.app.workspace import Workspace
from rlexp.records.divergence import Divergence, first_divergence, likeness
from rlexp.records.run import RunRecord, State

WITHOUT_WEIGHTS = "every number that its script wrote is equal; it leaves no weights to compare"
SHORTEST = 12
"""Characters of a digest that are shown."""


class Verdict(StrEnum):
    """What is said of a run; `failed` where running it again did not come to its end."""

    IDENTICAL = "identical"
    EQUAL_SCORES = "equal scores"
    DIFFERENT = "different"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What running one run again has shown."""

    original: Original
    again: RunRecord
    verdict: Verdict
    divergence: Divergence | None
    cause: str | None

    @property
    def reproduced(self) -> bool:
        """Whether it came to the same score at least."""
        return self.verdict in {Verdict.IDENTICAL, Verdict.EQUAL_SCORES}

    def plain(self) -> dict[str, Any]:
        """The answer as JSON values."""
        then, now = self.original.record, self.again
        return {
            "run": self.original.name,
            "verdict": str(self.verdict),
            "score": {"then": then.score, "now": now.score},
            "weights": {"then": then.weights, "now": now.weights},
            "continued_at": [c.step for c in then.continuations],
            "divergence": None if self.divergence is None else asdict(self.divergence),
            "reason": self.again.reason,
            "cause": self.cause,
        }

    def lines(self) -> list[str]:
        """The answer for people."""
        if self.verdict is Verdict.IDENTICAL:
            return [f"{self.original.name}: identical, score {_number(self.again.score)}"]
        head = f"{self.original.name}: {self.verdict}"
        scores = (
            f"  score {_number(self.original.record.score)} then, {_number(self.again.score)} now"
        )
        if self.verdict is Verdict.FAILED:
            scores = f"  running it again ended as {_ending(self.again)}"
        if self.cause is None:
            return [head, scores, f"  {WITHOUT_WEIGHTS}"]
        parts = [] if self.divergence is None else [f"  parts at {_said(self.divergence)}"]
        return [head, scores, *parts, f"  likely cause: {self.cause}"]


def answer(
    original: Original, again: RunRecord, surroundings: Surroundings, workspace: Workspace
) -> Answer:
    """Compare a run with its second execution, which has ended."""
    if again.state is State.COMPLETED:
        verdict = Verdict(likeness(original.record, again))
    else:
        verdict = Verdict.FAILED
    same = verdict is Verdict.IDENTICAL
    divergence = None if same else first_divergence(original.record, again)
    if verdict is Verdict.EQUAL_SCORES and original.record.spec.external:
        same = divergence is None
    return Answer(
        original=original,
        again=again,
        verdict=verdict,
        divergence=divergence,
        cause=None if same else likely_cause(original, again, surroundings, workspace),
    )


def likely_cause(
    original: Original, again: RunRecord, surroundings: Surroundings, workspace: Workspace
) -> str:
    """What the evidence suggests, the strongest first; one line."""
    return next(_evidence(original, again, surroundings, workspace))


def _evidence(
    original: Original, again: RunRecord, surroundings: Surroundings, workspace: Workspace
) -> Iterator[str]:
    code = original.code
    for changes in (surroundings.decisive, surroundings.machine):
        if changes:
            yield "; ".join(map(str, changes))
    if original.mixed:
        yield "attempts that count for the run ran different code; the last one's was taken"
    if code.commit is None:
        yield f"the code may have changed since: no commit was recorded{_of_rlexp(surroundings)}"
    if not code.saved:
        yield (
            "its uncommitted changes were not saved in full: long files, files that are no text "
            "and secrets are left out"
        )
    if again.state is not State.COMPLETED:
        yield "files that git ignores are not part of what was rebuilt; nothing else is known"
    if not surroundings.known:
        yield "nothing is known: no packages were recorded"
    doctor = ["rlexp", "doctor", "--determinism", original.name, *workspace.permission]
    yield (
        "nothing that was recorded differs, so that something in it is not decided by its seeds"
        f"{_of_rlexp(surroundings)}; to find out what: {shlex.join(doctor)}"
    )


def _of_rlexp(surroundings: Surroundings) -> str:
    """The one thing that no record tells: the commit of rlexp itself, where it is edited."""
    if surroundings.editable is None:
        return ""
    return f" (or rlexp itself was edited since, in {surroundings.editable})"


def summary(answers: Sequence[Answer]) -> str:
    """How many there are of each verdict."""
    counts = {v: sum(a.verdict is v for a in answers) for v in Verdict}
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    return f"{len(answers)} {'run' if len(answers) == 1 else 'runs'}: {told}"


def _said(divergence: Divergence) -> str:
    first, second = _value(divergence.first), _value(divergence.second)
    place = f"step {divergence.step:,}, {divergence.event} {divergence.field}"
    return f"{place}: {first} then, {second} now"


def _value(value: Any) -> str:
    if isinstance(value, str):
        return value[:SHORTEST] if len(value) == 64 else value
    return "—" if value is None else f"{value!r}"


def _number(score: float | None) -> str:
    return "—" if score is None else f"{score:,.2f}"


def _ending(record: RunRecord) -> str:
    kind = f" ({record.failure})" if record.failure else ""
    return f"{record.state}{kind}" + (f": {record.reason}" if record.reason else "")
