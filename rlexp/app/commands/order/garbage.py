"""`rlexp gc`: tells what finished runs keep on disk to be extended, and removes it."""

import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from rlexp.app.reading.experiment_scan import READ_ERRORS, survey
from rlexp.app.results import NextCommand, Schema
from rlexp.app.workspace import Workspace
from rlexp.errors import RecordError, RlexpError
from rlexp.protocol.seeds import Phase
from rlexp.records.checkpoint import STATE
from rlexp.records.run import State
from rlexp.store.checkpoints.checkpoint_files import clear_replay, clear_states
from rlexp.store.layout import ExperimentPaths, Layout, RunPaths
from rlexp.store.locks.lease import hold, holder, is_held
from rlexp.store.runs import folder_size, read_definition, read_experiment


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptState:
    """What the completed runs of an experiment keep to be extended.

    Attributes:
        experiment: The name of the experiment.
        runs: Number of completed runs that keep something.
        replay_bytes: The size of their replay buffers, in bytes.
        state_bytes: The size of the other state of their trainings, in bytes, without the policies.
        removed: What was removed: `nothing`, `buffers` or `states` (with the buffers).
        holder: The process that uses the experiment, which is then left as it is; null if none does.
        awaited_by: The extensions that have not taken over the states of all their parents yet, and
            the sweep itself while longer trials may continue its runs. What these runs keep is left
            as it is, and not counted.
    """

    experiment: str
    runs: int
    replay_bytes: int
    state_bytes: int
    removed: str
    holder: str | None
    awaited_by: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GarbageCollection:
    """What completed runs kept, and what of it was removed.

    Files that an extension shares with its parent count for both, and take up space until both are
    gone.

    Attributes:
        experiments: The experiments whose completed runs keep something.
        bytes: The size of all that was removed, or that would be removed, in bytes.
        removed: Whether it was removed.
        next: The command that removes it; empty if it was removed, or if there is nothing.
    """

    schema: ClassVar[Schema] = Schema("garbage-collection")

    experiments: tuple[KeptState, ...]
    bytes: int
    removed: bool
    next: tuple[NextCommand, ...]


def collect_garbage(
    targets: Sequence[str], workspace: Workspace, *, states: bool, yes: bool
) -> GarbageCollection:
    """Remove the replay buffers that completed runs keep; without `yes`, only measure them.

    Args:
        targets: The experiments; without any, all of them.
        workspace: The workspace of the experiments.
        states: Whether to remove the other state of their trainings, too. Policies always stay.
        yes: Whether to remove it.

    Raises:
        RecordError: There is no such experiment, or a file cannot be removed.
    """
    names = dict.fromkeys(targets)
    chosen = [workspace.experiment(n) for n in names] or workspace.layout.experiments()
    awaited = _awaited_states(workspace.layout)
    kept = [_collect(paths, awaited, states=states, yes=yes) for paths in chosen]
    keeping = tuple(each for each in kept if each.runs or each.awaited_by)
    free = [each for each in keeping if each.holder is None]
    size = sum(e.replay_bytes + (e.state_bytes if states else 0) for e in free)
    following = () if yes else tuple(_next([*names], free, states=states))
    return GarbageCollection(experiments=keeping, bytes=size, removed=yes, next=following)


def _next(
    names: Sequence[str], free: Sequence[KeptState], *, states: bool
) -> Iterator[NextCommand]:
    """The commands that remove something."""
    if not states and any(each.replay_bytes for each in free):
        command = shlex.join(["rlexp", "gc", *names, "--yes"])
        yield NextCommand(why="remove the replay buffers", command=command)
    if any(each.replay_bytes + each.state_bytes for each in free):
        command = shlex.join(["rlexp", "gc", *names, "--states", "--yes"])
        yield NextCommand(why="remove all but the policies", command=command)


def _awaited_states(layout: Layout) -> dict[str, str]:
    """The extensions that have not taken over the state of a parent yet, by the parent's id.

    A command that was killed between the definition of an extension and its first run leaves such
    an extension, and the same command continues it.
    """
    awaited = {}
    for paths in layout.experiments():
        try:
            definition = read_definition(paths)
        except (RlexpError, *READ_ERRORS):
            # An extension that cannot be read cannot be continued either.
            continue
        if definition.extends is None:
            continue
        for spec in (spec for phase in Phase for _, spec in definition.specs(phase)):
            if spec.parent is not None and not paths.run(spec.name).attempts():
                awaited[spec.parent.run] = paths.name
    return awaited


def _awaited_by_search(paths: ExperimentPaths) -> dict[str, str]:
    """The sweep itself, by the ids of runs that a trial with more steps may continue."""
    try:
        definition = read_experiment(paths)
    except (RlexpError, *READ_ERRORS):
        # A sweep that cannot be read cannot be continued either.
        return {}
    sweep = definition.sweep
    if sweep is None or not sweep.plan.continuation or paths.selection.exists():
        return {}
    full = definition.default.budget.steps
    tuning = (spec for _, spec in definition.specs(Phase.TUNING))
    return {spec.id: paths.name for spec in tuning if spec.budget["steps"] < full}


def _collect(
    paths: ExperimentPaths, awaited: Mapping[str, str], *, states: bool, yes: bool
) -> KeptState:
    """Measure what the runs of one experiment keep, and remove it with `yes`."""
    keeping = dict(_keeping(paths))
    awaited = {**awaited, **_awaited_by_search(paths)}
    kept = [run for run_id, run in keeping.items() if run_id not in awaited]
    used = holder(paths.lock) if is_held(paths.lock) else None
    sizes = [(folder_size(run.replay), _state_size(run)) for run in kept]
    removed = "nothing"
    if yes and kept and used is None:
        removed = "states" if states else "buffers"
        with hold(paths.lock, f"experiment {paths.name}", now=time.time()):
            for run in kept:
                _remove(run, states=states)
    return KeptState(
        experiment=paths.name,
        runs=len(kept),
        replay_bytes=sum(replay for replay, _ in sizes),
        state_bytes=sum(state for _, state in sizes),
        removed=removed,
        holder=used,
        awaited_by=tuple(dict.fromkeys(awaited[i] for i in keeping if i in awaited)),
    )


def _keeping(paths: ExperimentPaths) -> Iterator[tuple[str, RunPaths]]:
    """The completed runs that keep a replay buffer or another state, with their ids."""
    for run in survey(paths, brief=True).runs:
        if run.stored is None or run.damaged:
            continue
        files = run.stored.paths
        # The records of other runs may need their checkpoints to continue.
        completed = run.stored.record.state is State.COMPLETED
        if completed and (folder_size(files.replay) or _state_size(files)):
            yield run.stored.record.spec.id, files


def _state_size(run: RunPaths) -> int:
    """Bytes of the state of a training, without its policy and its replay buffer."""
    return sum(_size(path) for path in run.checkpoints.glob(f"*/{STATE}"))


def _size(path: Path) -> int:
    return path.lstat().st_size


def _remove(run: RunPaths, *, states: bool) -> None:
    try:
        if states:
            clear_states(run)
        else:
            clear_replay(run)
    except OSError as error:
        raise RecordError(
            f"cannot remove what run {run.folder.name} keeps: {error.strerror}"
        ) from error
