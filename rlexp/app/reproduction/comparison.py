"""What running again has shown: how alike two executions are, where they part, and likely why."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from rlexp.app.reproduction.original import Original
from rlexp.app.reproduction.surroundings import Surroundings
from rlexp.app.workspace import Workspace
from rlexp.records.divergence import Divergence, first_divergence, likeness
from rlexp.records.run import RunRecord, State


class Verdict(StrEnum):
    """What is said of a run; `failed` where running it again did not come to its end."""

    IDENTICAL = "identical"
    EQUAL_SCORES = "equal scores"
    DIFFERENT = "different"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Scores of the two executions of a run; null where there is none."""

    then: float | None
    now: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Digests:
    """Digests (SHA-256) of the weights of the two executions of a run."""

    then: str | None
    now: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproducedRun:
    """What running one run again has shown.

    Attributes:
        run: The run (`EXPERIMENT/RUN`).
        verdict: How alike the executions are: `identical`, `equal scores`, `different`, `failed`.
        score: The scores.
        weights: The digests of the final weights.
        continued_at: Steps of checkpoints from which the first execution continued.
        divergence: The first number that differs, if one does.
        state: How the second execution ended.
        failure: The kind of its failure.
        reason: Why it ended as it did.
        cause: The likely cause of a difference, if there is one.
    """

    run: str
    verdict: Verdict
    score: Scores
    weights: Digests
    continued_at: tuple[int, ...]
    divergence: Divergence | None
    state: str
    failure: str | None
    reason: str | None
    cause: str | None


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

    def result(self) -> ReproducedRun:
        """The answer as part of a result."""
        then, now = self.original.record, self.again
        return ReproducedRun(
            run=self.original.name,
            verdict=self.verdict,
            score=Scores(then=then.score, now=now.score),
            weights=Digests(then=then.weights, now=now.weights),
            continued_at=tuple(c.step for c in then.continuations),
            divergence=self.divergence,
            state=str(now.state),
            failure=None if now.failure is None else str(now.failure),
            reason=now.reason,
            cause=self.cause,
        )


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
