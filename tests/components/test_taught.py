"""An environment whose contexts a teacher chooses."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from taught_environments import (
    TEACHERS,
    ContextComponent,
    Contexts,
    RecordingTeacher,
    Slope,
    teacher,
)

from rlexp.components.teachers import alp_gmm
from rlexp.environments import Reference, Stage, Vector
from rlexp.environments.composed import ComposedTask, splits
from rlexp.environments.gymnasium_task import GymnasiumTask
from rlexp.errors import ConfigError, EnvironmentFault
from rlexp.training.replay_check import check_round_trip

PLAIN = {
    "frame_stack": 1,
    "normalise_observations": False,
    "normalise_rewards": False,
    "clip_observations": 10.0,
    "clip_rewards": 10.0,
}

SOON = {"iwocs": {"train_episodes": 1, "candidates": 40}}
"""Settings with which a teacher that begins with one context soon plays others."""


def task(teacher_component: Any) -> ComposedTask:
    """The task with contexts and a teacher."""
    slope = GymnasiumTask(
        id="taught/Slope-v0",
        name=None,
        imports=("taught_environments",),
        arguments={},
        max_episode_steps=None,
        wrappers=(),
        vector=Vector(count=1, kind="dummy", **PLAIN),  # type: ignore[arg-type]
        reference=Reference(),
    )
    return ComposedTask(slope, {"context": ContextComponent(), "teacher": teacher_component})


def episode(environment: gym.Env[Any, Any], **settings: Any) -> list[float]:
    """Play an episode and return its context."""
    observation, _ = environment.reset(**settings)
    while not environment.step(0)[2]:
        pass
    return observation.tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", TEACHERS)
def test_contexts_are_those_of_the_box(name: str) -> None:
    """Contexts lie within the bounds, differ over episodes, and follow the seed."""
    played_contexts = []
    for seed in (3, 3, 4):
        environment = task(teacher(name, **SOON.get(name, {}))).make()
        played_contexts.append(
            [episode(environment, seed=seed), *(episode(environment) for _ in range(30))]
        )
    contexts = np.array(played_contexts[0])
    assert 31 == len(np.unique(contexts, axis=0))
    assert ([-1.0, 5.0] <= contexts).all()
    assert (contexts <= [2.0, 5.5]).all()
    assert played_contexts[0] == played_contexts[1] != played_contexts[2]


def test_outcome_is_the_return_of_what_was_played() -> None:
    """The outcome is the return, and an episode that a reset ends is not reported."""
    recorder = RecordingTeacher()
    environment = task(recorder).make()
    environment.reset(seed=1)
    environment.step(0)
    for _ in range(2):
        assert [-1.0, 5.0] == episode(environment)
    assert [((-1.0, 5.0), -5.0)] * 2 == recorder.outcomes


def test_outcome_may_be_a_measure() -> None:
    """The outcome can be a measure, by its name."""
    recorder = RecordingTeacher("success")
    episode(task(recorder).make())
    assert [((-1.0, 5.0), 0.0)] == recorder.outcomes


def test_outcome_that_nothing_measures_is_refused() -> None:
    """The error names the unknown outcome and the allowed outcomes."""
    with pytest.raises(EnvironmentFault, match=r"'succes' .* did you mean 'success'.* return, "):
        episode(task(RecordingTeacher("succes")).make())


@pytest.mark.parametrize("reward", [np.nan, np.inf])
def test_invalid_rewards_are_not_reported(monkeypatch: pytest.MonkeyPatch, reward: float) -> None:
    """Invalid rewards are not reported to the teacher."""
    recorder = RecordingTeacher()
    step = Slope.step

    def step_with_reward(environment: Slope, action: Any) -> Any:
        observation, _, *other_results = step(environment, action)
        return observation, reward, *other_results

    monkeypatch.setattr(Slope, "step", step_with_reward)
    environment = task(recorder).make()
    episode(environment)
    assert [] == recorder.outcomes


@pytest.mark.parametrize("stage", [Stage.EVALUATION, Stage.IN_DISTRIBUTION])
@pytest.mark.parametrize("name", TEACHERS)
def test_evaluations_have_no_teacher(name: str, stage: Stage) -> None:
    """Evaluations play the contexts of the configuration."""
    environment = Contexts(Slope())
    assert environment is teacher(name).wrap(environment, stage)
    assert not splits(task(teacher(name)))


@pytest.mark.parametrize("name", TEACHERS)
def test_environment_without_contexts_is_refused(name: str) -> None:
    """A teacher needs an environment that declares contexts."""
    with pytest.raises(ConfigError, match="needs an environment that declares contexts"):
        teacher(name).wrap(Slope(), Stage.TRAINING)


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing package is an error in training, but not in evaluation."""
    monkeypatch.setattr(alp_gmm, "find_spec", lambda _: None)
    component, environment = teacher("alp_gmm"), Contexts(Slope())
    with pytest.raises(ConfigError, match=r"pip install 'rlexp\[curriculum\]'"):
        component.wrap(environment, Stage.TRAINING)
    assert environment is component.wrap(environment, Stage.EVALUATION)


def test_random_contexts_can_be_continued() -> None:
    """Random contexts depend on the generator only, which is restored."""
    assert check_round_trip(task(teacher("random")), 0.99, 3) is None


@pytest.mark.parametrize(
    "teacher_or_name",
    [*(name for name in TEACHERS if name != "random"), RecordingTeacher()],
    ids=str,
)
def test_lessons_cannot_be_restored(teacher_or_name: Any) -> None:
    """The replay check refuses a teacher with lessons, also from another package."""
    component = teacher(teacher_or_name) if isinstance(teacher_or_name, str) else teacher_or_name
    difference = check_round_trip(task(component), 0.99, 3)
    assert difference is not None
    assert "TaughtEnvironment differs after the replay" in difference
