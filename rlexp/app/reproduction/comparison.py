"""Compares a run with its second execution: how alike they are, and the likely cause if not.

`compare_environments` reads the differences between the recorded and the present environment, and
`judge_reproduction` judges the second execution.
"""

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
from urllib.parse import unquote, urlsplit

from packaging.utils import canonicalize_name

from rlexp.app.execution.software_versions import LEARNING, collect_versions
from rlexp.app.reproduction.original import Original
from rlexp.app.workspace import Workspace
from rlexp.protocol.spec import RunSpec
from rlexp.records.divergence import Divergence, first_divergence, likeness
from rlexp.records.run import RunRecord, State
from rlexp.store.provenance import machine, packages

DECIDING = re.compile(r"PYTHONHASHSEED|(CUDA|OMP|MKL|OPENBLAS|NUMEXPR|TORCH|PYTORCH)[A-Z0-9_]*")
"""Environment variables that can change numbers."""
HARMLESS = re.compile(r".*(_NUM_THREADS|_DIR|_PATH|_HOME|_LOGS)")
"""Such variables that change no number: those of paths, and of threads, which a run sets itself."""


@dataclass(frozen=True, slots=True)
class EnvironmentChange:
    """A recorded value and the present one; None where a value is missing."""

    name: str
    then: str | None
    now: str | None

    def __str__(self) -> str:
        """Describe the change (`numpy 2.1.0 originally, 2.3.1 now`)."""
        return f"{self.name} {self.then or 'absent'} originally, {self.now or 'absent'} now"

    @property
    def wish(self) -> str | None:
        """The requirement with which pip installs the recorded version, or None."""
        # The part after `+` names a build such as `cpu`, which the package index does not offer.
        then, now = ((v or "").partition("+")[0] for v in (self.then, self.now))
        return f"{self.name}=={then}" if then and then != now else None


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentDifference:
    """The differences between the recorded and the present environment of a run.

    Attributes:
        decisive: Changed packages, and Python, that determine the numbers of the run.
        machine: A changed processor, and changed variables that can change numbers.
        others: Changed packages that determine no number of the run, as far as is known.
        editable: The folder of rlexp, if rlexp is an editable installation.
        known: Whether packages were recorded at all.
    """

    decisive: tuple[EnvironmentChange, ...]
    machine: tuple[EnvironmentChange, ...]
    others: tuple[EnvironmentChange, ...]
    editable: Path | None
    known: bool

    @property
    def install(self) -> str | None:
        """The command that installs the recorded versions of the decisive packages, or None."""
        wishes = [
            wish
            for change in self.decisive
            if change.name not in {"python", "rlexp" if self.editable else ""}
            and (wish := change.wish) is not None
        ]
        return shlex.join(["pip", "install", *wishes]) if wishes else None


def compare_environments(
    provenance: Mapping[str, Any], specs: Sequence[RunSpec], folder: Path
) -> EnvironmentDifference:
    """Compare the recorded environment of a run with the present one.

    Args:
        provenance: The provenance of an attempt.
        specs: The runs; packages that their environments import are decisive too.
        folder: The folder with the runs' own modules, none of which is imported.
    """
    then, now = _recorded_packages(provenance), _by_name(packages())
    with _findable(folder):
        deciding = set(LEARNING).union(*(collect_versions(spec) for spec in specs))
    changed = [
        EnvironmentChange(n, then.get(n), now.get(n))
        for n in sorted({*then, *now})
        if then and then.get(n) != now.get(n)
    ]
    python = provenance.get("python")
    python_changes = (
        [EnvironmentChange("python", str(python), python_version())]
        if python is not None and python != python_version()
        else []
    )
    return EnvironmentDifference(
        decisive=(
            *python_changes,
            # A package that was absent then cannot have determined the recorded numbers.
            *(c for c in changed if c.name in deciding and c.then is not None),
        ),
        machine=tuple(_machine(provenance)),
        others=tuple(c for c in changed if c.name not in deciding),
        editable=editable_folder("rlexp"),
        known=bool(then),
    )


def editable_folder(name: str) -> Path | None:
    """The folder of an editable installation, or None."""
    try:
        origin = loads(distribution(name).read_text("direct_url.json") or "{}")
        url = origin["url"] if origin.get("dir_info", {}).get("editable") else None
    except (PackageNotFoundError, ValueError, KeyError, AttributeError, TypeError):
        return None
    return Path(unquote(urlsplit(str(url)).path)) if url else None


def _recorded_packages(provenance: Mapping[str, Any]) -> dict[str, str]:
    recorded = provenance.get("packages")
    return _by_name(recorded) if isinstance(recorded, Mapping) else {}


def _by_name(versions: Mapping[Any, Any]) -> dict[str, str]:
    return {str(canonicalize_name(str(name))): str(version) for name, version in versions.items()}


