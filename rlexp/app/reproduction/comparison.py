"""What running again has shown: how alike two executions are, where they part, and likely why."""

import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from importlib import invalidate_caches
from importlib.metadata import PackageNotFoundError, distribution
from json import loads
from os import environ
from pathlib import Path
from platform import python_version
from typing import Any

from packaging.utils import canonicalize_name

from rlexp.app.execution.reproducibility import LEARNING, versions
from rlexp.app.reproduction.original import Original
from rlexp.app.workspace import Workspace
from rlexp.protocol.spec import RunSpec
from rlexp.records.divergence import Divergence, first_divergence, likeness
from rlexp.records.run import RunRecord, State
from rlexp.store.provenance import machine, packages

DECIDING = re.compile(r"PYTHONHASHSEED|(CUDA|OMP|MKL|OPENBLAS|NUMEXPR|TORCH|PYTORCH)[A-Z0-9_]*")
"""Variables that can change numbers."""
HARMLESS = re.compile(r".*(_NUM_THREADS|_DIR|_PATH|_HOME|_LOGS)")
"""Variables that do not: compute.threads decides on threads, and a place is no number."""


@dataclass(frozen=True, slots=True)
class Change:
    """What was recorded, and what is there now; one of them may be missing."""

    name: str
    then: str | None
    now: str | None

    def __str__(self) -> str:
        """One phrase (`numpy 2.1.0 then, 2.3.1 now`)."""
        return f"{self.name} {self.then or 'not there'} then, {self.now or 'not there'} now"

    @property
    def wish(self) -> str | None:
        """What pip has to be asked for to install what was there then, if it can."""
        then, now = ((v or "").partition("+")[0] for v in (self.then, self.now))
        return f"{self.name}=={then}" if then and then != now else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What differs around a run.

    Attributes:
        decisive: Distributions and the Python that decide the numbers of the run.
        machine: Processor, and variables that can change numbers.
        others: Distributions that decide no number of this run, as far as can be seen.
        editable: Where rlexp itself is imported from, if it is installed for editing.
        known: Whether anything was recorded to compare with.
    """

    decisive: tuple[Change, ...]
    machine: tuple[Change, ...]
    others: tuple[Change, ...]
    editable: Path | None
    known: bool

    @property
    def install(self) -> str | None:
        """The command that installs the decisive packages as they were, if one can."""
        wishes = [
            wish
            for change in self.decisive
            if change.name not in {"python", "rlexp" if self.editable else ""}
            and (wish := change.wish) is not None
        ]
        return shlex.join(["pip", "install", *wishes]) if wishes else None


def compare(provenance: Mapping[str, Any], specs: Sequence[RunSpec], folder: Path) -> Surroundings:
    """Compare what was recorded with what is there now.

    Args:
        provenance: What was recorded of an attempt.
        specs: The runs; what their environments import decides their numbers, too.
        folder: Where the runs' own modules lie; nothing of it is imported.
    """
    then, now = _recorded_packages(provenance), _by_name(packages())
    with _findable(folder):
        deciding = set(LEARNING).union(*(versions(spec) for spec in specs))
    changed = [
        Change(n, then.get(n), now.get(n))
        for n in sorted({*then, *now})
        if then and then.get(n) != now.get(n)
    ]
    python = provenance.get("python")
    mine = (
        [Change("python", str(python), python_version())]
        if python is not None and python != python_version()
        else []
    )
    return Surroundings(
        decisive=(*mine, *(c for c in changed if c.name in deciding and c.then is not None)),
        machine=tuple(_machine(provenance)),
        others=tuple(c for c in changed if c.name not in deciding),
        editable=editable("rlexp"),
        known=bool(then),
    )


def editable(name: str) -> Path | None:
    """The folder of a distribution that is installed for editing, or nothing."""
    try:
        plain = loads(distribution(name).read_text("direct_url.json") or "{}")
        told = plain["url"] if plain.get("dir_info", {}).get("editable") else None
    except (PackageNotFoundError, ValueError, KeyError, AttributeError, TypeError):
        return None
    return Path(str(told).removeprefix("file://")) if told else None


def _recorded_packages(provenance: Mapping[str, Any]) -> dict[str, str]:
    found = provenance.get("packages")
    return _by_name(found) if isinstance(found, Mapping) else {}


def _by_name(found: Mapping[Any, Any]) -> dict[str, str]:
    return {str(canonicalize_name(str(name))): str(version) for name, version in found.items()}


def _machine(provenance: Mapping[str, Any]) -> Iterator[Change]:
    then = provenance.get("machine")
    if isinstance(then, Mapping) and then.get("processor") is not None:
        processor = str(machine()["processor"])
        if then["processor"] != processor:
            yield Change("processor", str(then["processor"]), processor)
    recorded = provenance.get("variables")
    if not isinstance(recorded, Mapping):
        return
    for name in sorted({*map(str, recorded), *environ}):
        if not DECIDING.fullmatch(name) or HARMLESS.fullmatch(name):
            continue
        was, present = recorded.get(name), environ.get(name)
        if was != present:
            yield Change(name, None if was is None else str(was), present)


@contextmanager
def _findable(folder: Path) -> Iterator[None]:
    """Let modules in a folder be found, after everything that is installed."""
    before = list(sys.path)
    sys.path.append(str(folder))
    invalidate_caches()
    try:
        yield
    finally:
        sys.path[:] = before


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
