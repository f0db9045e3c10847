"""An ensemble acts by the majority or by the mean of the actions of its members."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from rlexp.errors import ConfigError
from rlexp.training.ensemble import PolicyEnsemble


class Member:
    """Acts by a fixed list of actions (batch), and counts its calls in its hidden state."""

    device = "cpu"
    env = None

    def __init__(self, space: spaces.Space[Any], actions: list[Any]) -> None:
        self.action_space, self._actions = space, np.array(actions)

    def predict(
        self, observation: Any, state: Any, episode_start: Any, deterministic: bool
    ) -> tuple[Any, Any]:
        """Return the actions, and the state plus 1."""
        del observation, episode_start
        assert deterministic
        return self._actions, (state or 0) + 1


def acting(space: spaces.Space[Any], *actions: list[Any]) -> Any:
    """The actions of an ensemble, one list of actions for each member."""
    ensemble = PolicyEnsemble([Member(space, each) for each in actions])  # type: ignore[misc]
    joined, states = ensemble.predict(np.zeros((len(actions[0]), 1)))
    assert (1,) * len(actions) == states
    assert (2,) * len(actions) == ensemble.predict(None, states)[1]
    return joined


def test_most_members_decide() -> None:
    """The action of two of three is taken, whatever its number is, in each environment."""
    joined = acting(spaces.Discrete(4), [0, 3, 2], [2, 3, 0], [2, 1, 0])
    assert [2, 3, 0] == joined.tolist()


def test_of_equally_many_the_first_member_decides() -> None:
    """Without a majority the action of the first member among the most frequent is taken."""
    assert [3] == acting(spaces.Discrete(4), [3], [1], [2]).tolist()
    assert [2] == acting(spaces.Discrete(4), [0], [2], [1], [2], [1]).tolist()


def test_continuous_actions_are_averaged() -> None:
    """The mean has the shape and the type of an action."""
    space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    joined = acting(space, [[1.0, 0.0], [0.5, 0.5]], [[0.0, -1.0], [0.5, -0.5]])
    assert [[0.5, -0.5], [0.5, 0.0]] == joined.tolist()
    assert np.float32 == joined.dtype


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (spaces.MultiDiscrete([2, 2]), "needs actions that are counted"),
        (spaces.MultiBinary(2), "evaluate its runs one by one"),
    ],
)
def test_other_actions_are_refused(space: spaces.Space[Any], message: str) -> None:
    """A vote over vectors of choices could be an action that no member takes."""
    with pytest.raises(ConfigError, match=message):
        acting(space, [[0, 0]], [[1, 1]])


def test_normalised_observations_are_refused() -> None:
    """Members whose statistics differ would see one another's observations."""
    import gymnasium
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    member = Member(spaces.Discrete(2), [0])
    normalised = VecNormalize(DummyVecEnv([lambda: gymnasium.make("CartPole-v1")]))
    other: Any = SimpleNamespace(
        action_space=member.action_space, device="cpu", env=normalised, predict=member.predict
    )
    with pytest.raises(ConfigError, match="without normalised observations"):
        PolicyEnsemble([member, other])  # type: ignore[list-item]
