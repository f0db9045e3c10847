"""How runs begin that have checkpoints, and how much experience their checkpoints hold."""

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rlexp.app.execution.compatibility import Spaces
from rlexp.app.execution.import_permission import foreign_modules
from rlexp.app.execution.reproducibility import difference, versions
from rlexp.app.plans import Beginnings, RefusedCheckpoint
from rlexp.app.workspace import Workspace
from rlexp.errors import RecordError
from rlexp.protocol.identity import canonical
from rlexp.protocol.spec import RunSpec
from rlexp.store.bundles import bundles, read_manifest
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.manifest import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """How a run begins that has checkpoints.

    Attributes:
        step: Of the checkpoint that it goes on from, or of the one that it does not.
        anew: Whether it begins at the first step.
        reason: Why it begins anew, or what changed since the checkpoint was made.
        drifted: Whether that is what `--allow-drift` allows.
    """

    step: int
    anew: bool = False
    reason: str | None = None
    drifted: bool = False


def continuing(
    paths: ExperimentPaths, specs: Iterable[RunSpec], *, allow_drift: bool = False
) -> dict[str, Beginning]:
    """How every run begins that has checkpoints, by the run's name.

    It is told by manifests. Whether a run can go on turns out when it does: if not, it says why,
    and begins with the checkpoint before, or anew.

    Args:
        paths: The experiment.
        specs: Its runs.
        allow_drift: Whether they go on although packages or code have changed.
    """
    known: dict[str, dict[str, str]] = {}
    found = {spec.name: _beginning(paths, spec, known, allow_drift) for spec in specs}
    return {name: beginning for name, beginning in found.items() if beginning is not None}


def _beginning(
    paths: ExperimentPaths, spec: RunSpec, known: dict[str, dict[str, str]], allow_drift: bool
) -> Beginning | None:
    """What becomes of the newest checkpoint that can be continued from, or else of the newest."""
    refused = []
    for step, bundle in _bundles(paths.run(spec.name)).items():
        saved = _manifest(bundle, spec.id)
        if isinstance(saved, str):
            refused.append(Beginning(step=step, anew=True, reason=saved))
            continue
        change = difference(saved.about.get("versions"), _now(spec, known))
        if change is None or allow_drift:
            return Beginning(step=step, reason=change, drifted=change is not None)
        refused.append(Beginning(step=step, anew=True, reason=change, drifted=True))
    return max(refused, key=lambda beginning: beginning.drifted, default=None)


def _bundles(run: RunPaths) -> dict[int, Path]:
    # Of runs that are planned, most were never begun.
    if not os.path.lexists(run.checkpoints):
        return {}
    try:
        return {step: bundle for step, bundle in bundles(run).items() if step}
    except (OSError, RecordError):
        return {}


def _manifest(bundle: Path, run_id: str) -> Manifest | str:
    """The manifest of a checkpoint of this run, or why there is none to continue from."""
    try:
        manifest = read_manifest(bundle)
    except (OSError, RecordError):
        return "it is damaged"
    if manifest.about.get("run") != run_id:
        return "it is that of another run"
    return manifest if manifest.resumable else "its experience was removed"


def _now(spec: RunSpec, known: dict[str, dict[str, str]]) -> dict[str, str]:
    """What `versions` says, once for all runs that are made of the same."""
    key = canonical([spec.environment, spec.compute, sorted(foreign_modules(spec))])
    if key not in known:
        known[key] = versions(spec)
    return known[key]


def steps_done(found: Mapping[str, Beginning]) -> dict[str, int]:
    """The steps that runs go on from, by their names."""
    return {name: beginning.step for name, beginning in found.items() if not beginning.anew}


def beginnings(found: Mapping[str, Beginning], again: str | None, replay: int) -> Beginnings:
    """What a plan says of checkpoints.

    Args:
        found: How runs begin.
        again: The command that continues although packages or code have changed.
        replay: Bytes of the largest replay buffer in a checkpoint.
    """
    anew = {name: beginning for name, beginning in found.items() if beginning.anew}
    drifted = any(beginning.drifted for beginning in anew.values())
    return Beginnings(
        continued=steps_done(found),
        drifts={name: b.reason for name, b in found.items() if b.drifted and not b.anew},
        anew={n: RefusedCheckpoint(step=b.step, reason=b.reason) for n, b in anew.items()},
        allow_drift=again if drifted else None,
        replay_bytes=replay,
    )


def with_drift(command: Sequence[str], workspace: Workspace, *options: str) -> str:
    """The command with `--allow-drift`, and with what it was allowed, to be given again.

    Args:
        command: What the user typed, but for options.
        workspace: Where, and what the command may import.
        options: Those that change what it does.
    """
    permission = [] if "--allow-import" in command else workspace.permission
    return shlex.join([*command, *options, *permission, "--allow-drift"])


def largest_replay(specs: Iterable[RunSpec], spaces: Mapping[str, Spaces]) -> int:
    """Bytes of the largest replay buffer that a run's checkpoints hold; 0 where none has one.

    Args:
        specs: The runs.
        spaces: Of their environments, as `rlexp.app.execution.compatibility.check_fit` has found them.
    """
    return max((_replay(spec, spaces) for spec in specs), default=0)


def _replay(spec: RunSpec, spaces: Mapping[str, Spaces]) -> int:
    size = spec.algorithm.get("buffer_size")
    if not isinstance(size, int) or (found := spaces.get(canonical(spec.environment))) is None:
        return 0
    return min(size, int(spec.budget["steps"])) * found.transition
