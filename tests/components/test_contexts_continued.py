"""A killed training in contexts or on levels continues exactly."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rlexp.config.compose import compose
from rlexp.config.validate import validate
from rlexp.training.episode_log import digest
from rlexp.training.replayable_env import ReplayableEnvironment
from rlexp.training.vectorise import make_watched


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MuJoCo writes its warnings into the current folder."""
    monkeypatch.chdir(tmp_path)


def played(environment: ReplayableEnvironment, actions: Sequence[Any]) -> list[Any]:
    """Digests of results and of measures at the end of each episode."""
    told = []
    for action in actions:
        observation, reward, terminated, truncated, info = environment.step(action)
        told.append((digest(observation), float(reward), info.get("measures")))
        if terminated or truncated:
            told.append((digest(environment.reset()[0]), 0.0, None))
    return told


@pytest.mark.parametrize("before", [5, 120])
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
def test_goes_on_in_the_same_contexts(words: list[str], before: int) -> None:
    """The replayed episode has its context, and later contexts are the same."""
    (composed,) = compose(words, Path("/nowhere"))
    task = validate(composed.plain)[1].environment
    first, second = (make_watched(task, seed, kind=ReplayableEnvironment) for seed in (11, 12))
    assert isinstance(first, ReplayableEnvironment)
    assert isinstance(second, ReplayableEnvironment)
    first.action_space.seed(1)
    actions = [first.action_space.sample() for _ in range(before + 150)]
    first.reset()
    played(first, actions[:before])
    env_state = first.env_state()

    assert second.resume(env_state, 30.0) is None

    assert played(first, actions[before:]) == played(second, actions[before:])
