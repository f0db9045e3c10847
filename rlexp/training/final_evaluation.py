"""The final evaluation of a training script that is executed as a run (`algorithm=external`)."""

import os
from collections.abc import Callable
from typing import Any

from rlexp.errors import ConfigError
from rlexp.trainer import CONFIGURATION, RESULTS, Trainer


def play_final_evaluation(
    environment: Any, act: Callable[[Any], Any], step: int
) -> tuple[float, ...]:
    """Play the final evaluation that the run's budget asks for, and write its results.

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
    return Trainer.of_run().evaluate(environment, act, step, final=True)
