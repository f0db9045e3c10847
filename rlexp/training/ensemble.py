"""An ensemble of policies that acts by the majority or by the mean of its members' actions."""

import inspect
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import unwrap_vec_normalize

from rlexp.errors import ConfigError

States = tuple[Any, ...]
"""The hidden state of each member, None for a member without one."""


class PolicyEnsemble:
    """Policies of several trainings that act together, each by its deterministic action.

    Lakshminarayanan, Pritzel & Blundell 2017, Simple and scalable predictive uncertainty estimation
    using deep ensembles: members differ by their seed alone. Kenton et al. 2019, Generalizing from a
    few environments in safety-critical reinforcement learning, act by ensembles to avoid
    catastrophes.
    """

    env = None
    """No vector, because no statistics of observations are shared with evaluations."""

    def __init__(self, members: Sequence[BaseAlgorithm]) -> None:
        """Join policies.

        Args:
            members: Learners with the same spaces, at least two.

        Raises:
            ConfigError: Actions can be neither counted nor averaged, or observations are
                normalised by statistics that differ between members.
        """
        self._members = tuple(members)
        self.action_space = members[0].action_space
        self.device = members[0].device
        check_ensemble(members)

    def predict(
        self,
        observation: Any,
        state: States | None = None,
        episode_start: NDArray[Any] | None = None,
        deterministic: bool = True,
    ) -> tuple[NDArray[Any], States]:
        """Return the actions (batch × shape of an action), and the state of each member.

        Discrete actions are those of most members; of equally many, that of the first member among
        them. Continuous actions are means over the members.
        """
        del deterministic
        states = state or (None,) * len(self._members)
        predicted = [
            member.predict(observation, each, episode_start, deterministic=True)
            for member, each in zip(self._members, states, strict=True)
        ]
        actions = np.stack([np.asarray(action) for action, _ in predicted])
        return self._joined(actions), tuple(each for _, each in predicted)

    def as_learner(self) -> BaseAlgorithm:
        """The ensemble as what evaluations take: they read what this class has, and no more."""
        return cast(BaseAlgorithm, self)

    def _joined(self, actions: NDArray[Any]) -> NDArray[Any]:
        """Join actions of the shape members × batch × shape of an action."""
        if isinstance(self.action_space, spaces.Box):
            mean = actions.mean(axis=0, dtype=np.float64)
            return np.asarray(mean, dtype=self.action_space.dtype)
        # Votes of each member's action: the members that propose the same (members × batch).
        votes = (actions[:, np.newaxis] == actions[np.newaxis]).sum(axis=1)
        first = np.argmax(votes, axis=0)
        return np.asarray(np.take_along_axis(actions, first[np.newaxis], axis=0)[0])


def check_ensemble(members: Sequence[BaseAlgorithm]) -> None:
    """Refuse members whose actions cannot be joined, or that see other observations.

    Raises:
        ConfigError: Says what an ensemble needs.
    """
    space = members[0].action_space
    if not isinstance(space, spaces.Discrete | spaces.Box):
        raise ConfigError(
            f"an ensemble needs actions that are counted (Discrete) or averaged (Box), not {space}: "
            "evaluate its runs one by one"
        )
    if any(each.action_space != space for each in members):
        raise ConfigError(
            "the runs of an ensemble have different actions: evaluate them one by one"
        )
    if "action_masks" in inspect.signature(members[0].predict).parameters:
        raise ConfigError("an ensemble takes no masks of actions: evaluate its runs one by one")
    for member in members:
        normalise = None if member.env is None else unwrap_vec_normalize(member.env)
        if normalise is not None and normalise.norm_obs:
            raise ConfigError(
                "an ensemble needs runs without normalised observations, because each run has "
                "statistics of its own: evaluate its runs one by one"
            )
