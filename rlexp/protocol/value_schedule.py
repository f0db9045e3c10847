"""Settings whose value changes at environment steps, as JSON values of a configuration."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

STEPS = "steps"
"""The word for the form of a schedule by steps."""
EarlierValues = Sequence[tuple[int, Mapping[str, Any]]]
"""The parts of a training before the present one: the step at which each ends, and its values."""


def is_scheduled(value: Any) -> bool:
    """Whether a setting changes at steps."""
    return isinstance(value, Mapping) and value.get("shape") == STEPS


def scheduled(steps: Sequence[int], values: Sequence[Any]) -> Any:
    """A setting that has these values from these steps on; the value itself where it never changes."""
    kept = [i for i, value in enumerate(values) if i == 0 or value != values[i - 1]]
    if len(kept) == 1:
        return values[0]
    return {"shape": STEPS, "steps": [steps[i] for i in kept], "values": [values[i] for i in kept]}


def changes(parts: Mapping[str, Any], keys: Iterable[str]) -> bool:
    """Whether one of these settings changes at steps.

    Args:
        parts: The parts of a configuration, by name.
        keys: Dotted keys (`algorithm.gamma`); other keys are left out.
    """
    for key in keys:
        group, dot, name = key.partition(".")
        settings = parts.get(group)
        if dot and isinstance(settings, Mapping) and is_scheduled(settings.get(name)):
            return True
    return False


def whole_values(parts: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Searched values, with a schedule in the place of the last value where there is one.

    Args:
        parts: The parts of the configuration, by name.
        parameters: The searched values; in a population, those of the last generation.
    """
    return {
        key: _setting(parts, key) if changes(parts, [key]) else value
        for key, value in parameters.items()
    }


def _setting(parts: Mapping[str, Any], key: str) -> Any:
    group, _, name = key.partition(".")
    return parts[group][name]


def with_earlier(parameters: Mapping[str, Any], earlier: EarlierValues) -> dict[str, Any]:
    """The settings of a whole training, of which `parameters` are the values of the last part.

    Args:
        parameters: The present values, by key.
        earlier: The parts before, in order; each has the same keys.
    """
    if not earlier:
        return dict(parameters)
    steps = [0, *(end for end, _ in earlier)]
    parts = [*(values for _, values in earlier), parameters]
    return {key: scheduled(steps, [part[key] for part in parts]) for key in parameters}


def settings_at_stage(settings: Mapping[str, Any], stage: int) -> dict[str, Any]:
    """Settings in which each schedule is replaced by its value in a part of the training.

    Args:
        settings: The settings of one part of a configuration.
        stage: The number of the part, from 0. A part begins at each step of any of the schedules.
    """
    schedules = {key: value for key, value in settings.items() if is_scheduled(value)}
    begins = sorted({step for schedule in schedules.values() for step in schedule["steps"]})
    values = {
        key: schedule["values"][bisect_right(schedule["steps"], begins[stage]) - 1]
        for key, schedule in schedules.items()
    }
    return {**settings, **values}


def up_to(settings: Mapping[str, Any], step: int) -> dict[str, Any]:
    """Settings without what they say about a step or later ones: what decided the part before it."""
    return {key: _cut(value, step) for key, value in settings.items()}


def _cut(value: Any, step: int) -> Any:
    if not is_scheduled(value):
        return value
    count = sum(begin < step for begin in value["steps"])
    return scheduled(value["steps"][:count], value["values"][:count])
