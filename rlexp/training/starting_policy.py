"""Begins a training with the parameters of a trained policy."""

import io
from typing import Any

import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.save_util import load_from_zip_file

from rlexp.errors import ConfigError
from rlexp.records.checkpoint import SavedPolicy
from rlexp.training.parts import Training
from rlexp.training.restore import fresh_learner
from rlexp.training.vectorise import read_statistics


def begin_with(learner: BaseAlgorithm, policy: SavedPolicy) -> None:
    """Give a freshly built learner the networks and the statistics of a trained policy.

    Optimisers, learned temperatures and the replay buffer stay as they are: they belong to the
    settings of the new training.

    Args:
        learner: The learner, before its first step.
        policy: The trained policy.

    Raises:
        Exception: The policy does not fit; the types are those of the libraries.
    """
    parameters: Any
    _, parameters, _ = load_from_zip_file(
        io.BytesIO(policy.model), device=learner.device, load_data=False
    )
    learner.policy.load_state_dict(parameters["policy"])
    weights: Any = getattr(learner, "weights", None)
    if isinstance(weights, torch.Tensor):
        # ARS keeps the parameters as one vector, from which it writes them back into the policy.
        weights.copy_(torch.nn.utils.parameters_to_vector(learner.policy.parameters()).detach())
    if policy.normalisation is not None and learner.env is not None:
        read_statistics(learner.env, io.BytesIO(policy.normalisation))


def check_fit(training: Training, policy: SavedPolicy) -> None:
    """Check that a training can begin with a policy.

    Raises:
        ConfigError: The networks or the statistics have other shapes; gives the first difference.
    """
    learner = fresh_learner(training)
    try:
        begin_with(learner, policy)
    except ConfigError:
        raise
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = lines[1] if len(lines) > 1 else (lines or [type(error).__name__])[0]
        raise ConfigError(reason.rstrip(".")[:200]) from error
