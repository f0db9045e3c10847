"""Checks of settings that only training scripts have: units, vectors of returns and fronts of policies."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from rlexp.algorithms.external import RECIPES_PLACEHOLDER, uses_placeholder
from rlexp.environments import UNTRANSFORMED
from rlexp.errors import ConfigError, did_you_mean
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.identity import Plain
from rlexp.protocol.measures import SCORE_RULES
from rlexp.protocol.units import UNIT, unit_text
from rlexp.protocol.vector_scores import HYPERVOLUME, REFERENCE_POINT, RETURN_OF, VectorScores

DECLARATIONS = {
    UNIT: "counts its steps in another unit than environment steps",
    RETURN_OF: "reports returns of several components",
    REFERENCE_POINT: "reports a front of policies",
}
"""What a setting of the environment says about a training script."""
REPORTS = {
    "returns": "a return for each episode",
    "components": "the returns of several agents",
    "front": "a front of policies",
}
"""What an evaluation of a recipe is, by the value of `algorithm.reports`."""
NEEDED = {"components": RETURN_OF, "front": REFERENCE_POINT}
"""The setting of the environment that an evaluation of a recipe needs."""
MEANINGS = {
    RETURN_OF: "which of them is the return of the run (team, or the name of an agent)",
    REFERENCE_POINT: "above which numbers its hypervolume is measured (a number for each objective)",
}
"""What a needed setting says."""


def refuse_declarations(configuration: Configuration) -> None:
    """Refuse what only a training script can do, for an algorithm that rlexp executes.

    Raises:
        ConfigError: Names the setting.
    """
    for name, what in DECLARATIONS.items():
        if (value := configuration.environment.get(name)) is not None:
            raise ConfigError(
                f"environment.{name}={value}: only a training script {what}: leave it out, or choose "
                "algorithm=external or a recipe (rlexp recipe lists them)",
                key=f"environment.{name}",
            )


def check_declarations(configuration: Configuration) -> None:
    """Refuse settings that do not fit a recipe, and a score that a front of policies does not have.

    Raises:
        ConfigError: Names the setting, the allowed values and the words to type.
    """
    _check_choices(configuration)
    _check_unit(configuration)
    _check_reports(configuration)
    _check_transformations(configuration)
    declared, score = VectorScores.of(configuration.environment), configuration.budget.score
    if declared.reference_point is None or score not in SCORE_RULES:
        return
    raise ConfigError(
        f"budget.score={score} is a rule about returns, and a front of policies "
        f"(environment.{REFERENCE_POINT}) has none: budget.score={HYPERVOLUME}",
        key="budget.score",
    )


def _check_choices(configuration: Configuration) -> None:
    """Refuse a setting of a recipe whose value is none of the allowed ones."""
    choices: Mapping[str, Sequence[str]] = configuration.algorithm.get("choices") or {}
    for key, allowed in choices.items():
        value = _setting(configuration, key)
        if value not in allowed:
            guess = did_you_mean(value, allowed) if isinstance(value, str) else ""
            raise ConfigError(
                f"{_name(configuration)} cannot use {key}={_shown(value)}{guess} (allowed: "
                f"{', '.join(allowed)}): {_example(configuration, key, f'{key}={allowed[0]}')}",
                key=key,
            )


def _setting(configuration: Configuration, key: str) -> Any:
    """A setting of the algorithm or the environment by its dotted key; None without it."""
    part: Any = {"algorithm": configuration.algorithm, "environment": configuration.environment}
    for name in key.split("."):
        part = part.get(name) if isinstance(part, Mapping) else None
    return part


def _shown(value: Any) -> str:
    """A value as a command has it."""
    return "null" if value is None else str(value)


def _check_unit(configuration: Configuration) -> None:
    """Refuse another unit than the one in which a recipe counts, which every table would name wrongly."""
    unit = configuration.algorithm.get(UNIT)
    if unit is not None and configuration.unit != unit:
        raise ConfigError(
            f"{_name(configuration)} counts {unit_text(unit)}, and budgets are in "
            f"{unit_text(configuration.unit)}: add environment.{UNIT}={unit}",
            key=f"environment.{UNIT}",
        )


def _check_reports(configuration: Configuration) -> None:
    """Refuse an environment that lacks the declaration of what a recipe reports, or declares something else."""
    reports = configuration.algorithm.get("reports")
    if reports is None:
        return
    environment, needed = configuration.environment, NEEDED.get(reports)
    said = f"{_name(configuration)} reports {REPORTS[reports]}"
    for name in NEEDED.values():
        if name != needed and environment.get(name) is not None:
            raise ConfigError(
                f"{said}, and environment.{name} is for a script that {DECLARATIONS[name]}: leave it out",
                key=f"environment.{name}",
            )
    if needed is not None and environment.get(needed) is None:
        raise ConfigError(
            f"{said}, and environment.{needed} does not say {MEANINGS[needed]}: "
            f"{_declaration(configuration, needed)}",
            key=f"environment.{needed}",
        )


def _declaration(configuration: Configuration, name: str) -> str:
    """The words that declare what is needed: a setting for this task, or a whole task that has it."""
    objectives = configuration.environment.get("objectives")
    if name == REFERENCE_POINT and objectives:
        point = ", ".join(f"{objective}: NUMBER" for objective in objectives)
        return f"add 'environment.{name}={{{point}}}' budget.score={HYPERVOLUME}"
    key = f"environment.{name}"
    if name == RETURN_OF and name in configuration.environment:
        return f"add {key}=team"
    return _example(configuration, key, f"add {key}=…")


def _example(configuration: Configuration, key: str, otherwise: str) -> str:
    """The words of the recipe's example about the environment; `otherwise` where they do not hold the key."""
    about = ("environment", "budget.score=")
    example = [w for w in configuration.algorithm.get("example") or () if w.startswith(about)]
    named = any(word.startswith(f"{key}=") for word in example)
    return f"choose {shlex.join(example)}" if named else otherwise


def _check_transformations(configuration: Configuration) -> None:
    """Refuse wrappers for scripts that rlexp brings along: they make the environments without them."""
    if not uses_placeholder(configuration.algorithm.get("command", ""), RECIPES_PLACEHOLDER):
        return
    environment: Plain = configuration.environment
    vector: Plain = environment.get("vector") or {}
    changed = [f"vector.{k}" for k, v in UNTRANSFORMED.items() if vector.get(k, v) != v]
    if environment.get("wrappers"):
        changed.append("wrappers")
    if changed:
        raise ConfigError(
            f"{_name(configuration)} makes the environments of {configuration.task} itself, without "
            f"environment.{changed[0]}: leave it out, or choose another task (rlexp config list environment)",
            key=f"environment.{changed[0]}",
        )


def _name(configuration: Configuration) -> str:
    return str(configuration.algorithm["name"])
