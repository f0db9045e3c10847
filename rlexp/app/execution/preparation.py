"""Checks a plan before anything starts: parts that fit, memory that suffices, learners that build.

`prepare` is the entry of `rlexp run`. A dry run leaves out the configurations that cannot be
trained, and says why; a run with one of them is refused. `find_checked_costs` is for commands whose
configurations are known to fit their tasks.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from rlexp.app.execution.checks.compatibility import EnvironmentSpaces, check_compatibility
from rlexp.app.execution.launch_settings import LaunchOptions, LaunchSettings
from rlexp.app.execution.memory_plan import check_memory
from rlexp.app.execution.probes import Costs, find_costs
from rlexp.app.execution.request import RunRequest
from rlexp.app.observer import Observer
from rlexp.app.plans import RefusedCell
from rlexp.app.workspace import Workspace
from rlexp.engine.source import Plan
from rlexp.errors import ConfigError
from rlexp.protocol.experiment import Configuration
from rlexp.store.layout import ExperimentPaths, RunPaths


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan whose runs can start.

    Attributes:
        plan: The plan, without configurations that cannot be trained.
        costs: What is known about the costs of its runs.
        refused: The configurations that cannot be trained; only of a dry run.
    """

    plan: Plan
    costs: Costs
    refused: tuple[RefusedCell, ...] = ()


def prepare(
    request: RunRequest,
    plan: Plan,
    launch: LaunchSettings,
    options: LaunchOptions,
    workspace: Workspace,
    observer: Observer,
) -> Prepared:
    """Check the configurations of a request, and find out what its missing runs cost.

    Raises:
        ConfigError: A configuration cannot be trained; in a dry run, none can.
    """
    spaces: dict[str, EnvironmentSpaces] = {}
    configurations = request.experiment.configurations
    if not options.dry_run or len(configurations) == 1:
        check_compatibility(configurations, workspace, spaces, request.parts)
        costs = find_checked_costs(plan, launch, options.probe, workspace, observer, spaces)
        if not options.dry_run:
            paths = workspace.layout.experiment(request.experiment.name)
            check_scripts(
                configurations, launch, workspace, observer, partial(_is_new, plan, paths)
            )
        return Prepared(plan, costs)
    refused = {
        configuration.fingerprint: _cell(configuration, error)
        for configuration, error in _failures(request, launch, workspace, spaces)
    }
    plan = _without(plan, refused)
    check_memory(plan.missing, launch, spaces)
    costs = find_costs(plan.missing, launch, workspace, observer, spaces, probing=options.probe)
    for configuration in configurations:
        if (reason := costs.refused.get(configuration.fingerprint)) is not None:
            error = ConfigError(f"it cannot be built: {reason}")
            refused[configuration.fingerprint] = _cell(configuration, error)
    if len(refused) == len(configurations):
        raise ConfigError(next(iter(refused.values())).reason)
    return Prepared(_without(plan, refused), costs, tuple(refused.values()))


def find_checked_costs(
    plan: Plan,
    launch: LaunchSettings,
    probing: bool | None,
    workspace: Workspace,
    observer: Observer,
    spaces: Mapping[str, EnvironmentSpaces],
) -> Costs:
    """What the missing runs of a plan cost; refuses runs that do not fit or cannot be built.

    Args:
        plan: The plan.
        launch: How its runs are executed.
        probing: Whether to probe; None probes plans that seem to take a minute or longer.
        workspace: The workspace.
        observer: Receives remarks.
        spaces: Spaces of the environments, as `check_compatibility` collects them.

    Raises:
        ConfigError: The runs need more memory than there is, or a learner cannot be built.
    """
    check_memory(plan.missing, launch, spaces)
    costs = find_costs(plan.missing, launch, workspace, observer, spaces, probing=probing)
    costs.check(plan.missing)
    return costs


def check_scripts(
    configurations: Iterable[Configuration],
    launch: LaunchSettings,
    workspace: Workspace,
    observer: Observer,
    is_new: Callable[[Configuration], bool] = lambda _: True,
) -> None:
    """Start the script of each new configuration with `algorithm.checks` once, to check its settings.

    Args:
        configurations: The configurations of a command.
        launch: How their runs are executed.
        workspace: The workspace.
        observer: Receives remarks.
        is_new: Whether no script has accepted a configuration yet; called for those with a check only.

    Raises:
        ConfigError: A script refuses a setting.
    """
    checked = [c for c in configurations if c.algorithm.get("checks") and is_new(c)]
    if not checked:
        return
    # Only these configurations need what imports the training of scripts.
    from rlexp.app.execution.checks.script_checks import ScriptChecks

    ScriptChecks(workspace, launch.executor, observer.note).check(checked)


def _is_new(plan: Plan, paths: ExperimentPaths, configuration: Configuration) -> bool:
    """Whether runs of a configuration are missing, and none of its runs has reported anything."""
    name = configuration.fingerprint
    missing = [spec for spec in plan.missing if spec.fingerprint == name]
    if not missing or any(spec.fingerprint == name for spec in plan.done):
        return False
    # A run that was killed after its first report had accepted its settings.
    return not any(_has_reported(paths.run(spec.name)) for spec in missing)


def _has_reported(run: RunPaths) -> bool:
    """Whether a training script has written results of a run."""
    results = [attempt.results for attempt in run.attempts()]
    return any(path.stat().st_size for path in results if path.exists())


def _failures(
    request: RunRequest,
    launch: LaunchSettings,
    workspace: Workspace,
    spaces: dict[str, EnvironmentSpaces],
) -> Iterator[tuple[Configuration, ConfigError]]:
    """The configurations that cannot be trained alone, and why."""
    for configuration in request.experiment.configurations:
        try:
            check_compatibility([configuration], workspace, spaces, request.parts)
            check_memory([configuration.spec(request.phase, 0, 0)], launch, spaces)
        except ConfigError as error:
            yield configuration, error


def _cell(configuration: Configuration, error: ConfigError) -> RefusedCell:
    return RefusedCell(label=configuration.label, task=configuration.task, reason=str(error))


def _without(plan: Plan, refused: dict[str, RefusedCell]) -> Plan:
    """The plan without the runs of refused configurations."""
    return replace(
        plan, missing=tuple(spec for spec in plan.missing if spec.fingerprint not in refused)
    )
