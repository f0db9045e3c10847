"""An environment whose contexts a teacher chooses."""

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3.common.vec_env import VecEnv
from taught_environments import (
    PLAIN,
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
from rlexp.training.vectorise import training_vector

SOON: dict[str, dict[str, Any]] = {
    "iwocs": {"train_episodes": 1, "candidates": 40},
    "mbtl": {"random_share": 1.0},
}
"""Settings with which a teacher that begins with one context soon plays others."""


def task(teacher_component: Any, count: int = 1, kind: str = "dummy") -> ComposedTask:
    """The task with contexts and a teacher."""
    slope = GymnasiumTask(
        id="taught/Slope-v0",
        name=None,
        imports=("taught_environments",),
        arguments={},
        max_episode_steps=None,
        wrappers=(),
        vector=Vector(count=count, kind=kind, **PLAIN),  # type: ignore[arg-type]
        reference=Reference(),
    )
    return ComposedTask(slope, {"context": ContextComponent(), "teacher": teacher_component})


def episode(environment: gym.Env[Any, Any], **settings: Any) -> list[float]:
    """Play an episode and return its context."""
    observation, _ = environment.reset(**settings)
    while not environment.step(0)[2]:
        pass
    return observation.tolist()  # type: ignore[no-any-return]


def vector_episodes(vector: VecEnv, steps: int) -> list[list[float]]:
    """Play a vector, and return the contexts of its episodes in the order in which they began."""
    contexts = vector.reset().tolist()  # type: ignore[union-attr]
    for _ in range(steps):
        observations, _, dones, _ = vector.step(np.zeros(vector.num_envs, dtype=np.int64))
        contexts += observations[dones].tolist()  # type: ignore[index]
    vector.close()
    return contexts  # type: ignore[no-any-return]


def taught_contexts(component: Any, folder: Path, seed: int = 3, **vector: Any) -> Any:
    """The contexts of episodes of five steps that a teacher chooses."""
    composed = task(component, **vector)
    count = composed.vector.count
    seeds = [seed + position for position in range(count)]
    made = training_vector(composed, seeds, seeds, 0.99, folder, teacher_seed=seed)
    return vector_episodes(made, 155 // count)


EITHER = ["alp_gmm", "success_rate"]
"""Teachers that may be one for a run, or one for each environment."""


@pytest.mark.parametrize("shared", [True, None], ids=["one", "each"])
@pytest.mark.parametrize("name", TEACHERS)
def test_contexts_are_those_of_the_box(name: str, shared: Any, tmp_path: Path) -> None:
    """Contexts lie within the bounds, differ over episodes, and follow the seed."""
    settings: dict[str, Any] = {"shared": shared} if name in EITHER else SOON.get(name, {})
    played_contexts = [
        taught_contexts(teacher(name, **settings), tmp_path, seed)[:31] for seed in (3, 3, 4)
    ]
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


LEARNING = [name for name in TEACHERS if name != "random"]
QUICK: dict[str, dict[str, Any]] = {
    "alp_gmm": {"fit_every": 20, "gaussians": 3},
    "mbtl": {"stage_episodes": 10},
    "success_rate": {"neighbours": 3},
    "iwocs": {"train_episodes": 3, "candidates": 4},
}


@pytest.mark.parametrize("name", LEARNING)
def test_teacher_of_a_run_can_be_restored(name: str) -> None:
    """The state of a teacher that hears of all episodes is restored, so that a run can continue."""
    assert check_round_trip(task(teacher(name, **QUICK[name])), 0.99, 3) is None


@pytest.mark.parametrize("name", LEARNING)
def test_teacher_of_a_run_hears_the_same_in_processes(name: str, tmp_path: Path) -> None:
    """Three environments play the same contexts in one process and in three, after the same lessons."""
    contexts = [
        taught_contexts(teacher(name, **QUICK[name]), tmp_path, count=3, kind=kind)
        for kind in ("dummy", "subprocess")
    ]
    assert contexts[0] == contexts[1]
    assert len(contexts[0]) > 30


def test_teacher_of_a_run_hears_of_all_environments_before_it_proposes(tmp_path: Path) -> None:
    """All episodes that end in a step are told in the order of environments, then the next begin."""
    heard: list[str] = []

    class Ear(RecordingTeacher):
        shared = True

        def propose(self) -> Any:
            heard.append("propose")
            return np.array([len(heard) / 100, 5.0])

        def learn(self, task: Any, outcome: float) -> None:
            heard.append(f"{task[0]:.2f} {outcome:.2f}")

    taught_contexts(Ear(), tmp_path, count=3)

    assert heard[:9] == [*["propose"] * 3, "0.01 0.05", "0.02 0.10", "0.03 0.15", *["propose"] * 3]
    assert heard[9:12] == ["0.07 0.35", "0.08 0.40", "0.09 0.45"]


def test_teacher_of_a_run_without_state_is_named(tmp_path: Path) -> None:
    """A teacher that cannot say its state is refused by the replay check, in words that say why."""

    class Silent(RecordingTeacher):
        shared = True

    assert "Silent of the teacher has no state() and restore()" == check_round_trip(
        task(Silent()), 0.99, 3
    )


@pytest.mark.parametrize("teacher_or_name", [*EITHER, RecordingTeacher()], ids=str)
def test_lessons_of_one_environment_cannot_be_restored(teacher_or_name: Any) -> None:
    """The replay check refuses teachers of single environments, also from another package."""
    named = isinstance(teacher_or_name, str)
    component = teacher(teacher_or_name, shared=None) if named else teacher_or_name
    difference = check_round_trip(task(component), 0.99, 3)
    assert difference is not None
    assert "TaughtEnvironment differs after the replay" in difference
