"""Checks of callbacks before a run starts: whether they fit the algorithm, and what they cost a kill.

What a callback says of itself is read from its class: `check`, `reached_values`, `keeps_state`,
`depends_on_length` and `acts_from` of `rlexp/callbacks/`.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from rlexp.algorithms import BringsEnvironments, shown_name
from rlexp.app.workspace import Workspace
from rlexp.config.validate import build, build_named
from rlexp.environments.run_teacher import NEEDS_VALUES, TEACHER
from rlexp.errors import ConfigError
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.identity import short_name_of
from rlexp.protocol.spec import CALLBACK, COMPONENTS, RunSpec
from rlexp.text import join_names


def callbacks_of(configuration: Configuration, workspace: Workspace) -> dict[str, Any]:
    """Build the callbacks of a recorded configuration, by name.

    Raises:
        ConfigError: A setting is wrong, or a class is not allowed.
    """
    return build_named(configuration.callback or {}, CALLBACK, workspace.allowed)


def refuse_callbacks(configuration: Configuration, learner: str, reason: str) -> None:
    """Refuse callbacks of a configuration whose training calls none.

    Raises:
        ConfigError: The configuration has a callback; names it.
    """
    for name in configuration.callback or {}:
        raise ConfigError(
            f"callback {name} cannot act with {learner}: {reason}; leave it out",
            code="not_allowed",
            key=f"{CALLBACK}.{name}",
        )


def check_callbacks(configuration: Configuration, algorithm: Any, workspace: Workspace) -> None:
    """Check that the callbacks of a configuration can act on its algorithm.

    Raises:
        ConfigError: A callback or `budget.stop_at` does not fit the algorithm; names what would.
    """
    learner = shown_name(algorithm)
    _check_teacher(configuration, algorithm, learner, workspace)
    if isinstance(algorithm, BringsEnvironments):
        reason = f"it trains as one compiled program; use algorithm={learner.rpartition('_')[2]}"
        refuse_callbacks(configuration, learner, reason)
        if configuration.budget.stop_at is not None:
            raise ConfigError(
                f"budget.stop_at cannot end {learner}: {reason}, or leave it out",
                code="not_allowed",
                key="budget.stop_at",
            )
    for name, callback in callbacks_of(configuration, workspace).items():
        if hasattr(callback, "check"):
            callback.check(algorithm)
        values = callback.reached_values() if hasattr(callback, "reached_values") else {}
        _check_values(name, values, configuration, workspace)


def _check_teacher(
    configuration: Configuration, algorithm: Any, learner: str, workspace: Workspace
) -> None:
    """Refuse a teacher that scores by values beside a learner without a value function."""
    inside = configuration.environment.get(COMPONENTS) or {}
    for name, component in build_named(inside, "component", workspace.allowed).items():
        if getattr(component, NEEDS_VALUES, False) and not hasattr(algorithm, "gae_lambda"):
            teacher = short_name_of(type(component), TEACHER)
            raise ConfigError(
                f"teacher={teacher} scores levels by the learner's value function, which {learner} "
                "does not have: use algorithm=ppo or algorithm=a2c, or teacher=none",
                code="not_allowed",
                key=f"environment.{COMPONENTS}.{name}",
            )


def refuse_searched(
    keys: Collection[str], configuration: Configuration, workspace: Workspace, *, population: bool
) -> None:
    """Refuse searched hyperparameters whose values a callback replaces.

    Args:
        keys: The searched parameters.
        configuration: The default configuration.
        workspace: The workspace, with the packages that may be imported.
        population: Whether the searched values change while a run trains.

    Raises:
        ConfigError: Names the callback and the parameter.
    """
    for name, callback in callbacks_of(configuration, workspace).items():
        begins = callback.acts_from() if hasattr(callback, "acts_from") else 0
        # A controller that begins later moves the searched value, which a constant one is.
        if not hasattr(callback, "reached_values") or (begins > 0 and not population):
            continue
        for reached in callback.reached_values():
            key = f"algorithm.{reached}"
            if key in keys:
                raise ConfigError(
                    f"sweep.space.{key} is searched, and callback {name} sets {reached} while a run "
                    "trains: take it out of the space, or out of the callback",
                    code="not_allowed",
                    key=f"sweep.space.{key}",
                )


def _check_values(
    callback: str, values: Mapping[str, Any], configuration: Configuration, workspace: Workspace
) -> None:
    """Refuse a value of a hyperparameter that the algorithm would refuse as its setting."""
    count = configuration.environment.get("vector", {}).get("count", 1)
    for name, reached in values.items():
        # A whole number is set as one, whatever the schedule gives.
        whole = isinstance(configuration.algorithm.get(name), int)
        for value in reached:
            changed = round(value) if whole else value
            settings = {**configuration.algorithm, name: changed}
            try:
                build(settings, "algorithm", workspace.allowed).check(count)
            except ConfigError as error:
                raise error.rephrased(
                    f"callback {callback} would set {name}={changed:g}: {error}"
                ) from error


def length_obstacle(configuration: Configuration, workspace: Workspace) -> str | None:
    """Why a longer run would differ from one that continues a run of a configuration, or None."""
    for name, callback in callbacks_of(configuration, workspace).items():
        depends = getattr(callback, "depends_on_length", None)
        if depends is None:
            return (
                f"callback {name} does not say whether it depends on the length of training: write "
                f"depends_on_length = False into {type(callback).__name__} if it does not"
            )
        if depends:
            return f"callback {name} depends on the length of training"
        if getattr(callback, "keeps_state", None) is False:
            return f"callback {name} {_without_protocol(callback)}"
    return None


def plan_remarks(
    configurations: Iterable[Configuration], missing: Iterable[RunSpec], workspace: Workspace
) -> tuple[str, ...]:
    """What a plan says of callbacks, components and teachers, one sentence each.

    Args:
        configurations: The configurations of the plan.
        missing: The runs that are about to start.
        workspace: The workspace, with the packages that may be imported.
    """
    starting = {spec.fingerprint for spec in missing}
    remarks: dict[str, None] = {}
    for configuration in configurations:
        if configuration.fingerprint in starting:
            remarks |= dict.fromkeys(_remarks(configuration, workspace))
    return tuple(remarks)


def teacher_obstacle(configuration: Configuration, workspace: Workspace) -> str | None:
    """Why the state of runs with a teacher for each environment cannot be restored; None otherwise.

    Definitions of teachers that learn from outcomes were of this kind before they had `shared`.
    """
    inside = configuration.environment.get(COMPONENTS) or {}
    for name, component in build_named(inside, "component", workspace.allowed).items():
        if getattr(component, "shared", True) is None:
            kind = short_name_of(type(component), TEACHER)
            return (
                f"each environment has a teacher={kind} of its own, and no checkpoint holds what it "
                f"knows; runs with environment.{COMPONENTS}.{name}.shared=true, which a new run has by "
                "itself, can be extended"
            )
    return None


def _remarks(configuration: Configuration, workspace: Workspace) -> Iterator[str]:
    callbacks, steps = callbacks_of(configuration, workspace), configuration.budget.steps
    for name, callback in callbacks.items():
        if getattr(callback, "keeps_state", None) is False:
            yield (
                f"callback {name} {_without_protocol(callback)}: a run that is killed begins anew"
            )
        yield from _never(f"callback {name}", callback, steps)
    inside = configuration.environment.get(COMPONENTS) or {}
    count = configuration.environment.get("vector", {}).get("count", 1)
    for name, component in build_named(inside, "component", workspace.allowed).items():
        # One teacher for the run counts the steps of all environments.
        own_steps = steps if getattr(component, "shared", False) else steps // count
        yield from _never(f"component {name}", component, own_steps)
        if getattr(component, NEEDS_VALUES, False):
            # Scores come from rollouts, so the first rollout has none.
            rollout = configuration.algorithm.get("n_steps", 0) * count
            yield from _never_after(f"component {name}", rollout, steps)


def _never(what: str, part: Any, steps: int) -> Iterator[str]:
    """That a part never acts, if it begins after all steps."""
    first = part.acts_from() if hasattr(part, "acts_from") else 0
    yield from _never_after(what, first, steps)


def _never_after(what: str, first: int, steps: int) -> Iterator[str]:
    """That a part which begins after `first` steps never acts, if there are no more steps."""
    if first >= steps:
        yield f"{what} never acts: it begins after {first:,} steps, and there are {steps:,}"


def _without_protocol(callback: Any) -> str:
    return f"keeps no state ({type(callback).__name__} has no {join_names(['state_dict()', 'load_state_dict()'])})"
