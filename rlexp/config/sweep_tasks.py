"""The tasks of a sweep: `environment=cartpole,acrobot` searches one configuration for all of them."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from rlexp.config.overrides import choice_texts, normalise_overrides, parse_overrides
from rlexp.config.sweep import SweepRequest, compose_sweep
from rlexp.errors import ConfigError
from rlexp.protocol.leaf_differences import leaf_differences
from rlexp.protocol.spec import SETTABLE
from rlexp.protocol.sweep import SweepPlan

ENVIRONMENT = "environment"
OF_ONE_TASK = ("environment.id", "environment.name", "environment.imports")
"""Keys of which each task has a value of its own."""
SHARED = (*(name for name in SETTABLE if name != ENVIRONMENT), "seeds", "failures")
"""Sections of the default configuration that are the same on all tasks."""


def compose_tasks(
    name: str | None, overrides: Sequence[str], folder: Path
) -> tuple[SweepRequest, ...]:
    """Compose a sweep on each of its tasks; most sweeps have one task.

    Args:
        name: The name of a definition in `sweeps/`; None for a sweep of overrides only.
        overrides: Overrides in Hydra's grammar; `environment` may have several values.
        folder: The study's folder.

    Raises:
        ConfigError: An override is wrong, a task is named twice, more than the environment differs
            between tasks, or a setting does not fit the number of tasks.
    """
    requests = tuple(compose_sweep(name, words, folder) for words in overrides_by_task(overrides))
    first = requests[0]
    if len(requests) == 1:
        _refuse_settings_of_tasks(first.plan)
        return requests
    _check_plan(first, len(requests))
    for request in requests[1:]:
        _check_alike(first, request)
    plan = replace(first.plan, normalisation=first.plan.normalisation or "anchors")
    return tuple(replace(request, plan=plan) for request in requests)


def overrides_by_task(overrides: Sequence[str]) -> list[list[str]]:
    """The overrides for each task: those of the command, with one value of `environment`.

    Raises:
        ConfigError: A task is named twice, or the values are no list.
    """
    parsed = parse_overrides(normalise_overrides(overrides))
    positions = [i for i, each in enumerate(parsed) if each.key_or_group == ENVIRONMENT]
    # The last override of a key wins.
    if not positions or not parsed[positions[-1]].is_sweep_override():
        return [list(overrides)]
    last, word = positions[-1], overrides[positions[-1]]
    tasks = choice_texts(word, parsed[last])
    refuse_repeated(tasks, word)
    for each, override in zip(parsed, overrides, strict=True):
        key = each.key_or_group
        if key in OF_ONE_TASK or key.startswith("environment.reference"):
            raise ConfigError(
                f"{override}: {key} is of one task, and {word} names {len(tasks)}: write it into a file "
                "of the task (conf/environment/NAME.yaml), and name that file",
                key=key,
            )
    before = [w for i, w in enumerate(overrides[:last]) if i not in positions]
    return [[*before, f"{ENVIRONMENT}={task}", *overrides[last + 1 :]] for task in tasks]


def refuse_repeated(tasks: Sequence[str], where: str) -> None:
    """Refuse a task that is named twice: it would count twice in the mean over tasks.

    Args:
        tasks: Names of tasks.
        where: The first words of the error.

    Raises:
        ConfigError: Two names are equal.
    """
    for first, second in pairwise(sorted(tasks)):
        if first == second:
            raise ConfigError(
                f"{where}: the task {first} is there twice: name each task once", key=ENVIRONMENT
            )


def _refuse_settings_of_tasks(plan: SweepPlan) -> None:
    for key in ("normalisation", "screening_tasks"):
        value = getattr(plan, key)
        if value is not None:
            raise ConfigError(
                f"sweep.{key}={value} is for a sweep on several tasks: leave it out, or name the "
                "tasks with environment=FIRST,SECOND",
                key=f"sweep.{key}",
            )


def _check_plan(request: SweepRequest, tasks: int) -> None:
    plan = request.plan
    for refused, key, why in _refusals(request, tasks):
        if refused:
            raise ConfigError(f"{key}={_shown(getattr(plan, key[6:], None))} {why}", key=key)
    pruner = str(request.pruner["_target_"]).rpartition(".")[2]
    if plan.normalisation == "ranks" and pruner != "Never":
        raise ConfigError(
            "sweep.normalisation=ranks compares whole trials, and a pruner compares parts of them: "
            "set pruner=none, or sweep.normalisation=anchors",
            key="sweep.normalisation",
        )
    searched = [key for key in request.space.keys if key.split(".")[0] == ENVIRONMENT]
    if searched:
        raise ConfigError(
            f"{searched[0]} is searched, and a sweep on several tasks keeps its environments as they "
            "are: give it one value, or search it on one task",
            key=searched[0],
        )


def _refusals(request: SweepRequest, tasks: int) -> list[tuple[bool, str, str]]:
    """Whether each setting is refused, its key, and why."""
    plan = request.plan
    screened, staged = plan.screening_tasks, plan.allocation == "two_stage"
    return [
        (
            plan.objectives != ("score",),
            "sweep.objective",
            (
                "does not fit several tasks, whose scores are normalised: set sweep.objective=score; "
                "budget.score says what the score is"
            ),
        ),
        (
            plan.screening_episodes is not None,
            "sweep.screening_episodes",
            "is for a sweep on one task: leave it out",
        ),
        (
            bool(plan.continuation),
            "sweep.continuation",
            "is for a sweep on one task: leave it out",
        ),
        (
            screened is not None and not staged,
            "sweep.screening_tasks",
            (
                f"is for screening, and sweep.allocation={plan.allocation} has none: leave it out, or set "
                "sweep.allocation=two_stage"
            ),
        ),
        (
            screened is not None and screened > tasks,
            "sweep.screening_tasks",
            f"is more than the {tasks} tasks: give 1 … {tasks}",
        ),
        (
            plan.normalisation == "ranks" and plan.allocation == "racing",
            "sweep.allocation",
            (
                "compares the scores of runs, and sweep.normalisation=ranks has none: set "
                "sweep.allocation=two_stage or fixed"
            ),
        ),
    ]


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{','.join(map(str, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check_alike(first: SweepRequest, other: SweepRequest) -> None:
    """Refuse tasks on which more than the environment differs: it is one configuration."""
    sides = [
        {
            **{section: request.plain.get(section) for section in SHARED},
            "sweep.space": request.space.plain(),
            "default": dict(request.default),
        }
        for request in (first, other)
    ]
    for difference in leaf_differences(*sides):
        raise ConfigError(
            f"{difference.path} is {difference.first} on one task and {difference.second} on another, "
            "and a sweep on several tasks searches one configuration for all: give it one value",
            key=difference.path,
        )
