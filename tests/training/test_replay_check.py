"""The probe finds environments whose state is more than what can be put back."""

import random
from typing import Any

import numpy as np
import pytest
import torch
from in_full import long
from repeated_vectors import task

from rlexp.environments.wrappers import Wrapper
from rlexp.training import roundtrip
from rlexp.training.episode_log import digest
from rlexp.training.roundtrip import check_round_trip


def checked(name: str, *wrappers: Wrapper, seed: int = 3, **settings: Any) -> str | None:
    """What the probe says of a task."""
    return check_round_trip(task(name, *wrappers, **settings), 0.99, seed)


KNOWN = [
    *("CartPole-v1", "Acrobot-v1", "Pendulum-v1", "MountainCarContinuous-v0"),
    *("LunarLander-v3", "Hopper-v5", "FrozenLake-v1", "Taxi-v4", "MountainCar-v0"),
    *("HalfCheetah-v5", "Ant-v5", "Humanoid-v5", pytest.param("CarRacing-v3", marks=long)),
]


@pytest.mark.parametrize("name", KNOWN)
def test_known_environment_passes(name: str) -> None:
    """Nothing of these is hidden; an episode that would last longer is cut after 100 steps."""
    assert checked(name, limit=100) is None


@pytest.mark.parametrize("name", ["Walk", "Parts", "ChangesActions", "OlderGenerator", "Masked"])
def test_own_environment_passes(name: str) -> None:
    """One that draws from nothing but its generator, whatever else is odd about it."""
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
    """What is hidden shows in the repeated episode, or in what comes after it."""
    assert reason == checked(name)


def test_counters_are_put_back() -> None:
    """What counts over episodes is a plain number, which can be set to what it was."""
    assert checked("Curriculum") is None


def test_hidden_state_of_a_wrapper_is_found() -> None:
    """It shows in the first observation that is compared."""
    reason = f"the observation after step 3 differs {WHEN_REPLAYED}"

    assert reason == checked("Walk", Wrapper(name="hidden_state:Remembers"))


def test_hidden_state_in_shaped_rewards_is_found() -> None:
    """A wrapper that normalises rewards leaves observations and own rewards alone."""
    told = checked("Pendulum-v1", Wrapper(name="NormalizeReward"))

    assert told == "return_rms of NormalizeReward differs after the replay"


@pytest.mark.parametrize("seed", range(3))
def test_walker_is_found(seed: int) -> None:
    """BipedalWalker keeps its world, with the order of its contacts, over the episodes."""
    assert checked("BipedalWalker-v3", seed=seed) is not None


def test_process_of_its_own_lets_an_environment_draw_from_anything() -> None:
    """Its generators are put back with it."""
    assert checked("GlobalWalk", kind="subprocess", count=4) is None


def test_endless_episode_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reset in the middle shows what is hidden behind it."""
    monkeypatch.setattr(roundtrip, "EPISODE_STEPS", 5)

    assert checked("Walk") is None
    assert checked("OwnGenerator") is not None


def test_shared_generators_are_left_alone() -> None:
    """A training may be probed at any time."""
    before = _shared()

    checked("GlobalWalk")
    checked("CartPole-v1")

    assert before == _shared()


def _shared() -> str:
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    return digest([list(python[1]), list(numpy), torch.get_rng_state().numpy()])


def test_every_step_is_told() -> None:
    """Who waits hears of it, and may end it."""

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
