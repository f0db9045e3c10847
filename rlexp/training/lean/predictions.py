"""Actions of a policy for a batch of observations, without copies and changes of mode."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3 import DQN
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.dqn.policies import DQNPolicy
from stable_baselines3.sac.policies import SACPolicy
from stable_baselines3.td3.policies import TD3Policy
from torch import Tensor

from rlexp.training.lean.actor_critic import actor_critic_of
from rlexp.training.lean.layers import as_input, chain_of, reads_plain_vectors
from rlexp.training.lean.squashed_actor import squashed_actor_of

Acting = Callable[[Tensor, bool], Tensor]
"""Returns actions for observations (batch × shape), sampled or deterministic, as `_predict` does."""
Greedy = Callable[[NDArray[np.float32]], NDArray[Any]]
"""Returns deterministic actions (batch × shape of an action) for observations (batch × shape)."""
Predicted = tuple[NDArray[Any], tuple[NDArray[Any], ...] | None]


@dataclass(frozen=True, slots=True)
class Prediction:
    """`BasePolicy.predict` for batches of flat observations."""

    policy: BasePolicy
    act: Acting
    shape: tuple[int, ...]
    """Shape of one observation."""

    def predict(
        self,
        observation: NDArray[Any] | dict[str, NDArray[Any]],
        state: tuple[NDArray[Any], ...] | None = None,
        episode_start: NDArray[Any] | None = None,
        deterministic: bool = False,
    ) -> Predicted:
        """Return actions (batch × shape of an action), as `BasePolicy.predict` does."""
        policy = self.policy
        if type(observation) is not np.ndarray or observation.shape[1:] != self.shape:
            return type(policy).predict(policy, observation, state, episode_start, deterministic)
        policy.set_training_mode(False)
        with torch.inference_mode():
            # A copy, because the caller may reuse its array, and torch shares memory with arrays.
            chosen = self.act(torch.as_tensor(np.array(observation)), deterministic)
        return self._in_space(chosen), state

    @contextmanager
    def greedily(self) -> Iterator[Greedy]:
        """Yield a function with the actions of `predict(…, deterministic=True)` for many batches in turn.

        What `predict` does at each call is done once. The function takes observations of single precision
        (batch × shape), and shares the memory of this array until it returns.
        """
        self.policy.set_training_mode(False)
        with torch.inference_mode():
            yield lambda observations: self._in_space(
                self.act(torch.from_numpy(observations), True)
            )

    def _in_space(self, chosen: Tensor) -> NDArray[Any]:
        policy, space = self.policy, self.policy.action_space
        actions: NDArray[Any] = chosen.numpy().reshape((-1, *space.shape))  # type: ignore[misc, arg-type]
        if isinstance(space, spaces.Box):
            if policy.squash_output:
                actions = policy.unscale_action(actions)
            else:
                actions = np.clip(actions, space.low, space.high)
        return actions


def prediction_in_use(model: BaseAlgorithm) -> Prediction | None:
    """Return the lean prediction that a learner predicts with; None where it does something else."""
    # The library's `predict` calls the policy; with deterministic actions, that of DQN does as well.
    library = (BaseAlgorithm.predict, DQN.predict)
    if "predict" in vars(model) or type(model).predict not in library:
        return None
    prediction = getattr(model.policy.__dict__.get("predict"), "__self__", None)
    return prediction if isinstance(prediction, Prediction) else None


def prediction_of(policy: BasePolicy) -> Prediction | None:
    """Return the lean prediction of a policy; None where its class or a part is unknown."""
    space = policy.observation_space
    if not isinstance(space, spaces.Box) or not reads_plain_vectors(policy):
        return None
    # With no dimension, an observation and a batch of them could not be told apart.
    act = _acting(policy) if space.shape else None
    return None if act is None else Prediction(policy, act, space.shape)


def _acting(policy: BasePolicy) -> Acting | None:
    if (networks := actor_critic_of(policy)) is not None:
        return networks.act
    # By exact type: a subclass may act in another way.
    if type(policy) is DQNPolicy:
        return _greedy(policy)
    if type(policy) is TD3Policy:
        return _deterministic(policy)
    if type(policy) is SACPolicy and (actor := squashed_actor_of(policy.actor)) is not None:
        return actor.forward
    return None


def _greedy(policy: DQNPolicy) -> Acting | None:
    values = chain_of(policy.q_net.q_net)
    if values is None or not reads_plain_vectors(policy.q_net):
        return None

    def act(observations: Tensor, deterministic: bool) -> Tensor:
        del deterministic
        return values(as_input(observations)).argmax(dim=1).reshape(-1)

    return act


def _deterministic(policy: TD3Policy) -> Acting | None:
    actor = chain_of(policy.actor.mu)
    if actor is None or not reads_plain_vectors(policy.actor):
        return None

    def act(observations: Tensor, deterministic: bool) -> Tensor:
        del deterministic
        return actor(as_input(observations))

    return act
