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
from rlexp.training.environments.episode_log import digest
from rlexp.training.replay_check import check_round_trip


def refusal_reason(name: str, *wrappers: Wrapper, seed: int = 3, **settings: Any) -> str | None:
    """The reason why the replay check refuses a task, or None."""
    return check_round_trip(task(name, *wrappers, **settings), 0.99, seed)


COMMON = [
    *("CartPole-v1", "Acrobot-v1", "Pendulum-v1", "MountainCarContinuous-v0"),
    *("LunarLander-v3", "Hopper-v5", "FrozenLake-v1", "Taxi-v4", "MountainCar-v0"),
    *("HalfCheetah-v5", "Ant-v5", "Humanoid-v5", pytest.param("CarRacing-v3", marks=long)),
]


@pytest.mark.parametrize("name", COMMON)
def test_common_environment_passes(name: str) -> None:
    """Common environments pass the check; their episodes end after 100 steps."""
    assert refusal_reason(name, limit=100) is None


@pytest.mark.parametrize("name", ["Walk", "Parts", "ChangesActions", "OlderGenerator", "Masked"])
def test_environment_without_hidden_state_passes(name: str) -> None:
    """An environment that draws only from its generator passes the check."""
    assert refusal_reason(name, normalise_observations=True, frame_stack=2) is None


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
    "Breaks": "the environment fails during the replay check: step 21: RuntimeError: the motor is on fire",
    "Words": "Text actions cannot be replayed",
}


@pytest.mark.parametrize(("name", "reason"), HIDDEN.items(), ids=HIDDEN)
def test_hidden_state_is_found(name: str, reason: str) -> None:
    """The check names the hidden state, or the step at which it shows."""
    assert reason == refusal_reason(name)


def test_counters_are_restored() -> None:
    """An environment with a counter of episodes passes, because plain numbers are restored."""
    assert refusal_reason("Curriculum") is None


def test_hidden_state_of_a_wrapper_is_found() -> None:
    """The hidden state of a wrapper shows in the first observation that is compared."""
    reason = f"the observation after step 3 differs {WHEN_REPLAYED}"

    assert reason == refusal_reason("Walk", Wrapper(name="hidden_state:Remembers"))


def test_hidden_state_in_shaped_rewards_is_found() -> None:
    """The check finds the statistics of normalised rewards, which observations do not show."""
    reason = refusal_reason("Pendulum-v1", Wrapper(name="NormalizeReward"))

    assert reason == "return_rms of NormalizeReward differs after the replay"


@pytest.mark.parametrize("seed", range(3))
def test_walker_is_found(seed: int) -> None:
    """The check refuses BipedalWalker, whose world keeps the order of contacts over episodes."""
    assert refusal_reason("BipedalWalker-v3", seed=seed) is not None


def test_environment_in_a_separate_process_may_use_global_generators() -> None:
    """Environments in separate processes pass, because their global generators are restored."""
    assert refusal_reason("GlobalWalk", kind="subprocess", count=4) is None


def test_endless_episode_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check cuts a long episode, and finds hidden state all the same."""
    monkeypatch.setattr(replay_check, "EPISODE_STEPS", 5)

    assert refusal_reason("Walk") is None
    assert refusal_reason("OwnGenerator") is not None


def test_shared_generators_are_left_alone() -> None:
    """The check leaves the global generators unchanged."""
    digest_before = _digest_of_global_generators()

    refusal_reason("GlobalWalk")
    refusal_reason("CartPole-v1")

    assert digest_before == _digest_of_global_generators()


def _digest_of_global_generators() -> str:
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    return digest([list(python[1]), list(numpy), torch.get_rng_state().numpy()])


def test_every_step_is_a_heartbeat() -> None:
    """The check calls the heartbeat at every step, and ends if it raises."""

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