def _machine(provenance: Mapping[str, Any]) -> Iterator[EnvironmentChange]:
    then = provenance.get("machine")
    if isinstance(then, Mapping) and then.get("processor") is not None:
        processor = str(machine()["processor"])
        if then["processor"] != processor:
            yield EnvironmentChange("processor", str(then["processor"]), processor)
    recorded = provenance.get("variables")
    if not isinstance(recorded, Mapping):
        return
    for name in sorted({*map(str, recorded), *environ}):
        if not DECIDING.fullmatch(name) or HARMLESS.fullmatch(name):
            continue
        was, present = recorded.get(name), environ.get(name)
        if was != present:
            yield EnvironmentChange(name, None if was is None else str(was), present)


@contextmanager
def _findable(folder: Path) -> Iterator[None]:
    """Append a folder to Python's module path inside a `with` block."""
    before = list(sys.path)
    # At the end, as in runs: a module of the workspace must not shadow an installed one.
    sys.path.append(str(folder))
    invalidate_caches()
    try:
        yield
    finally:
        sys.path[:] = before


class ReproductionVerdict(StrEnum):
    """How alike two executions are; `failed` where the second one did not complete."""

    IDENTICAL = "identical"
    EQUAL_SCORES = "equal scores"
    DIFFERENT = "different"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Scores of the two executions of a run; null where one is missing."""

    then: float | None
    now: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Digests:
    """Digests (SHA-256) of the weights of the two executions of a run."""

    then: str | None
    now: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproducedRun:
    """The comparison of a run with its second execution, as part of a result.

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
    verdict: ReproductionVerdict
    score: Scores
    weights: Digests
    continued_at: tuple[int, ...]
    divergence: Divergence | None
    state: str
    failure: str | None
    reason: str | None
    cause: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproductionAnswer:
    """The comparison of a run with its second execution."""

    original: Original
    repetition: RunRecord
    verdict: ReproductionVerdict
    divergence: Divergence | None
    cause: str | None

    @property
    def reproduced(self) -> bool:
        """Whether the second execution reached at least the same score."""
        return self.verdict in {ReproductionVerdict.IDENTICAL, ReproductionVerdict.EQUAL_SCORES}

    def result(self) -> ReproducedRun:
        """The comparison as part of a command's result."""
        then, now = self.original.record, self.repetition
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


def judge_reproduction(
    original: Original,
    repetition: RunRecord,
    surroundings: EnvironmentDifference,
    workspace: Workspace,
) -> ReproductionAnswer:
    """Compare a run with its second execution, which has ended."""
    if repetition.state is State.COMPLETED:
        verdict = ReproductionVerdict(likeness(original.record, repetition))
    else:
        verdict = ReproductionVerdict.FAILED
    same = verdict is ReproductionVerdict.IDENTICAL
    divergence = None if same else first_divergence(original.record, repetition)
    # A training script leaves no digest of weights, so equal numbers are the most it can show.
    if verdict is ReproductionVerdict.EQUAL_SCORES and original.record.spec.external:
        same = divergence is None
    return ReproductionAnswer(
        original=original,
        repetition=repetition,
        verdict=verdict,
        divergence=divergence,
        cause=None if same else likely_cause(original, repetition, surroundings, workspace),
    )


def judge_run_without_parent(original: Original, reason: str) -> ReproducedRun:
    """The comparison of an extended run whose repetition could not begin.

    Args:
        original: The run.
        reason: Why the state of its parent is missing.
    """
    then = original.record
    return ReproducedRun(
        run=original.name,
        verdict=ReproductionVerdict.FAILED,
        score=Scores(then=then.score, now=None),
        weights=Digests(then=then.weights, now=None),
        continued_at=tuple(c.step for c in then.continuations),
        divergence=None,
        state=str(State.PLANNED),
        failure=None,
        reason=reason,
        cause=reason,
    )


def likely_cause(
    original: Original,
    repetition: RunRecord,
    surroundings: EnvironmentDifference,
    workspace: Workspace,
) -> str:
    """The cause that the strongest available evidence suggests, in one line."""
    return next(_evidence(original, repetition, surroundings, workspace))


def _evidence(
    original: Original,
    repetition: RunRecord,
    surroundings: EnvironmentDifference,
    workspace: Workspace,
) -> Iterator[str]:
    code = original.code
    for changes in (surroundings.decisive, surroundings.machine):
        if changes:
            yield "; ".join(map(str, changes))
    if original.mixed:
        yield "attempts of the run used different code; the last attempt's code was used"
    if code.commit is None:
        yield f"the code may have changed since: no commit was recorded{_of_rlexp(surroundings)}"
    if not code.saved:
        yield (
            "its uncommitted changes were not saved in full: long files, binary files "
            "and secrets are left out"
        )
    if repetition.state is not State.COMPLETED:
        yield "files that git ignores were not rebuilt; no other cause is known"
    if not surroundings.known:
        yield "the cause is unknown: no packages were recorded"
    doctor = ["rlexp", "doctor", "--determinism", original.name, *workspace.permission]
    yield (
        "nothing recorded differs, so something in the run is not controlled by its seeds"
        f"{_of_rlexp(surroundings)}; to find the cause: {shlex.join(doctor)}"
    )


def _of_rlexp(surroundings: EnvironmentDifference) -> str:
    """A hint that rlexp itself may have changed, which no record shows for an editable one."""
    if surroundings.editable is None:
        return ""
    return f" (or rlexp itself was edited since, in {surroundings.editable})"
