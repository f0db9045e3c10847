"""Sweeps of populations: what they refuse before anything trains, and the schedule that comes out."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from rlexp.app.execution.checks.compatibility import check_changing_networks
from rlexp.app.sweeps.continuation import obstacle
from rlexp.app.sweeps.tasks import RequestedTask
from rlexp.app.workspace import Workspace
from rlexp.config.schedule_files import schedule_text
from rlexp.config.sweep import SweepRequest
from rlexp.config.validate import build, validate
from rlexp.errors import ConfigError
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.identity import short_name_of
from rlexp.protocol.shared_experience import EXPERIENCE, EXPERIENCE_KEY, changes_in_training
from rlexp.protocol.space import Parameter
from rlexp.protocol.sweep import SweepPlan
from rlexp.protocol.value_schedule import is_scheduled
from rlexp.records.selection import Selection
from rlexp.store.sweeps import StoredTrial
from rlexp.tuners.population import Population


@runtime_checkable
class TunesPopulations(Protocol):
    """A tuner whose trials are parts of the trainings of a population."""

    def members(self, steps: int) -> Population:
        """The population for trainings of so many environment steps."""
        ...


def population_of(tuner: Mapping[str, Any], steps: int, workspace: Workspace) -> Population | None:
    """The population of a sweep; None for other tuners.

    Args:
        tuner: The settings of the tuner.
        steps: Environment steps of a whole training.
        workspace: The workspace, with the packages that may be imported.

    Raises:
        ConfigError: The generations do not divide the steps.
    """
    built = build(tuner, "tuner", workspace.allowed)
    return built.members(steps) if isinstance(built, TunesPopulations) else None


def check_population(tasks: Sequence[RequestedTask], workspace: Workspace) -> Population | None:
    """Refuse a sweep that its population cannot search; other sweeps pass, and have none.

    Args:
        tasks: The sweep on each of its tasks.
        workspace: The workspace.

    Raises:
        ConfigError: A parameter cannot change while a run trains, a setting of the sweep does not fit,
            the trials are too few, there are several tasks, or runs cannot continue.
    """
    request, configuration = tasks[0].request, tasks[0].configuration
    population = population_of(request.tuner, configuration.budget.steps, workspace)
    if population is None:
        return None
    name = short_name_of(type(build(request.tuner, "tuner", workspace.allowed)), "tuner")
    if len(tasks) > 1:
        raise ConfigError(
            f"tuner={name} is for a sweep on one task, and environment names {len(tasks)}: name one "
            "task, or choose another tuner",
            key="environment",
        )
    for parameter in request.space.parameters:
        _check_changeable(parameter, name, request, workspace)
        _refuse_prior(parameter, name)
    _check_plan(name, population, request)
    if request.tuner.get("shared_replay"):
        _check_sharing(name, tasks[0], workspace)
    reason = obstacle(configuration, workspace)
    if reason is not None:
        raise ConfigError(
            f"tuner={name} continues trainings in generations, and {reason}: set constant values, or "
            "choose another algorithm or tuner"
        )
    return population


def _check_sharing(name: str, task: RequestedTask, workspace: Workspace) -> None:
    """Refuse a shared replay where no replay buffer can take transitions of others."""
    request, key = task.request, "tuner.shared_replay"
    if task.configuration.replay is not None:
        raise ConfigError(
            f"{key}=true adds transitions to the library's own replay buffer: set replay=uniform",
            key="replay",
        )
    if EXPERIENCE not in request.plain["algorithm"]:
        raise ConfigError(
            f"{key}=true is for algorithms with a replay buffer, such as algorithm=dqn or sac: leave it "
            "out, or choose one of them",
            key=key,
        )
    if request.plan.continuation is False:
        raise ConfigError(
            f"{key}=true shares what runs leave behind, and sweep.continuation=false keeps nothing: leave "
            f"it out with tuner={name}",
            key=key,
        )
    schedule = {"shape": "steps", "steps": [0, 1], "values": [None, "0" * 64]}
    _, parts = validate(request.configure({EXPERIENCE_KEY: schedule}), workspace.allowed)
    check = getattr(parts.algorithm, "check", None)
    if check is not None:
        check(parts.environment.vector.count)


def _refuse_prior(parameter: Parameter, name: str) -> None:
    if parameter.prior is not None:
        key = f"sweep.space.{parameter.key}.prior"
        raise ConfigError(
            f"{key} does not fit tuner={name}, which has no trials to draw around a guess: leave it "
            "out, and name configurations with sweep.enqueue=[{KEY: VALUE}]",
            key=key,
        )


def refuse_tries(request: SweepRequest, steps: int, workspace: Workspace) -> None:
    """Refuse trials of the user beside those of a population; other sweeps pass.

    Args:
        request: The sweep.
        steps: Environment steps of a whole training.
        workspace: The workspace.

    Raises:
        ConfigError: The tuner is a population.
    """
    if population_of(request.tuner, steps, workspace) is None:
        return
    name = short_name_of(type(build(request.tuner, "tuner", workspace.allowed)), "tuner")
    raise ConfigError(
        f"--try does not fit tuner={name}, whose trials are parts of the trainings of its members: "
        "begin another sweep with sweep.enqueue=[{KEY: VALUE}], or choose another tuner",
        key="--try",
    )


def _check_changeable(
    parameter: Parameter, name: str, request: SweepRequest, workspace: Workspace
) -> None:
    """Refuse a parameter that has one value for the whole training."""
    # The default may leave a setting to the library.
    key, value = parameter.key, parameter.domain.from_unit(0.0)
    try:
        # The settings themselves say whether they take a schedule.
        settings = request.configure({key: {"shape": "steps", "steps": [0], "values": [value]}})
        _, parts = validate(settings, workspace.allowed)
    except ConfigError as error:
        raise ConfigError(
            f"sweep.space.{key} cannot change while a run trains, as tuner={name} needs: take it out "
            f"of the space, or choose another tuner{_that_can_change(error)}",
            code="not_allowed",
            key=f"sweep.space.{key}",
            allowed=error.allowed,
        ) from error
    check_changing_networks(parts.agent, parts.algorithm)


def _that_can_change(error: ConfigError) -> str:
    """The settings that an error about a constant setting names, as an addition to a sentence."""
    before, between, names = str(error).partition("; these settings can change: ")
    return f"; of this algorithm, these can change: {names}" if before and between else ""


def _check_plan(name: str, population: Population, request: SweepRequest) -> None:
    plan = request.plan
    if plan.trials < population.trials:
        raise ConfigError(
            f"tuner={name} makes {population.trials} trials, and sweep.trials={plan.trials} ends it "
            f"before: set sweep.trials={population.trials}",
            key="sweep.trials",
        )
    if short_name_of(type(build(request.pruner, "pruner")), "pruner") != "none":
        raise ConfigError(f"tuner={name} replaces members itself: set pruner=none", key="pruner")
    for key, reason in _misfits(plan, population):
        raise ConfigError(f"sweep.{key} does not fit tuner={name}: {reason}", key=f"sweep.{key}")


def _misfits(plan: SweepPlan, population: Population) -> list[tuple[str, str]]:
    """The settings of a plan that a population does not have, and what to write instead."""
    limits = [key for key in ("full_runs", "steps", "hours") if getattr(plan, key) is not None]
    misfits = [
        (key, "its cost follows from tuner.population and tuner.generations; leave the limit out")
        for key in limits
    ]
    if plan.warm_start is not None:
        misfits.append(("warm_start", "its members begin without trials of others; leave it out"))
    if plan.stop_at_regret is not None:
        misfits.append(("stop_at_regret", "all generations are trained; leave it out"))
    if plan.allocation == "racing":
        misfits.append(("allocation=racing", "set sweep.allocation=two_stage or fixed"))
    if len(plan.enqueue or ()) > population.size:
        misfits.append(("enqueue", f"name at most {population.size} configurations, one a member"))
    return misfits


def best_schedule(selection: Selection, trials: Sequence[StoredTrial]) -> str | None:
    """The text of the file with the best schedule of a population; None for other sweeps.

    Args:
        selection: The choice.
        trials: All trials, by number.
    """
    for number in selection.tested:
        trial = trials[number]
        if trial.configuration is None:
            continue
        text = schedule_of(trial.configuration, tuple(trial.parameters))
        if text is not None:
            return text
    return None


def schedule_of(configuration: Configuration, keys: Sequence[str]) -> str | None:
    """The text of a schedule file with the searched values of a configuration; None without a change.

    Args:
        configuration: The configuration.
        keys: The searched parameters.
    """
    if not changes_in_training(configuration.parts(), keys):
        return None
    if configuration.algorithm.get(EXPERIENCE) is not None:
        keys = (*keys, EXPERIENCE_KEY)
    values = {key: _value_at(configuration, key) for key in keys}
    changing = [value for value in values.values() if is_scheduled(value)]
    steps = sorted({step for value in changing for step in value["steps"]})
    return schedule_text(steps, {key: _row(value, steps) for key, value in values.items()})


def _value_at(configuration: Configuration, key: str) -> Any:
    group, _, name = key.partition(".")
    return getattr(configuration, group)[name]


def _row(value: Any, steps: Sequence[int]) -> list[Any]:
    """The value in force from each of the steps on."""
    if not is_scheduled(value):
        return [value] * len(steps)
    begins = [sum(begin <= step for begin in value["steps"]) - 1 for step in steps]
    return [value["values"][position] for position in begins]
