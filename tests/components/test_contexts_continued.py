"""A killed training in contexts or on levels continues exactly."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rlexp.config.compose import compose
from rlexp.config.validate import validate
from rlexp.training.environments.episode_log import digest
from rlexp.training.environments.replayable_env import ReplayableEnvironment
from rlexp.training.vectorise import make_watched


@pytest.fixture(autouse=True)
def _in_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in a temporary folder, because MuJoCo writes its warnings into the current folder."""
    monkeypatch.chdir(tmp_path)


def results_of(environment: ReplayableEnvironment, actions: Sequence[Any]) -> list[Any]:
    """Digests of results, and measures at the end of each episode."""
    results = []
    for action in actions:
        observation, reward, terminated, truncated, info = environment.step(action)
        results.append((digest(observation), float(reward), info.get("measures")))
        if terminated or truncated:
            results.append((digest(environment.reset()[0]), 0.0, None))
    return results


@pytest.mark.parametrize("steps_before", [5, 120])
@pytest.mark.parametrize(
    "words",
    [
        ["environment=cartpole_contexts"],
        ["environment=pendulum_contexts", "environment.components.context.visible=true"],
        ["environment=lunar_lander_contexts"],
        ["environment=hopper_contexts"],
        ["environment=taxi", "component=levels", "environment.max_episode_steps=50"],
    ],
    ids=lambda words: words[0],
)
def test_training_goes_on_in_the_same_contexts(words: list[str], steps_before: int) -> None:
    """The replayed episode has its context, and later contexts are the same."""
    (composed,) = compose(words, Path("/nowhere"))
    task = validate(composed.plain)[1].environment
    first, second = (make_watched(task, seed, kind=ReplayableEnvironment) for seed in (11, 12))
    assert isinstance(first, ReplayableEnvironment)
    assert isinstance(second, ReplayableEnvironment)
    first.action_space.seed(1)
    actions = [first.action_space.sample() for _ in range(steps_before + 150)]
    first.reset()
    results_of(first, actions[:steps_before])
    env_state = first.env_state()

    assert second.resume(env_state, 30.0) is None

    assert results_of(first, actions[steps_before:]) == results_of(second, actions[steps_before:])
