"""Trainings that begin with the final policy of another run: which may, and whether it fits."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from rlexp.app.reading.experiment_scan import run_mismatch
from rlexp.app.reading.imported import refuse_imported_run
from rlexp.app.workspace import Workspace
from rlexp.environments import UNTRANSFORMED
from rlexp.errors import ConfigError, RlexpError
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.identity import PLUG_IN, Plain, identifying, short_name
from rlexp.protocol.leaf_differences import leaf_differences
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.protocol.value_schedule import is_scheduled, settings_at_stage
from rlexp.records.checkpoint import SavedPolicy
from rlexp.records.run import State
from rlexp.store.checkpoints.policies import START_FROM, final_policy, keep_policy
from rlexp.store.former_names import find_renamed
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.runs import read_run

KEY = f"algorithm.{START_FROM}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedPolicy:
    """The final policy of a run, with which other trainings begin.

    Attributes:
        name: The run, as `EXPERIMENT/RUN`.
        spec: The definition of the run.
        policy: Its files.
    """

    name: str
    spec: RunSpec
    policy: SavedPolicy


def with_policies(
    configurations: tuple[Configuration, ...], phase: Phase, workspace: Workspace
) -> tuple[tuple[Configuration, ...], tuple[TrainedPolicy, ...]]:
    """Replace the names of runs in `algorithm.start_from` by the digests of their policies.

    Args:
        configurations: The configurations as typed.
        phase: The phase of the requested runs.
        workspace: The workspace with the runs.

    Returns:
        The configurations with digests, and the policies.

    Raises:
        ConfigError: A run is unknown or has no policy, its policy does not fit, or it would bring
            test seeds into a choice.
    """
    policies: dict[str, TrainedPolicy] = {}
    changed = []
    for configuration in configurations:
        name = configuration.algorithm.get(START_FROM)
        if name is None:
            changed.append(configuration)
            continue
        if name not in policies:
            policies[name] = _trained_policy(name, workspace)
        trained = policies[name]
        _check_phase(trained, phase)
        check_settings(configuration, trained)
        algorithm = {**configuration.algorithm, START_FROM: trained.policy.digest}
        changed.append(replace(configuration, algorithm=algorithm))
    return tuple(changed), tuple(policies.values())


def _trained_policy(name: str, workspace: Workspace) -> TrainedPolicy:
    experiment, slash, run = name.partition("/")
    try:
        # `rlexp mv` may have renamed the experiment of the run.
        renamed = find_renamed(workspace.layout, experiment).name if slash else experiment
        paths: RunPaths = workspace.run(f"{renamed}{slash}{run}")
        record = read_run(paths).record
        refuse_imported_run(record.spec)
    except RlexpError as error:
        raise ConfigError(f"{KEY}={name}: {error}", key=KEY) from error
    full_name = f"{paths.folder.parent.name}/{paths.folder.name}"
    if record.spec.external:
        raise ConfigError(f"{KEY}={name}: run {full_name} was trained by a script", key=KEY)
    if record.state is not State.COMPLETED:
        raise ConfigError(
            f"{KEY}={name}: run {full_name} is {record.state}, and only completed runs have a final "
            "policy",
            key=KEY,
        )
    if (changed := run_mismatch(paths)) is not None:
        raise ConfigError(f"{KEY}={name}: {changed}", key=KEY)
    try:
        policy = final_policy(paths)
    except RlexpError as error:
        raise ConfigError(f"{KEY}={name}: {error}", key=KEY) from error
    return TrainedPolicy(name=full_name, spec=record.spec, policy=policy)


def _check_phase(trained: TrainedPolicy, phase: Phase) -> None:
    """Refuse a policy of test seeds for runs that serve a choice."""
    if phase is not Phase.TEST and trained.spec.phase is Phase.TEST:
        raise ConfigError(
            f"{KEY}: run {trained.name} was trained on a test seed, which must not influence runs of "
            f"phase {phase}: start from a run of phase {phase}, or use phase=test",
            key=KEY,
        )


def check_settings(configuration: Configuration, trained: TrainedPolicy) -> None:
    """Refuse a policy of another algorithm, of another agent, or that saw something else."""
    spec = trained.spec
    names = [_plug_in_name(part) for part in (spec.algorithm, configuration.algorithm)]
    if names[0] != names[1]:
        raise ConfigError(
            f"{KEY}: run {trained.name} was trained by {short_name(spec.algorithm)}, and "
            f"{short_name(configuration.algorithm)} cannot begin with its policy",
            key=KEY,
        )
    # A training begins with the network with which the other one ended.
    changed = any(map(is_scheduled, spec.agent.values()))
    last = settings_at_stage(spec.agent, trained.policy.stage if changed else 0)
    first = settings_at_stage(configuration.agent, 0)
    differences = leaf_differences(identifying(last), identifying(first))
    vectors = [part.get("vector", {}) for part in (spec.environment, configuration.environment)]
    seen = leaf_differences(*({key: v.get(key) for key in UNTRANSFORMED} for v in vectors))
    texts = [f"agent.{d.path}: {d.first!r} there, {d.second!r} here" for d in differences]
    texts += [f"environment.vector.{d.path}: {d.first!r} there, {d.second!r} here" for d in seen]
    if texts:
        raise ConfigError(
            f"{KEY}: the policy of run {trained.name} does not fit: {'; '.join(texts)}", key=KEY
        )


def _plug_in_name(part: Plain) -> object:
    plug_in = part.get(PLUG_IN)
    return plug_in.get("name") if isinstance(plug_in, dict) else None


def check_policies(
    configurations: Iterable[Configuration],
    policies: Sequence[TrainedPolicy],
    workspace: Workspace,
) -> None:
    """Load each policy into a learner of its configuration, in a separate process.

    Raises:
        ConfigError: A policy does not fit.
    """
    by_digest = {trained.policy.digest: trained for trained in policies}
    for configuration in configurations:
        trained = by_digest.get(configuration.algorithm.get(START_FROM, ""))
        if trained is None:
            continue
        from rlexp.app.execution.checks.compatibility import call_in_subprocess

        try:
            call_in_subprocess(trained.name, partial(_load, configuration, trained, workspace))
        except ConfigError as error:
            raise ConfigError(
                f"{KEY}: the policy of run {trained.name} does not fit {configuration.label} on "
                f"{configuration.task}: {error}",
                key=KEY,
            ) from error


def _load(configuration: Configuration, trained: TrainedPolicy, workspace: Workspace) -> None:
    from rlexp.app.execution.checks.trial_training import training_of
    from rlexp.training.starting_policy import check_fit

    check_fit(training_of(configuration, workspace), trained.policy)


def keep_policies(paths: ExperimentPaths, policies: Iterable[TrainedPolicy]) -> None:
    """Store the policies in the experiment whose trainings begin with them.

    Raises:
        OSError: The disk is full or fails.
    """
    for trained in policies:
        spec = trained.spec
        origin = {"run": trained.name, "id": spec.id, "phase": str(spec.phase), "seed": spec.seed}
        keep_policy(paths, trained.policy, origin)
