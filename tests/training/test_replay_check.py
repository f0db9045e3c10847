"""The replay check finds environments whose state cannot be restored."""

import random
from typing import Any

import numpy as np
import pytest
import torch
from in_full import long
from repeated_vectors import task

from rlexp.environments.wrappers import Wrapper
from rlexp.training import replay_check
from rlexp.training.episode_log import digest
from rlexp.training.replay_check import check_round_trip


def checked(name: str, *wrappers: Wrapper, seed: int = 3, **settings: Any) -> str | None:
    """The result of the replay check for a task."""
    return check_round_trip(task(name, *wrappers, **settings), 0.99, seed)


KNOWN = [
    *("CartPole-v1", "Acrobot-v1", "Pendulum-v1", "MountainCarContinuous-v0"),
    *("LunarLander-v3", "Hopper-v5", "FrozenLake-v1", "Taxi-v4", "MountainCar-v0"),
    *("HalfCheetah-v5", "Ant-v5", "Humanoid-v5", pytest.param("CarRacing-v3", marks=long)),
]


@pytest.mark.parametrize("name", KNOWN)
def test_common_environment_passes(name: str) -> None:
    """Common environments pass; longer episodes are ended after 100 steps."""
    assert checked(name, limit=100) is None


@pytest.mark.parametrize("name", ["Walk", "Parts", "ChangesActions", "OlderGenerator", "Masked"])
def test_environment_without_hidden_state_passes(name: str) -> None:
    """An environment that draws only from its generator passes."""
    assert checked(name, normalise_observations=True, frame_stack=2) is None


WHEN_REPLAYED = "when its episode is replayed"
HIDDEN = {
    "OwnGenerator": f"the reward of step 1 differs {WHEN_REPLAYED}",
    "CountsEpisodes": f"the reward of step 1 differs {WHEN_REPLAYED}",
    "CarriesOver": f"the reward of step 1 differs {WHEN_REPLAYED}",
    "Slips": f"the reward of step 1 differs {WHEN_REPLAYED}",
    "ReadsTheClock": f"the observation after step 3 differs {WHEN_REPLAYED}",
    "GlobalWalk": f"the reward of step 1 differs {WHEN_REPLAYED}",
    "LongerEpisodes": "its episode ends at step 9 when it is replayed",
    "RareSlips": "own of RareSlips differs after the replay",
    "LevelInAnObject": "level of LevelInAnObject differs after the replay",
    "CountsInItsModule": "its ends of episodes differ at step 6 after its state was restored",
    "Breaks": "the environment fails during the replay check: step 20: RuntimeError: the motor is on fire",
    "Words": "Text actions cannot be replayed",
}


@pytest.mark.parametrize(("name", "reason"), HIDDEN.items(), ids=HIDDEN)
def test_hidden_state_is_found(name: str, reason: str) -> None:
    """Hidden state shows in the replayed episode or in the steps after it."""
    assert reason == checked(name)


def test_counters_are_restored() -> None:
    """Counters over episodes are plain numbers, which are restored."""
    assert checked("Curriculum") is None


def test_hidden_state_of_a_wrapper_is_found() -> None:
    """The hidden state of a wrapper shows in the first compared observation."""
    reason = f"the observation after step 3 differs {WHEN_REPLAYED}"

    assert reason == checked("Walk", Wrapper(name="hidden_state:Remembers"))


def test_hidden_state_in_shaped_rewards_is_found() -> None:
    """Normalised rewards are found, although observations and task rewards are equal."""
    told = checked("Pendulum-v1", Wrapper(name="NormalizeReward"))

    assert told == "return_rms of NormalizeReward differs after the replay"


@pytest.mark.parametrize("seed", range(3))
def test_walker_is_found(seed: int) -> None:
    """BipedalWalker keeps the order of contacts of its world over episodes."""
    assert checked("BipedalWalker-v3", seed=seed) is not None


def test_environment_in_a_separate_process_may_use_global_generators() -> None:
    """In a separate process, the global generators are restored too."""
    assert checked("GlobalWalk", kind="subprocess", count=4) is None


def test_endless_episode_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reset within an episode shows hidden state."""
    monkeypatch.setattr(replay_check, "EPISODE_STEPS", 5)

    assert checked("Walk") is None
    assert checked("OwnGenerator") is not None


def test_shared_generators_are_left_alone() -> None:
    """The check leaves the global generators unchanged."""
    before = _shared()

    checked("GlobalWalk")
    checked("CartPole-v1")

    assert before == _shared()


def _shared() -> str:
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    return digest([list(python[1]), list(numpy), torch.get_rng_state().numpy()])


def test_every_step_is_a_heartbeat() -> None:
    """The heartbeat is called at every step, and may end the check."""

    class EnoughError(Exception):
        pass

    steps: list[int] = []

    def beat() -> None:
        steps.append(1)
        if len(steps) == 40:
            raise EnoughError

    with pytest.raises(EnoughError):
        check_round_trip(task("Walk"), 0.99, 3, beat=beat)
    assert len(steps) == 40
