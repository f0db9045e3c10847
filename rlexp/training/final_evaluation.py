"""The final evaluation of a training script that is executed as a run (`algorithm=external`)."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rlexp.errors import ConfigError

CONFIGURATION = "RLEXP_CONFIGURATION"
RESULTS = "RLEXP_RESULTS"
"""Variables with the names of the two files of a script (`docs/guides/external.md`)."""


def play_final_evaluation(
    environment: Any, act: Callable[[Any], Any], step: int
) -> tuple[float, ...]:
    """Play the final evaluation that the run's budget asks for, and write its results.

    Returns are undiscounted. Where a wrapper of Gymnasium records the statistics of episodes, they
    are taken, because wrappers outside of it may change rewards.

    Args:
        environment: An environment of Gymnasium, or a function that makes one.
        act: Returns the action of the final policy for one observation.
        step: Environment steps of the training.

    Returns:
        The return of each episode. It is empty if the script is not executed by rlexp.

    Raises:
        ConfigError: The variables of the run are incomplete.
    """
    if CONFIGURATION not in os.environ:
        return ()
    if RESULTS not in os.environ:
        raise ConfigError(f"{RESULTS} is not set: pass both variables on to the script")
    configuration = json.loads(Path(os.environ[CONFIGURATION]).read_text())
    episodes = configuration["budget"]["final_episodes"]
    played_environment = environment if hasattr(environment, "step") else environment()
    seed = configuration["seeds"]["evaluation"][-1]
    # The first reset gets the seed of the final evaluation; later resets continue its stream.
    results = [
        _play(played_environment, act, seed if number == 0 else None) for number in range(episodes)
    ]
    returns, lengths = (list(column) for column in zip(*results, strict=True))
    line = {"step": int(step), "returns": returns, "lengths": lengths, "final": True}
    with Path(os.environ[RESULTS]).open("a") as file:
        file.write(json.dumps(line) + "\n")
    return tuple(returns)


def _play(environment: Any, act: Callable[[Any], Any], seed: int | None) -> tuple[float, int]:
    """The return and the length of one episode."""
    observation, _ = environment.reset(seed=seed)
    total, length, done = 0.0, 0, False
    information: Mapping[str, Any] = {}
    while not done:
        observation, reward, terminated, truncated, information = environment.step(
            act(observation)
        )
        total, length = total + float(reward), length + 1
        done = bool(terminated or truncated)
    recorded = information.get("episode")
    if isinstance(recorded, Mapping) and {"r", "l"} <= set(recorded):
        return float(recorded["r"]), int(recorded["l"])
    return total, length
