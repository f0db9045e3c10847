"""The dormant ratio: the share of neurons that are inactive, for the networks of any policy.

Sokar et al. 2023, The Dormant Neuron Phenomenon in Deep Reinforcement Learning, definitions 3.1 and 3.2.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy
from torch import nn

ACTIVATIONS = (
    *(nn.ReLU, nn.Tanh, nn.ELU, nn.LeakyReLU, nn.SELU, nn.SiLU, nn.GELU, nn.Softplus),
    *(nn.Sigmoid, nn.ReLU6, nn.Mish, nn.CELU),
)
"""Modules whose outputs are the activities of neurons."""
SQUASHING = "mu"
"""The part of an actor whose last activation squashes actions, which are no neurons."""


def dormant_ratio(
    model: BaseAlgorithm, generator: np.random.Generator, *, samples: int, threshold: float
) -> float | None:
    """The share of dormant neurons in the hidden layers of a learner's networks.

    The score of a neuron is its mean absolute activity over observations, divided by the mean of these over
    its layer. A neuron is dormant if its score is at most the threshold. A channel of a convolution counts as
    one neuron. Target networks are left out.

    Args:
        model: The learner, at the end of a rollout.
        generator: Chooses the observations.
        samples: Number of observations, from the buffer of the learner.
        threshold: The threshold of a score, tau.

    Returns:
        The ratio in [0, 1]; None if the buffer is empty or no network has a hidden layer.
    """
    batch = _sample(model, generator, samples)
    if batch is None:
        return None
    observations, actions = batch
    dormant = total = 0
    with _activities(model.policy) as layers, torch.no_grad():
        _pass_through(model.policy, observations, actions)
    for activity in layers:
        scores = activity / activity.mean().clamp(min=torch.finfo(activity.dtype).tiny)
        dormant += int((scores <= threshold).sum())
        total += len(scores)
    return dormant / total if total else None


@contextmanager
def _activities(policy: BasePolicy) -> Iterator[list[torch.Tensor]]:
    """Yield a list that receives the mean absolute activity of each layer's neurons (neurons)."""
    layers: list[torch.Tensor] = []

    def note(module: nn.Module, inputs: Any, output: torch.Tensor) -> None:
        del module, inputs
        activity = output.detach().abs()
        # Convolutions give batch × channels × height × width, others end with the neurons.
        neurons = 1 if activity.dim() == 4 else activity.dim() - 1
        over = [axis for axis in range(activity.dim()) if axis != neurons]
        layers.append(activity.mean(dim=over))

    squashing = {
        id(list(module)[-1])
        for name, module in policy.named_modules()
        if name.rpartition(".")[2] == SQUASHING and isinstance(module, nn.Sequential)
    }
    with ExitStack() as stack:
        for module in policy.modules():
            if isinstance(module, ACTIVATIONS) and id(module) not in squashing:
                stack.callback(module.register_forward_hook(note).remove)
        yield layers


def _pass_through(policy: BasePolicy, observations: Any, actions: torch.Tensor) -> None:
    """Let the networks of a policy read observations; target networks are not called.

    The methods of the classes are called: shortcuts take the place of methods of the object.
    """
    policy.set_training_mode(False)
    actor: Any = getattr(policy, "actor", None)
    critic: Any = getattr(policy, "critic", None)
    if actor is not None:
        if hasattr(actor, "get_action_dist_params"):
            type(actor).get_action_dist_params(actor, observations)
        else:
            actor(observations)
        if critic is not None:
            critic(observations, actions)
    elif (
        isinstance(policy, ActorCriticPolicy)
        and type(policy).predict_values is ActorCriticPolicy.predict_values
    ):
        type(policy).get_distribution(policy, observations)
        type(policy).predict_values(policy, observations)
    else:
        policy.predict(_as_arrays(observations), deterministic=True)


def _as_arrays(observations: Any) -> Any:
    if isinstance(observations, dict):
        return {key: value.cpu().numpy() for key, value in observations.items()}
    return observations.cpu().numpy()


def _sample(
    model: BaseAlgorithm, generator: np.random.Generator, samples: int
) -> tuple[Any, torch.Tensor] | None:
    """Observations and actions of the buffer, as the networks read them; None if it is empty."""
    replay, rollout = getattr(model, "replay_buffer", None), getattr(model, "rollout_buffer", None)
    buffer = rollout if replay is None else replay
    if buffer is None or not (rows := buffer.size()):
        return None
    places = (
        generator.integers(rows, size=samples),
        generator.integers(buffer.n_envs, size=samples),
    )
    chosen: tuple[Any, ...] = places
    if getattr(buffer, "generator_ready", False):
        # An update has joined the steps of all environments into one axis, one environment after the other.
        chosen = (places[0] + rows * places[1],)
    stored: Any = buffer.observations
    if isinstance(stored, dict):
        observations: Any = {key: value[chosen] for key, value in stored.items()}
    else:
        observations = stored[chosen]
    if replay is not None:
        # A replay buffer holds observations from before the normalisation.
        observations = buffer._normalize_obs(observations, model.get_vec_normalize_env())  # noqa: SLF001
    tensors, _ = model.policy.obs_to_tensor(observations)
    actions = torch.as_tensor(np.asarray(buffer.actions[chosen]), device=model.device)
    return tensors, actions.float()
