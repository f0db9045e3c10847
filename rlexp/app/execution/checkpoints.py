"""Decides from which checkpoint each run continues, and how large replay buffers are on disk."""

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rlexp.app.execution.checks.compatibility import EnvironmentSpaces
from rlexp.app.execution.checks.import_permission import foreign_modules
from rlexp.app.execution.checks.replay_checks import bytes_of_replay
from rlexp.app.execution.software_versions import collect_versions, describe_changes
from rlexp.app.plans import RefusedCheckpoint, StartingPoints
from rlexp.app.workspace import Workspace
from rlexp.errors import RecordError
from rlexp.protocol.identity import canonical
from rlexp.protocol.spec import RunSpec
from rlexp.store.checkpoints.checkpoint_folders import checkpoint_folders, read_manifest
from rlexp.store.checkpoints.manifest import Manifest
from rlexp.store.layout import ExperimentPaths, RunPaths


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBeginning:
    """How a run with checkpoints begins.

    Attributes:
        step: The step of the checkpoint that is used, or of the one that is refused.
        anew: Whether the run starts at step 0.
        reason: Why the checkpoint is refused, or what changed since it was made.
        drifted: Whether the reason is a change of versions, which `--allow-drift` permits.
    """

    step: int
    anew: bool = False
    reason: str | None = None
    drifted: bool = False


def find_beginnings(
    paths: ExperimentPaths, specs: Iterable[RunSpec], *, allow_drift: bool = False
) -> dict[str, RunBeginning]:
    """How every run with checkpoints begins, by the run's name.

    Only manifests are read. A checkpoint may still turn out to be unusable when the run loads it:
    the run then records the reason, and continues from the checkpoint before, or starts at step 0.

    Args:
        paths: The experiment.
        specs: Runs of the experiment.
        allow_drift: Whether runs continue although packages or code have changed.
    """
    versions_cache: dict[str, dict[str, str]] = {}
    beginning_of_run = {
        spec.name: _beginning(paths, spec, versions_cache, allow_drift) for spec in specs
    }
    return {
        name: beginning for name, beginning in beginning_of_run.items() if beginning is not None
    }


def _beginning(
    paths: ExperimentPaths,
    spec: RunSpec,
    versions_cache: dict[str, dict[str, str]],
    allow_drift: bool,
) -> RunBeginning | None:
    """How a run begins: from its newest usable checkpoint, or why no checkpoint is usable."""
    refused = []
    for step, folder, run_id in _candidates(paths.run(spec.name), spec):
        saved = _manifest(folder, run_id)
        if isinstance(saved, str):
            refused.append(RunBeginning(step=step, anew=True, reason=saved))
            continue
        # An older checkpoint can still be usable: its attempt may have had the present versions.
        change = describe_changes(
            saved.about.get("versions"), _current_versions(spec, versions_cache)
        )
        if change is None or allow_drift:
            return RunBeginning(step=step, reason=change, drifted=change is not None)
        refused.append(RunBeginning(step=step, anew=True, reason=change, drifted=True))
    if spec.parent is not None and not refused:
        # The copy of the parent is taken over when the command starts.
        return RunBeginning(step=spec.parent.step)
    # A change of versions is reported first, because the user can permit it. Among equals, `max`
    # returns the first, which is the newest.
    return max(refused, key=lambda beginning: beginning.drifted, default=None)


def _candidates(run: RunPaths, spec: RunSpec) -> Iterator[tuple[int, Path, str]]:
    """The step and the folder of each checkpoint, newest first, and the id of the run that made it.

    The last one of an extended run is the copy of its parent.
    """
    yield from ((step, folder, spec.id) for step, folder in _folders(run).items())
    if spec.parent is not None:
        parent = spec.parent.run
        yield from ((step, folder, parent) for step, folder in _folders(run.parent).items())


def _folders(run: RunPaths) -> dict[int, Path]:
    # Most planned runs were never started; this test saves listing a folder for each.
    if not os.path.lexists(run.checkpoints):
        return {}
    try:
        # A checkpoint at step 0 saves nothing: the run starts there anyway.
        return {step: folder for step, folder in checkpoint_folders(run).items() if step}
    except (OSError, RecordError):
        return {}


