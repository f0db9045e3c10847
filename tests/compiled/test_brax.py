"""Tasks of Brax train compiled algorithms, and the same functions score them on the host."""

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np
import pytest
from trainings import run_training

brax = pytest.importorskip("brax")

from rlexp.environments.brax_adapter import BraxTask  # noqa: E402
from rlexp.records.events import Ending, Evaluated, Failure  # noqa: E402

# What it says concerns authors of physics engines.
pytestmark = pytest.mark.filterwarnings("ignore:Brax System:UserWarning")

INSTALLED = version("brax")
SPRING = {"backend": "spring"}
TASKS: dict[str, dict[str, Any]] = {
    "inverted_pendulum": {"settings": SPRING},
    "reacher": {"settings": {"backend": "positional"}},
    "fast": {},
}
TRAINING = (
    *("algorithm=compiled_ppo", "environment=gymnasium", "environment.vector.count=4"),
    *("algorithm.n_steps=128", "algorithm.batch_size=64", "algorithm.n_epochs=8"),
    *("algorithm.learning_rate=0.001", "budget.evaluation_every=null", "budget.final_episodes=5"),
)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """The tasks of Brax in Gymnasium, as a module of a user registers them."""
    entry = "rlexp.environments.brax_adapter:BraxTask"
    for name, words in TASKS.items():
        gymnasium.register(
            f"brax-{name}-v0", entry, max_episode_steps=200, kwargs={"name": name, **words}
        )
    yield
    for name in TASKS:
        del gymnasium.registry[f"brax-{name}-v0"]


def twin_of(task: str, **changed: Any) -> dict[str, Any]:
    """The configuration of a twin."""
    target = "rlexp.environments.brax_adapter.BraxTwin"
    return {
        "_target_": target,
        "name": task,
        "version": INSTALLED,
        **TASKS[task],
        **changed,
    }


def test_the_host_takes_the_steps_of_brax() -> None:
    """With the same actions, the task on the host and Brax itself are equal step by step."""
    task = gymnasium.make("brax-inverted_pendulum-v0")
    task.reset(seed=3)
    assert isinstance(task.unwrapped, BraxTask)
    environment = brax.envs.get_environment("inverted_pendulum", **SPRING)
    state, step = task.unwrapped._state, jax.jit(environment.step)
    task.action_space.seed(0)
    ended = False
    while not ended:
        action = task.action_space.sample()
        state = step(state, action)
        observation, reward, ended, truncated, _ = task.step(action)
        assert np.allclose(state.obs, observation, atol=1e-6)
        assert float(state.reward) == pytest.approx(reward, abs=1e-5)
        assert bool(state.done) is ended
        assert not truncated


def test_episodes_follow_from_the_seed() -> None:
    """The same seed begins the same episode, and another seed begins another one."""
    task = gymnasium.make("brax-reacher-v0")
    first, again, other = (task.reset(seed=seed)[0] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


# On a busy machine, compiling takes minutes.
@pytest.mark.timeout(900)
def test_a_task_of_brax_is_learned_and_scored(tmp_path: Path) -> None:
    """On the inverted pendulum, 30,000 steps multiply the time for which the pole stands."""
    words = ("environment.id=brax-inverted_pendulum-v0", "budget.steps=30000")
    changes = {"algorithm": {"twin": twin_of("inverted_pendulum")}}
    listener, ended = run_training(tmp_path, *TRAINING, *words, changes=changes)
    assert Ending.COMPLETED is ended.ending, ended.reason
    final = [event for event in listener.events if isinstance(event, Evaluated) and event.final]
    # Under random actions it falls within 10 steps.
    assert np.mean(final[0].returns) > 50


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"version": "0.0.1"}, f"version=0.0.1, but brax {INSTALLED} is installed"),
        ({"name": "pendulum"}, "brax has no task 'pendulum'"),
        ({"settings": {"backend": "none"}}, "inverted_pendulum with {'backend': 'none'}"),
    ],
)
def test_a_wrong_setting_is_named(changed: dict[str, Any], words: str, tmp_path: Path) -> None:
    """Another version, an unknown task and an unknown setting fail the run as a user's mistake."""
    task = ("environment.id=brax-fast-v0", "budget.steps=256")
    changes = {"algorithm": {"twin": twin_of("inverted_pendulum", **changed)}}
    _, ended = run_training(tmp_path, *TRAINING, *task, changes=changes)
    assert Failure.USER is ended.failure
    assert words in str(ended.reason)


def test_a_task_without_a_time_limit_is_refused() -> None:
    """An episode that never ends could not be scored: the first reset names what is missing."""
    with pytest.raises(ValueError, match="register it with max_episode_steps"):
        BraxTask("fast").reset(seed=0)
