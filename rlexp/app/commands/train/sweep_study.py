"""Begin or continue a study: a sweep whose runs are trained by the program that asks for them."""

from collections.abc import Mapping, Sequence
from typing import Any

from rlexp.app.sweeps.ask_and_tell import SweepStudy
from rlexp.app.sweeps.request import Configurer, RequestedSweep, read_sweep
from rlexp.app.workspace import Workspace
from rlexp.config.override_words import override_words
from rlexp.errors import ConfigError
from rlexp.protocol.identity import short_name

SETTINGS = "algorithm.settings."
"""Prefix of the hyperparameters in the configuration."""
COMMAND = "rlexp.sweep_study"
"""The text in the place of the command of a training script: the caller trains."""
DEFAULTS: tuple[str, ...] = ("sweep.lag=0",)
"""Settings that the caller may change. Most programs train one run at a time."""
FIXED = (
    *("algorithm=external", f"algorithm.command={COMMAND}", "algorithm.files={}"),
    *("budget.evaluation_every=null", "budget.final_episodes=1", "sweep.continuation=false"),
)
"""Settings of every study: what a score says, and that the caller keeps its own states."""


def open_study(
    name: str,
    space: Mapping[str, Any],
    default: Mapping[str, Any],
    task: str,
    words: Sequence[str],
    workspace: Workspace,
) -> SweepStudy:
    """Begin a study, or continue the one of this name.

    Args:
        name: The name of the experiment.
        space: The values of each searched hyperparameter.
        default: Every hyperparameter with its value in the default configuration.
        task: The name of the task.
        words: Further settings in Hydra's grammar.
        workspace: The workspace of the study.

    Raises:
        RlexpError: A setting is wrong, or an experiment of this name has another definition;
            nothing was written.
    """
    _check_space(space, default)
    of_task = ("environment=external", *override_words([{"environment.name": task}]))
    searched = {f"sweep.space.{SETTINGS}{key}": values for key, values in space.items()}
    defaults = {f"{SETTINGS}{key}": value for key, value in default.items()}
    every = (
        *(*FIXED[:1], *DEFAULTS, *of_task, *words, *FIXED[1:]),
        *override_words([{f"+{key}": value for key, value in defaults.items()}]),
        *override_words([searched], searching=True),
        *override_words([{"experiment": name}]),
    )
    requested = read_sweep(None, every, workspace)
    _check_study(requested)
    return SweepStudy.open(Configurer(requested, workspace, {}), workspace)


def _check_space(space: Mapping[str, Any], default: Mapping[str, Any]) -> None:
    """Refuse a space without hyperparameters, or with one that has no default.

    Raises:
        ConfigError: A searched hyperparameter has no default.
    """
    if not space:
        raise ConfigError(
            'the space is empty: write space={"learning_rate": "tag(log, interval(1e-4, 1e-2))"}'
        )
    for key in space:
        if key not in default:
            raise ConfigError(
                f"{key} is searched and has no default: write default={{{key!r}: VALUE}}, the value "
                "of trial 0, with which the winner is compared",
                key=key,
            )


def _check_study(requested: RequestedSweep) -> None:
    """Refuse settings that need runs which rlexp trains.

    Raises:
        ConfigError: A setting cannot work with scores that are told.
    """
    plan, budget = requested.sweep.plan, requested.experiment.default.budget
    if requested.experiment.default.algorithm.get("command") != COMMAND:
        raise ConfigError(
            "algorithm: a study trains with your own code, so no algorithm can be chosen; "
            "algorithm.name=… names it in reports",
            key="algorithm",
        )
    refused = {
        "pruner": short_name(requested.sweep.pruner) != "none",
        "tracker": bool(requested.trackers.built),
        "budget.score": budget.score != "final",
        "sweep.objective": plan.objectives != ("score",),
        "sweep.hours": plan.hours is not None,
        "sweep.screening_episodes": plan.screening_episodes is not None,
        "sweep.storage": plan.storage is not None,
    }
    for key, is_set in refused.items():
        if is_set:
            raise ConfigError(
                f"{key} needs runs that rlexp trains, and a study is told one score of each run: "
                "leave it out",
                key=key,
            )
