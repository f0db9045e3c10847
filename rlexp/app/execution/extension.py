"""Extended runs: which finished runs can be extended, and what they hand over."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from rlexp.app.execution.checkpoints import find_beginnings
from rlexp.app.execution.checks.callback_checks import length_obstacle, teacher_obstacle
from rlexp.app.execution.checks.compatibility import call_in_subprocess
from rlexp.app.execution.checks.replay_checks import length_keys
from rlexp.app.execution.launch_settings import LaunchSettings
from rlexp.app.execution.prior_data import prior_source
from rlexp.app.execution.software_versions import collect_versions, describe_changes
from rlexp.app.workspace import Workspace
from rlexp.config.validate import build
from rlexp.environments import Environment
from rlexp.errors import ConfigError, RecordError
from rlexp.protocol.budget import Budget
from rlexp.protocol.experiment import Configuration, Experiment, Extension
from rlexp.protocol.identity import canonical
from rlexp.protocol.seeds import MAXIMUM_EVALUATIONS
from rlexp.protocol.spec import Parent, RunSpec
from rlexp.records.run import RunRecord, State
from rlexp.store.checkpoints.inheritance import FIRST, find_copy, inherit, verify_copy
from rlexp.store.checkpoints.prior_data import copy_prior_data
from rlexp.store.former_names import find_renamed
from rlexp.store.layout import ExperimentPaths, Layout, RunPaths
from rlexp.store.ledger_writer import LedgerWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class LongerConfiguration:
    """A configuration with a larger budget.

    Attributes:
        before: The configuration of the finished runs.
        after: The same configuration with more steps.
        restarted: The keys of the settings whose schedules begin again.
    """

    before: Configuration
    after: Configuration
    restarted: tuple[str, ...]


def lengthen(
    configuration: Configuration, steps: int, workspace: Workspace, *, restart: bool, fresh: str
) -> LongerConfiguration:
    """A configuration with a larger budget, whose evaluations keep their interval.

    Args:
        configuration: The configuration of finished runs.
        steps: The environment steps of a run, from step 0.
        workspace: The workspace, with the packages that may be imported.
        restart: Whether schedules begin again where the extension begins.
        fresh: How to start a fresh run of that length, for errors.

    Raises:
        ConfigError: The budget is not larger, or is refused; or a setting depends on the length of
            training, and `restart` does not say what then happens.
    """
    budget, label = configuration.budget, configuration.label
    if steps <= budget.steps:
        raise ConfigError(
            f"budget.steps={steps} is no extension: the runs of {label} have {budget.steps} steps "
            f"already; give more than {budget.steps}",
            key="budget.steps",
        )
    algorithm = build(configuration.algorithm, "algorithm", workspace.allowed)
    name_settings = getattr(algorithm, "length_settings", None)
    if name_settings is None:
        raise ConfigError(
            f"{type(algorithm).__name__} has no method 'length_settings', which names the settings "
            f"that depend on the length of training: add it, or {fresh}"
        )
    settings = length_keys(name_settings(), configuration, workspace)
    if settings and not restart:
        words = " and ".join(settings)
        verb = "depends" if len(settings) == 1 else "depend"
        raise ConfigError(
            f"{words} of {label} {verb} on the length of training, so that an extended run would "
            "differ from a run of that length: let the schedules begin again with "
            f"--restart-schedules, or {fresh}",
            key=settings[0],
        )
    if (reason := length_obstacle(configuration, workspace)) is not None:
        raise ConfigError(
            f"runs of {label} cannot be extended: {reason}; or {fresh}", key="callback"
        )
    restarts = (*(budget.restarts or ()), budget.steps) if settings else budget.restarts
    longer = _longer_budget(budget, steps, restarts, fresh)
    after = replace(configuration, label=_label(configuration, restarts), budget=longer)
    if settings:
        # A schedule that cannot begin again is refused now, and not in the middle of the command.
        _check_restart(algorithm, budget.steps / steps, fresh)
    return LongerConfiguration(before=configuration, after=after, restarted=settings)


def _check_restart(algorithm: Any, share: float, fresh: str) -> None:
    """Refuse an algorithm whose schedules cannot begin again after a share of training.

    Raises:
        ConfigError: It says no way to begin again, or a schedule does not allow it.
    """
    restarted = getattr(algorithm, "restarted", None)
    if restarted is None:
        raise ConfigError(
            f"{type(algorithm).__name__} has no method 'restarted', which lets its schedules begin "
            f"again: add it, or {fresh}"
        )
    restarted(share)


def _longer_budget(
    budget: Budget, steps: int, restarts: tuple[int, ...] | None, fresh: str
) -> Budget:
    every = budget.evaluation_every
    if every is not None and steps // every > MAXIMUM_EVALUATIONS:
        raise ConfigError(
            f"budget.steps={steps} is too much for an extension: it keeps the evaluations every "
            f"{every} steps, and at most {MAXIMUM_EVALUATIONS:,} evaluations can be seeded apart; "
            f"give at most {(MAXIMUM_EVALUATIONS + 1) * every - 1}, or {fresh}",
            key="budget.steps",
        )
    return replace(budget, steps=steps, restarts=restarts)


def _label(configuration: Configuration, restarts: Sequence[int] | None) -> str:
    """The label of a longer configuration: it says where schedules began again."""
    if restarts == configuration.budget.restarts:
        return configuration.label
    first = configuration.label.partition(" restarted at ")[0]
    return f"{first} restarted at {', '.join(str(steps) for steps in restarts or ())}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """A finished run that is to be extended.

    Attributes:
        paths: The files of the run.
        record: Its record.
    """

    paths: RunPaths
    record: RunRecord


def parent_of(
    run: FinishedRun, steps: int, *, allow_drift: bool, drift_command: str, fresh: str
) -> Parent:
    """The state from which a run is extended.

    Args:
        run: The finished run.
        steps: The environment steps of the extended run, from step 0.
        allow_drift: Whether other versions of packages or code than then are allowed.
        drift_command: The command that allows them.
        fresh: How to start a fresh run of that length, for errors.

    Raises:
        RecordError: The run is not completed, or its copy is missing or damaged, or was made with
            other versions.
        ConfigError: The run has trained that far already.
    """
    record, name = run.record, f"{run.paths.folder.parent.name}/{run.paths.folder.name}"
    check_completed(record, name)
    if steps <= record.step:
        raise ConfigError(
            f"budget.steps={steps} is no extension: the last rollout of run {name} ended at step "
            f"{record.step}; give more than {record.step}",
            key="budget.steps",
        )
    copy = find_copy(run.paths, record.spec.id)
    if copy is None:
        raise RecordError(
            f"run {name} keeps no state to continue from: {why_nothing_is_kept(record.spec)}; "
            f"{fresh}",
        )
    try:
        verify_copy(copy)
    except RecordError as error:
        raise RecordError(f"run {name} cannot be extended: {error}; {fresh}") from error
    change = describe_changes(copy.manifest.about.get("versions"), collect_versions(record.spec))
    if change is not None and not allow_drift:
        raise RecordError(
            f"run {name} was trained with other versions, and its extension could differ from a "
            f"run of that length: {change}; to extend it anyway: {drift_command}",
            command=drift_command,
        )
    return copy.parent


def check_completed(record: RunRecord, name: str) -> None:
    """Refuse to extend a run that is not completed.

    Raises:
        RecordError: The run is not completed; says what to do.
    """
    if record.state is State.COMPLETED:
        return
    experiment = name.partition("/")[0]
    match record.state:
        case State.FAILED:
            way = f"repeat it with 'rlexp resume {experiment} --retry', or extend single runs"
        case State.PRUNED:
            way = "extend single runs, or start a fresh run"
        case _:
            way = f"finish it with 'rlexp resume {experiment}'"
    raise RecordError(f"run {name} is {record.state}, and only completed runs are extended: {way}")


def why_nothing_is_kept(spec: RunSpec) -> str:
    """Why a completed run keeps no state from which it could be extended."""
    if "buffer_size" in spec.algorithm:
        return (
            "with a replay buffer, a run keeps it only where budget.keep_last=true was set, and until "
            "'rlexp gc' removes it"
        )
    return (
        "it had budget.keep_last=false or a single rollout, was trained by an earlier version, its "
        "state was removed, or its training cannot be copied, as its log then says"
    )


def _discount(configuration: Configuration) -> float:
    """The discount of a configuration at the beginning of training; see `Training.discount`."""
    gamma = configuration.algorithm.get("gamma", 0.99)
    return float(gamma["values"][0] if isinstance(gamma, Mapping) else gamma)


def check_replay(
    configurations: Iterable[Configuration],
    seeds: Sequence[int],
    workspace: Workspace,
    fresh: str,
) -> None:
    """Check that the states of the environments can be restored.

    Each environment is played for some seconds in a separate process.

    Args:
        configurations: The configurations of the runs.
        seeds: A seed for each configuration.
        workspace: The workspace of the configurations.
        fresh: How to start a fresh run of that length, for errors.

    Raises:
        ConfigError: The state of an environment cannot be restored; says why.
    """
    workspace.make_importable()
    examined = set()
    for configuration, seed in zip(configurations, seeds, strict=True):
        key = canonical(configuration.environment)
        if key in examined:
            continue
        examined.add(key)
        settings = {**configuration.environment, "reference": configuration.reference}
        environment = build(settings, "environment", workspace.allowed)
        probe = partial(_obstacle, environment, _discount(configuration), seed)
        reason = teacher_obstacle(configuration, workspace)
        # What is known beforehand needs no trial, whose reason names an attribute of a wrapper.
        reason = reason or call_in_subprocess(configuration.task, probe)
        if reason is not None:
            raise ConfigError(
                f"the state of {configuration.task} cannot be restored, so its runs cannot be "
                f"extended: {reason}; {fresh}"
            )


def _obstacle(environment: Environment, gamma: float, seed: int) -> str | None:
    """The reason why the state of an environment cannot be restored; None without one."""
    from rlexp.training.replay_check import check_round_trip

    return check_round_trip(environment, gamma, seed)


def parent_experiment(paths: ExperimentPaths, extends: Extension) -> ExperimentPaths:
    """The experiment with the parents of an extension, also after it got another name.

    Args:
        paths: The extension.
        extends: The parents in its definition.
    """
    # The name of a run's folder ends with the first digits of its id.
    ends = (f"-{parent.run[:10]}" for parent in extends.parents.values())
    return find_renamed(Layout(paths.folder.parent), extends.experiment, next(ends, ""))


def take_over_parents(
    paths: ExperimentPaths,
    experiment: Experiment,
    missing: Iterable[RunSpec],
    launch: LaunchSettings,
) -> None:
    """Give every missing run of an extension the state and the events of its parent.

    Args:
        paths: The extension, whose lock the caller holds.
        experiment: Its definition.
        missing: The runs that are about to start.
        launch: How they are executed.

    Raises:
        OSError: The disk is full or fails.
        RecordError: A parent or its state is gone, damaged, or of other versions.
    """
    extended = [spec for spec in missing if spec.parent is not None]
    if experiment.extends is None or not extended:
        return
    parents = parent_experiment(paths, experiment.extends)
    ledger = LedgerWriter(paths)
    for spec in extended:
        run = paths.run(spec.name)
        if (source := prior_source(spec.replay)) is not None:
            copy_prior_data(parents, paths, source)
        if not run.attempts():
            inherit(run, spec, parents)
            ledger.enter(run, FIRST)
    check_states(paths, extended, launch)


def check_states(
    paths: ExperimentPaths, extended: Sequence[RunSpec], launch: LaunchSettings
) -> None:
    """Check that unfinished runs have a usable state to continue from.

    Args:
        paths: The experiment.
        extended: Unfinished runs, each with the state of its parent.
        launch: How they are executed.

    Raises:
        RecordError: A state is damaged, or of other versions.
    """
    for name, reason in _refusals(paths, extended, allow_drift=launch.allow_drift):
        command = launch.with_drift
        way = f"; to continue it anyway: {command}" if command else ""
        raise RecordError(f"run {name} cannot continue from its parent: {reason}{way}")


def _refusals(
    paths: ExperimentPaths, extended: Sequence[RunSpec], *, allow_drift: bool
) -> Iterator[tuple[str, Any]]:
    """The runs that have no usable state to begin from, with the reason."""
    for name, beginning in find_beginnings(paths, extended, allow_drift=allow_drift).items():
        if beginning.anew:
            yield name, beginning.reason
