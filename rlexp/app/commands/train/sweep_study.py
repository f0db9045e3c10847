"""Begin or continue a study: a sweep whose runs are trained by the program that asks for them."""

from collections.abc import Mapping, Sequence
from typing import Any

from rlexp.app.plans import POPULATIONS
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
DEFAULTS = {"sweep.lag": "0"}
"""Settings that the caller may change. Most programs train one run at a time."""
FIXED = {
    "algorithm": "external",
    "algorithm.command": COMMAND,
    "algorithm.files": "{}",
    "budget.evaluation_every": "null",
    "budget.final_episodes": "1",
    "sweep.continuation": "false",
}
"""Settings of every study: a study has one score of each run, and the caller keeps its states."""
UNFIT = {
    "pruner": "none",
    "tracker": "[]",
    "budget.score": "final",
    "sweep.objective": "score",
    "sweep.hours": "null",
    "sweep.screening_episodes": "null",
    "sweep.storage": "null",
}
"""Settings that need runs which rlexp trains, and the only value that they can have."""


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
    _check_words(words)
    given = {_key(word) for word in words}
    defaults = {key: value for key, value in DEFAULTS.items() if key not in given}
    searched = {f"sweep.space.{SETTINGS}{key}": values for key, values in space.items()}
    every = (
        *(f"{key}={value}" for key, value in {**FIXED, **defaults}.items()),
        *("environment=external", *override_words([{"environment.name": task}])),
        *words,
        *override_words([{f"+{SETTINGS}{key}": value for key, value in default.items()}]),
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


def _key(word: str) -> str:
    """The key of a word, without the signs in front of it."""
    return word.lstrip("+~").partition("=")[0]


def _check_words(words: Sequence[str]) -> None:
    """Refuse words that contradict what every study is.

    Raises:
        ConfigError: A word chooses an algorithm or a population, or needs runs that rlexp trains.
    """
    for word in words:
        key, value = _key(word), word.partition("=")[2]
        if key in {"algorithm", "algorithm.command", "algorithm.files"}:
            raise ConfigError(
                f"{key}: a study trains with your own code, so no algorithm can be chosen; "
                "algorithm.name=… names it in reports",
                key=key,
            )
        if key == "tuner" and value in POPULATIONS:
            raise ConfigError(
                f"tuner={value} continues trainings from the states of others, and a study is told one "
                "score of each run: choose another tuner",
                key=key,
            )
        if value != {**UNFIT, **FIXED}.get(key, value):
            raise _unfit(key)


def _unfit(key: str) -> ConfigError:
    """The error that refuses a setting which needs runs that rlexp trains."""
    return ConfigError(
        f"{key} needs runs that rlexp trains, and a study is told one score of each run: leave it "
        "out",
        key=key,
    )


def _check_study(requested: RequestedSweep) -> None:
    """Refuse settings of the user's own configuration that need runs which rlexp trains.

    Raises:
        ConfigError: A setting cannot work with scores that are told.
    """
    plan, budget = requested.sweep.plan, requested.experiment.default.budget
    values = {
        "pruner": short_name(requested.sweep.pruner) != UNFIT["pruner"],
        "tracker": bool(requested.trackers.built),
        "budget.score": budget.score != UNFIT["budget.score"],
        "sweep.objective": plan.objectives != (UNFIT["sweep.objective"],),
        "sweep.hours": plan.hours is not None,
        "sweep.screening_episodes": plan.screening_episodes is not None,
        "sweep.storage": plan.storage is not None,
    }
    for key, is_set in values.items():
        if is_set:
            raise _unfit(key)
