"""What several callbacks refuse before anything trains."""

from dataclasses import fields
from typing import Any

from rlexp.algorithms import shown_name
from rlexp.algorithms.schedules import changeable, may_change
from rlexp.errors import ConfigError, did_you_mean


def check_hyperparameter(key: str, name: str, algorithm: Any) -> None:
    """Refuse a hyperparameter that an algorithm does not have, or that cannot change while it trains.

    Args:
        key: The setting that names the hyperparameter.
        name: The hyperparameter.
        algorithm: The algorithm plug-in.

    Raises:
        ConfigError: Names those that can change.
    """
    allowed = changeable(algorithm)
    if name in allowed:
        return
    learner = shown_name(algorithm)
    value = getattr(algorithm, name, None)
    kinds = {field.name: field.type for field in fields(algorithm)}
    if value is None and name not in kinds:
        problem = f"{learner} has no hyperparameter {name!r}{did_you_mean(name, allowed)}"
    elif value is None and may_change(kinds[name]):
        problem = f"algorithm.{name} is null: give it a value, or choose another hyperparameter"
    elif value is None or isinstance(value, int | float | str):
        problem = f"{name} of {learner} cannot change while a run trains"
    else:
        problem = (
            f"algorithm.{name} has a schedule already: give it one value, or leave it out of {key}"
        )
    raise ConfigError(
        f"{key}: {problem} (there are: {', '.join(allowed)})",
        code="unknown_setting",
        key=key,
        allowed=allowed,
    )
