"""The tasks of a sweep with their default configurations, and how their scores become comparable."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from rlexp.app.execution.request import configuration_of
from rlexp.app.workspace import Workspace
from rlexp.config.compose import ComposedConfiguration
from rlexp.config.sweep import SweepRequest
from rlexp.config.sweep_checks import check_sweep
from rlexp.config.sweep_tasks import refuse_repeated
from rlexp.config.validate import PlugIns, ValidatedSettings, validate
from rlexp.errors import ConfigError
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.measures import declaration_key, known_anchors
from rlexp.protocol.seeds import Phase
from rlexp.protocol.sweep import SweepPlan, SweepTask
from rlexp.store.sweeps import DEFAULT_LABEL


@dataclass(frozen=True, slots=True)
class RequestedTask:
    """A sweep on one of its tasks.

    Attributes:
        request: The sweep, composed with the environment of the task.
        configuration: The default configuration on the task.
        settings: Its validated settings.
        parts: Its built plug-ins.
    """

    request: SweepRequest
    configuration: Configuration
    settings: ValidatedSettings
    parts: PlugIns

    def configure(
        self, parameters: Any, steps: int | None, workspace: Workspace, *, files: Any
    ) -> tuple[Configuration, PlugIns]:
        """The configuration of a trial on the task, and its built plug-ins.

        Args:
            parameters: Values of the active parameters.
            steps: Environment steps of each run, if not those of the configuration.
            workspace: The workspace.
            files: Called with the settings and with the default ones, before they are validated.

        Raises:
            ConfigError: The configuration is invalid.
        """
        settings = self.request.configure(parameters, steps)
        files(settings, self.request.plain, self.configuration)
        root, parts = validate(settings, workspace.allowed)
        return configuration_of(ComposedConfiguration(settings, ()), root, parts), parts


def read_tasks(
    requests: Sequence[SweepRequest], workspace: Workspace
) -> tuple[RequestedTask, ...]:
    """Validate a sweep on each of its tasks.

    Raises:
        ConfigError: A setting is invalid on a task, or two names mean the same task.
    """
    tasks = []
    for request in requests:
        root, parts = validate(request.plain, workspace.allowed)
        composed = ComposedConfiguration(request.plain, ())
        configuration = configuration_of(composed, root, parts)
        labelled = replace(configuration, label=DEFAULT_LABEL)
        tasks.append(RequestedTask(request, labelled, root, parts))
        check_sweep(request, workspace.allowed)
    refuse_repeated([task.configuration.task for task in tasks], "environment")
    if len(tasks) > 1:
        _check_steps(tasks[0], len(tasks))
    return tuple(tasks)


def _check_steps(task: RequestedTask, tasks: int) -> None:
    """Refuse a limit of steps below those of one trial on all tasks."""
    limit, root = task.request.plan.steps, task.settings
    seeds = len(root.seeds.seeds(Phase.TUNING))
    needed = root.budget.steps * seeds * tasks
    if limit is not None and limit < needed:
        raise ConfigError(
            f"sweep.steps={limit} is less than one trial on {tasks} tasks (budget.steps="
            f"{root.budget.steps} × {seeds} tuning seeds × {tasks} tasks = {needed}): raise "
            "sweep.steps, or lower budget.steps",
            key="sweep.steps",
        )


def scales_of(tasks: Sequence[RequestedTask], plan: SweepPlan) -> tuple[SweepTask, ...]:
    """How the scores on each of several tasks become comparable; empty for one task.

    Args:
        tasks: The tasks.
        plan: The plan of the sweep, in which `normalisation` is set if there are several.

    Raises:
        ConfigError: Scores are normalised by anchors, and a task does not declare them.
    """
    if len(tasks) == 1:
        return ()
    if plan.normalisation == "ranks":
        # Ranks need a direction only.
        return tuple(_directed(task.configuration) for task in tasks)
    return tuple(_anchored(task.configuration) for task in tasks)


def _directed(configuration: Configuration) -> SweepTask:
    ends = (1.0, 0.0) if configuration.lower_is_better else (0.0, 1.0)
    return SweepTask(task=configuration.task, low=ends[0], high=ends[1])


def _anchored(configuration: Configuration) -> SweepTask:
    anchors = known_anchors(
        configuration.score_reference, lower_is_better=configuration.lower_is_better
    )
    # All tasks of a sweep share one dataset, whose scores are those of a single task.
    if anchors is None:
        key = declaration_key(configuration.budget.score)
        raise ConfigError(
            f"{configuration.task} has no anchors to normalise its scores by: declare {key}.random and "
            f"{key}.threshold in a file of its own (conf/environment/NAME.yaml), or compare trials by "
            "ranks with sweep.normalisation=ranks",
            key="sweep.normalisation",
        )
    return SweepTask(task=configuration.task, low=anchors[0], high=anchors[1])
