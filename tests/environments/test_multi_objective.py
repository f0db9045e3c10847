"""Tasks with vector rewards: weights, returns of objectives, and errors."""

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest

from rlexp.config.validate import build
from rlexp.environments import MEASURES
from rlexp.errors import ConfigError, EnvironmentFault
from rlexp.training.vectorise import make_watched

ID = "TwoGoals-v0"
VECTOR = {
    "count": 1,
    "kind": "dummy",
    "frame_stack": 1,
    "normalise_observations": False,
    "normalise_rewards": False,
    "clip_observations": 10.0,
    "clip_rewards": 10.0,
}


class TwoGoals(gymnasium.Env[Any, Any]):
    """Gives the action as its first reward, and −1 as its second reward."""

    observation_space = gymnasium.spaces.Discrete(2)
    action_space = gymnasium.spaces.Discrete(3)
    reward_space = gymnasium.spaces.Box(-1.0, 2.0, (2,))

    def reset(self, **_: Any) -> tuple[int, dict[str, Any]]:
        return 0, {}

    def step(self, action: int) -> Any:
        return 0, np.array([action, -1.0], np.float32), False, False, {}


@pytest.fixture(autouse=True)
def _registered_environment() -> Iterator[None]:
    gymnasium.register(ID, entry_point=lambda **_: TwoGoals(), max_episode_steps=3)
    yield
    gymnasium.registry.pop(ID)


def task(**changes: Any) -> Any:
    """The multi-objective task with these changes."""
    settings = {
        "_target_": "rlexp.environments.multi_objective.MultiObjectiveTask",
        "id": ID,
        "name": None,
        "imports": [],
        "arguments": {},
        "max_episode_steps": None,
        "wrappers": [],
        "vector": VECTOR,
        "reference": {},
        "weights": [1.0, 0.5],
        "objectives": ["gain", "cost"],
    }
    return build({**settings, **changes}, "environment")


def episode(env: gymnasium.Env[Any, Any]) -> tuple[list[float], dict[str, Any]]:
    """The rewards of an episode of actions 0, 1, 2, and its last info."""
    env.reset()
    steps = [env.step(action) for action in range(3)]
    assert [False, False] == [MEASURES in info for *_, info in steps[:-1]]
    return [float(reward) for _, reward, *_ in steps], steps[-1][-1]


def test_the_weighted_sum_is_the_tasks_own_reward() -> None:
    """The score is the weighted sum, also if a wrapper shapes the rewards."""
    shaped_task = task(wrappers=[{"name": "ClipReward", "arguments": {"max_reward": 0.0}}])
    rewards, info = episode(make_watched(shaped_task, 0))
    assert [-0.5, 0.0, 0.0] == rewards
    assert 3 - 0.5 * 3 == info["episode"]["r"]


def test_the_vector_return_is_measured() -> None:
    """The return of each objective is a measure, by name or number."""
    env = task().make()
    expected = {"return/gain": 3.0, "return/cost": -3.0}
    assert [expected, expected] == [episode(env)[1][MEASURES] for _ in range(2)]
    numbered_env = task(objectives=None).make()
    assert {"return/0": 3.0, "return/1": -3.0} == episode(numbered_env)[1][MEASURES]


def test_other_weights_are_another_task() -> None:
    """Other weights give another name of the task, unless the name is set."""
    tasks = [task().task, task(weights=[1.0, 2.0]).task, task(name="mine").task]
    assert [f"{ID}(1,0.5)", f"{ID}(1,2)", "mine"] == tasks


def test_weights_of_the_wrong_number_are_refused() -> None:
    """The error for a wrong number of weights names the number of objectives."""
    for weights in ([1.0], [1.0, 1.0, 1.0]):
        with pytest.raises(
            ConfigError, match=f"{len(weights)} weights for the 2 objectives of {ID}"
        ):
            task(weights=weights, objectives=None).make()


@pytest.mark.parametrize("weights", [[], [0.0, 0.0], [float("nan"), 1.0], [float("inf"), 1.0]])
def test_invalid_weights_are_refused(weights: list[float]) -> None:
    """Empty, all-zero and infinite weights are refused."""
    with pytest.raises(ConfigError, match=r"environment\.weights"):
        task(weights=weights)


@pytest.mark.parametrize("objectives", [["gain"], ["gain", "gain"], ["a", "b", "c"]])
def test_names_that_do_not_fit_are_refused(objectives: list[str]) -> None:
    """Names of objectives must be distinct, one for each weight."""
    with pytest.raises(ConfigError, match=r"must be 2 different names"):
        task(objectives=objectives)


def test_a_single_reward_is_refused() -> None:
    """An environment with a single reward is refused."""
    with pytest.raises(ConfigError, match="one reward, not a vector: use environment=gymnasium"):
        task(id="CartPole-v1").make()


def test_a_vector_that_is_not_as_declared_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reward vector of another length than declared is a fault."""
    wrong_result: Any = (0, np.zeros(3, np.float32), False, False, {})
    monkeypatch.setattr(TwoGoals, "step", lambda *_: wrong_result)
    env = task().make()
    env.reset()
    with pytest.raises(EnvironmentFault, match="a vector of 3, declared is 2"):
        env.step(0)