def _manifest(folder: Path, run_id: str) -> Manifest | str:
    """The manifest of a usable checkpoint of this run, or the reason why it is unusable."""
    try:
        manifest = read_manifest(folder)
    except (OSError, RecordError):
        return "it is damaged"
    if manifest.about.get("run") != run_id:
        return "it belongs to another run"
    return manifest if manifest.resumable else "its replay buffer was removed"


def _current_versions(spec: RunSpec, versions_cache: dict[str, dict[str, str]]) -> dict[str, str]:
    """The current versions, collected once for all runs with the same environment and modules."""
    key = canonical([spec.environment, spec.compute, sorted(foreign_modules(spec))])
    if key not in versions_cache:
        versions_cache[key] = collect_versions(spec)
    return versions_cache[key]


def steps_done(beginning_of_run: Mapping[str, RunBeginning]) -> dict[str, int]:
    """The steps from which runs continue, by their names."""
    return {
        name: beginning.step for name, beginning in beginning_of_run.items() if not beginning.anew
    }


def describe_beginnings(
    beginning_of_run: Mapping[str, RunBeginning],
    drift_command: str | None,
    replay: int,
    rewritten: int = 0,
) -> StartingPoints:
    """The section of a plan about checkpoints.

    Args:
        beginning_of_run: How runs begin, by their names.
        drift_command: The command that continues although packages or code have changed.
        replay: Bytes of the largest replay buffer in a checkpoint.
        rewritten: Bytes of it that each checkpoint writes whole.
    """
    anew = {name: beginning for name, beginning in beginning_of_run.items() if beginning.anew}
    drifted = any(beginning.drifted for beginning in anew.values())
    return StartingPoints(
        continued=steps_done(beginning_of_run),
        drifts={
            name: b.reason for name, b in beginning_of_run.items() if b.drifted and not b.anew
        },
        anew={n: RefusedCheckpoint(step=b.step, reason=b.reason) for n, b in anew.items()},
        allow_drift=drift_command if drifted else None,
        replay_bytes=replay,
        rewritten_bytes=rewritten,
    )


def drift_command(command: Sequence[str], workspace: Workspace, *options: str) -> str:
    """The command with `--allow-drift`, and with its permission to import packages.

    Args:
        command: The command that the user typed, without options.
        workspace: The workspace, with the packages that the command may import.
        options: Options that change what the command does.
    """
    permission = [] if "--allow-import" in command else workspace.permission
    return shlex.join([*command, *options, *permission, "--allow-drift"])


def largest_replay_buffer(
    specs: Iterable[RunSpec], spaces: Mapping[str, EnvironmentSpaces]
) -> int:
    """Bytes of the largest replay buffer in a checkpoint of these runs, or 0 without replay buffers.

    Args:
        specs: The runs.
        spaces: Spaces of their environments, as `check_compatibility` collects them.
    """
    return max((_replay(spec, spaces) for spec in specs), default=0)


def largest_rewritten_part(specs: Iterable[RunSpec]) -> int:
    """Bytes of the largest part of a replay buffer that each checkpoint of these runs writes whole."""
    return max((_rewritten(spec) for spec in specs), default=0)


def _rewritten(spec: RunSpec) -> int:
    size = spec.algorithm.get("buffer_size")
    if not isinstance(size, int):
        return 0
    return min(size, int(spec.budget["steps"])) * bytes_of_replay(spec, "rewritten_bytes")


def _replay(spec: RunSpec, spaces: Mapping[str, EnvironmentSpaces]) -> int:
    size = spec.algorithm.get("buffer_size")
    if (
        not isinstance(size, int)
        or (environment_spaces := spaces.get(canonical(spec.environment))) is None
    ):
        return 0
    # A buffer holds at most one transition per trained step.
    return min(size, int(spec.budget["steps"])) * environment_spaces.transition
