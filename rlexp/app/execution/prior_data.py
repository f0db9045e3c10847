"""Prior data of trainings: where it comes from, which may be used, and whether it fits."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from rlexp.app.execution.checks.replay_checks import refuse_without_buffer
from rlexp.app.reading.experiment_scan import run_mismatch
from rlexp.app.reading.imported import refuse_imported_run
from rlexp.app.workspace import Workspace
from rlexp.config.validate import build
from rlexp.errors import ConfigError, RlexpError
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.identity import short_name
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.records.prior_transitions import AFTER, BEFORE, NEEDED, PriorTransitions
from rlexp.records.run import State
from rlexp.store.checkpoints.checkpoint_files import read_checkpoint
from rlexp.store.checkpoints.inheritance import KeptCopy, find_copy
from rlexp.store.checkpoints.prior_data import keep_prior_data
from rlexp.store.former_names import find_renamed
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.runs import read_run
from rlexp.temporary_folders import scratch

PRIOR_DATA = "prior_data"
"""The name of the replay with prior data."""
SOURCE = "source"
"""Its setting that names a source; in records, the digest of the transitions."""
DATASET = "dataset"
"""The source that stands for the dataset of the run."""
KEY = f"replay.{SOURCE}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcedTransitions:
    """Transitions from a source, of whatever kind the source is.

    Attributes:
        name: The source, as it is named in errors.
        transitions: The transitions.
        origin: The source as JSON values, for the experiment that keeps the transitions.
        of_test_seed: Whether a test seed made them, so that they must not serve a choice.
    """

    name: str
    transitions: PriorTransitions = field(repr=False)
    origin: Mapping[str, Any]
    of_test_seed: bool


Source = Callable[[str, Workspace], SourcedTransitions]
"""A kind of source: from a name, the transitions."""


def prior_source(part: Mapping[str, Any] | None) -> str | None:
    """The source that the settings of a replay name, or in records the digest.

    None without one, and for the dataset of the run, whose digest is in its own settings.
    """
    if part is None or short_name(part) != PRIOR_DATA or part[SOURCE] == DATASET:
        return None
    return str(part[SOURCE])


def with_prior_data(
    configurations: tuple[Configuration, ...],
    phase: Phase,
    workspace: Workspace,
    source: Source | None = None,
) -> tuple[tuple[Configuration, ...], tuple[SourcedTransitions, ...]]:
    """Replace the names of sources in `replay.source` by the digests of their transitions.

    Args:
        configurations: The configurations as typed.
        phase: The phase of the requested runs.
        workspace: The workspace with the sources.
        source: The kind of source; None for the replay buffer of a run.

    Returns:
        The configurations with digests, and the transitions.

    Raises:
        ConfigError: A source is unknown or has no transitions, or it would bring test seeds into a
            choice.
    """
    taken: dict[str, SourcedTransitions] = {}
    changed = []
    for configuration in configurations:
        name = prior_source(configuration.replay)
        if name is None or configuration.replay is None:
            changed.append(configuration)
            continue
        if name not in taken:
            taken[name] = (source or transitions_of_run)(name, workspace)
        _check_phase(taken[name], phase)
        part = {**configuration.replay, SOURCE: taken[name].transitions.digest}
        changed.append(replace(configuration, replay=part))
    return tuple(changed), tuple(taken.values())


def transitions_of_run(name: str, workspace: Workspace) -> SourcedTransitions:
    """The replay buffer that a completed run keeps.

    Args:
        name: The run, as `EXPERIMENT/RUN`.
        workspace: The workspace with the run.

    Raises:
        ConfigError: The run is unknown or keeps no replay buffer that can be used.
    """
    try:
        experiment, slash, run = name.partition("/")
        # `rlexp mv` may have renamed the experiment of the run.
        renamed = find_renamed(workspace.layout, experiment).name if slash else experiment
        paths: RunPaths = workspace.run(f"{renamed}{slash}{run}")
        record = read_run(paths).record
        refuse_imported_run(record.spec)
        full_name = f"{paths.folder.parent.name}/{paths.folder.name}"
        copy = find_copy(paths, record.spec.id)
        _check_usable(record.spec, record.state, copy, run_mismatch(paths), full_name)
        assert copy is not None
        transitions = _stored_transitions(paths, copy)
    except (RlexpError, ValueError) as error:
        text = str(error)
        raise ConfigError(
            text if text.startswith(KEY) else f"{KEY}={name}: {text}", key=KEY
        ) from error
    spec = record.spec
    return SourcedTransitions(
        name=f"run {full_name}",
        transitions=transitions,
        origin={
            "run": full_name,
            "id": spec.id,
            "phase": str(spec.phase),
            "seed": spec.seed,
            "step": copy.parent.step,
            "transitions": transitions.count,
        },
        of_test_seed=spec.phase is Phase.TEST,
    )


def _check_usable(
    spec: RunSpec, state: State, copy: KeptCopy | None, changed: str | None, name: str
) -> None:
    if changed is not None:
        raise ConfigError(changed)
    if state is not State.COMPLETED:
        raise ConfigError(f"run {name} is {state}, and only completed runs give prior data")
    if "buffer_size" not in spec.algorithm:
        raise ConfigError(
            f"run {name} was trained by {short_name(spec.algorithm)}, which has no replay buffer"
        )
    if spec.algorithm.get("optimize_memory_usage"):
        raise ConfigError(
            f"run {name} stored each observation once (algorithm.optimize_memory_usage), so its "
            "transitions cannot be taken one by one"
        )
    if copy is None or not copy.manifest.transitions:
        raise ConfigError(
            f"run {name} keeps no replay buffer: train it with budget.keep_last=true, and keep it "
            "from 'rlexp gc'"
        )


def _stored_transitions(paths: RunPaths, copy: KeptCopy) -> PriorTransitions:
    """The transitions of a kept copy, those of all its environments, oldest first."""
    # The command without prior data does without torch.
    from rlexp.training.learner_state import unpack

    saved = read_checkpoint(paths, copy.parent.step, run_id=copy.parent.run)
    oldest = copy.manifest.oldest
    # The first chunk may hold rows that the buffer has dropped: where it begins depends on the time
    # of a checkpoint.
    return PriorTransitions(
        dict(_joined([(max(oldest - t.begin, 0), unpack(t.content)) for t in saved.transitions()]))
    )


def _joined(stretches: Sequence[tuple[int, Mapping[str, Any]]]) -> Iterator[tuple[str, Any]]:
    """The arrays of all stretches by name, each stretch without its first rows."""
    import numpy as np

    _, first = stretches[0]
    for name in first:
        # The buffers of hindsight and others hold more than transitions.
        if name in NEEDED or name.split("/")[0] in {BEFORE, AFTER}:
            whole = np.concatenate([stretch[name][dropped:] for dropped, stretch in stretches])
            yield name, whole.reshape(-1, *whole.shape[2:])


def _check_phase(taken: SourcedTransitions, phase: Phase) -> None:
    """Refuse transitions of test seeds for runs that serve a choice."""
    if phase is not Phase.TEST and taken.of_test_seed:
        raise ConfigError(
            f"{KEY}: {taken.name} was trained on a test seed, which must not influence runs of phase "
            f"{phase}: take prior data from a run of phase {phase}, or use phase=test",
            key=KEY,
        )


def check_prior_data(
    configurations: Iterable[Configuration],
    sourced: Sequence[SourcedTransitions],
    workspace: Workspace,
) -> None:
    """Give transitions to a learner of each configuration that begins with them, in a process apart.

    Raises:
        ConfigError: The transitions are of other spaces.
    """
    by_digest = {each.transitions.digest: each for each in sourced}
    for configuration in configurations:
        taken = by_digest.get(prior_source(configuration.replay) or "")
        if taken is None:
            continue
        from rlexp.app.execution.checks.compatibility import call_in_subprocess

        replay = build(configuration.replay or {}, "replay", workspace.allowed)
        algorithm = build(configuration.algorithm, "algorithm", workspace.allowed)
        refuse_without_buffer(replay, algorithm)
        try:
            call_in_subprocess(taken.name, partial(_feed, configuration, taken, workspace))
        except ConfigError as error:
            raise ConfigError(
                f"{KEY}: {taken.name} does not fit {configuration.label} on {configuration.task}: "
                f"{error}",
                key=KEY,
            ) from error


def _feed(configuration: Configuration, taken: SourcedTransitions, workspace: Workspace) -> None:
    from rlexp.app.execution.checks.trial_training import training_of

    replay = build(configuration.replay or {}, "replay", workspace.allowed)
    training = replace(
        training_of(configuration, workspace), replay=replay, prior=taken.transitions
    )
    with scratch("rlexp-prior-data-") as (folder, _):
        model = training.build(folder)
        if model.env is not None:
            model.env.close()


def keep_sourced(paths: ExperimentPaths, sourced: Iterable[SourcedTransitions]) -> None:
    """Store transitions in the experiment whose trainings begin with them.

    Raises:
        OSError: The disk is full or fails.
    """
    for taken in sourced:
        keep_prior_data(paths, taken.transitions, taken.origin)
