"""The check, before any run starts, that environments report the measures that are asked for.

A measure that the code of a task or a component declares is certain. For any other, one episode is
played with random actions, in a child process.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rlexp.environments import MEASURES, Environment, Stage
from rlexp.environments.composed import at_stage, reported_measures
from rlexp.errors import ConfigError
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.measures import SCORE_RULES, results_among
from rlexp.protocol.sweep import OBJECTIVES, RECORDED_OBJECTIVES

MOST_STEPS = 20_000
"""Environment steps after which an episode that does not end tells nothing."""
MOST_SECONDS = 10.0
"""Seconds after which an episode that does not end tells nothing."""


@dataclass(frozen=True, slots=True)
class RequestedMeasure:
    """A measure that a setting names.

    Attributes:
        key: The setting (`budget.score`).
        name: The measure.
        words: Words that the setting could name instead of a measure.
    """

    key: str
    name: str
    words: tuple[str, ...]


def requested_measures(
    configuration: Configuration, objectives: Sequence[str]
) -> Iterator[RequestedMeasure]:
    """The measures that the score and the objectives of a sweep name.

    Args:
        configuration: The configuration.
        objectives: The objectives of a sweep, if any.
    """
    if configuration.budget.score not in SCORE_RULES:
        yield RequestedMeasure("budget.score", configuration.budget.score, SCORE_RULES)
    for name in objectives:
        if name not in RECORDED_OBJECTIVES:
            yield RequestedMeasure("sweep.objective", name, OBJECTIVES)


def uncertain_measures(
    configuration: Configuration, environment: Environment, objectives: Sequence[str]
) -> list[RequestedMeasure]:
    """The requested measures that no code declares, so that only an episode can show them."""
    certain = reported_measures(environment)
    return [m for m in requested_measures(configuration, objectives) if m.name not in certain]


def measures_of_an_episode(environment: Environment) -> list[str] | None:
    """The measures that an episode of random actions reports, besides contexts.

    None where this cannot be known: the episode does not end soon, or random actions end it with
    an error.
    """
    try:
        made = at_stage(environment, Stage.EVALUATION).make()
        try:
            return _played(made)
        finally:
            made.close()
    except Exception:  # noqa: BLE001
        # A run that has this error reports it in its own words.
        return None


def _played(made: Any) -> list[str] | None:
    deadline = time.monotonic() + MOST_SECONDS
    made.action_space.seed(0)
    made.reset(seed=0)
    for _ in range(MOST_STEPS):
        mask = made.get_wrapper_attr("action_masks")() if _is_masked(made) else None
        action = made.action_space.sample(mask) if mask is not None else made.action_space.sample()
        *_, terminated, truncated, info = made.step(action)
        if terminated or truncated:
            return results_among(info.get(MEASURES, {}))
        if time.monotonic() > deadline:
            break
    return None


def _is_masked(made: Any) -> bool:
    return bool(made.has_wrapper_attr("action_masks"))


def check_reported(
    measures: Sequence[RequestedMeasure], reported: Sequence[str] | None, task: str
) -> None:
    """Refuse a measure that an episode of the task did not report.

    Args:
        measures: The requested measures.
        reported: The measures that the episode reported; None if it could not be played.
        task: The name of the task.

    Raises:
        ConfigError: A measure is missing; names those that exist, and what to write.
    """
    for measure in measures:
        if reported is None or measure.name in reported:
            continue
        listed = f"the measures {', '.join(reported)}" if reported else "no measure"
        allowed = [*measure.words, *reported]
        raise ConfigError.unknown(
            f"{measure.key}={measure.name}: an episode of {task} reports {listed}",
            measure.name,
            allowed,
            key=measure.key,
            after="; the wrapper rlexp:Measured makes a measure of a number in info: "
            "docs/guides/measures.md",
        )
