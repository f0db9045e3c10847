"""Contexts act, follow the configuration, and do not affect later episodes."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from rlexp.components.context_distributions import Range
from rlexp.components.contexts import ContextParameter, Contexts
from rlexp.environments import MEASURES, Stage
from rlexp.training.environments.episode_log import digest

Trace = list[Any]
FIELDS = [
    ("CartPole-v1", "gravity", 9.8, 4.0),
    ("CartPole-v1", "length", 0.5, 1.5),
    ("CartPole-v1", "masspole", 0.1, 0.5),
    ("CartPole-v1", "masscart", 1.0, 2.0),
    ("CartPole-v1", "force_mag", 10.0, 5.0),
    ("Pendulum-v1", "g", 10.0, 5.0),
    ("Pendulum-v1", "l", 1.0, 1.5),
    ("Pendulum-v1", "m", 1.0, 2.0),
    ("Acrobot-v1", "LINK_LENGTH_1", 1.0, 1.5),
    ("Acrobot-v1", "LINK_MASS_2", 1.0, 1.5),
    ("MountainCar-v0", "gravity", 0.0025, 0.003),
    ("MountainCar-v0", "force", 0.001, 0.002),
    ("MountainCarContinuous-v0", "power", 0.0015, 0.002),
    ("LunarLander-v3", "gravity", -10.0, -5.0),
    ("BipedalWalker-v3", "world.gravity[1]", -10.0, -5.0),
    ("BipedalWalker-v3", "fd_edge.friction", 2.5, 0.1),
    ("Hopper-v5", "model.opt.gravity[2]", -9.81, -5.0),
    ("Hopper-v5", "model.opt.timestep", 0.002, 0.001),
    ("HalfCheetah-v5", "model.geom_friction[:,0]", 0.4, 2.0),
    ("Swimmer-v5", "model.opt.viscosity", 0.1, 0.5),
    ("Hopper-v5", "data.xfrc_applied[foot,0]", 0.0, 3.0),
    ("Ant-v5", "data.xfrc_applied[torso,1]", 0.0, -3.0),
]
"""Cases of a task, one of its fields, the value of the field, and another value."""
FACTORS = [
    ("Hopper-v5", "model.body_mass[torso]", 2.0),
    ("Hopper-v5", "model.body_mass", 2.0),
    ("Hopper-v5", "model.dof_damping[foot_joint]", 3.0),
    ("Hopper-v5", "model.actuator_gear[0,0]", 0.5),
    ("Ant-v5", "model.body_mass[front_left_leg]", 5.0),
    ("Acrobot-v1", ("LINK_LENGTH_1", "LINK_COM_POS_1"), 1.3),
]
"""Cases of a task, one of its fields, and a factor."""


@pytest.fixture(autouse=True)
def _in_temporary_folder(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in a temporary folder, because MuJoCo writes its warnings into the current folder."""
    monkeypatch.chdir(tmp_path)


def contexts(*, visible: bool = False, **settings: Any) -> Contexts:
    """Contexts of these parameters, evaluated on a grid of three points along each."""
    merged_settings = {"evaluation": "grid", "points": 3, "seed": 0, **settings}
    return Contexts(**merged_settings, visible=visible)


def constant_context(
    field: str | tuple[str, ...], value: float, *, relative: bool = False, other: float = 0.75
) -> Contexts:
    """Contexts of one parameter, whose training distribution is a constant."""
    parameter = ContextParameter(field=field, relative=relative, training=value, test=other)
    return contexts(parameters={"x": parameter})


def trace(environment: Any, steps: int = 60, seed: int | None = 4) -> Trace:
    """Digests of the results of an environment, with the same actions for every seed."""
    environment.action_space.seed(1)
    results: Trace = [digest(environment.reset(seed=seed)[0])]
    for _ in range(steps):
        observation, reward, terminated, truncated, _ = environment.step(
            environment.action_space.sample()
        )
        results.append((digest(observation), float(reward), terminated, truncated))
        if terminated or truncated:
            results.append(digest(environment.reset()[0]))
    return results


def episode(environment: Any) -> Trace:
    """Digests of one episode or of its first steps."""
    results = trace(environment)
    ends = [
        number
        for number, result in enumerate(results)
        if result[2:] in {(True, False), (False, True)}
    ]
    return results[: (ends or [len(results)])[0] + 1]


@pytest.mark.parametrize(("task", "field", "nominal", "other"), FIELDS)
def test_fields_act(task: str, field: str, nominal: float, other: float) -> None:
    """The nominal value changes nothing; another value changes the episode."""
    expected = trace(gym.make(task))
    assert expected == trace(
        constant_context(field, nominal, other=other).wrap(gym.make(task), Stage.TRAINING)
    )
    changed = constant_context(field, other, other=nominal).wrap(gym.make(task), Stage.TRAINING)
    assert expected != trace(changed)


@pytest.mark.parametrize(("task", "field", "factor"), FACTORS)
def test_factors_act(task: str, field: str, factor: float) -> None:
    """A factor of 1 changes nothing; another factor changes the episode."""
    expected = trace(gym.make(task))
    nominal = constant_context(field, 1.0, relative=True)
    assert expected == trace(nominal.wrap(gym.make(task), Stage.TRAINING))
    changed = constant_context(field, factor, relative=True)
    assert expected != trace(changed.wrap(gym.make(task), Stage.TRAINING))


@pytest.mark.parametrize(
    ("task", "field", "test"),
    [
        ("CartPole-v1", "masspole", (0.2, 0.9)),
        ("Hopper-v5", "model.body_mass[torso]", (1.0, 7.0)),
        ("LunarLander-v3", "gravity", (-5.0, -11.0)),
    ],
)
def test_context_does_not_depend_on_earlier_ones(
    task: str, field: str, test: tuple[float, float]
) -> None:
    """After an episode in another context, an episode is as in a fresh environment."""
    first, second = test
    reused: Any = constant_context(field, first, other=second).wrap(gym.make(task), Stage.TRAINING)
    for value in (first, second, first):
        reused.get_wrapper_attr("plan_next")(np.array([value]))
        new_environment = constant_context(field, value, other=2 * value).wrap(
            gym.make(task), Stage.TRAINING
        )
        assert episode(reused) == episode(new_environment)


def test_derived_values_of_cartpole_follow() -> None:
    """CartPole's sum of masses and product of mass and length follow the context."""
    parameters = {
        "length": ContextParameter(field="length", training=2.0, test=1.0),
        "pole": ContextParameter(field="masspole", training=0.3, test=0.1),
    }
    environment: Any = contexts(parameters=parameters).wrap(
        gym.make("CartPole-v1"), Stage.TRAINING
    )
    environment.reset(seed=1)
    assert pytest.approx(1.3) == environment.unwrapped.total_mass
    assert pytest.approx(0.6) == environment.unwrapped.polemass_length


def test_derived_values_of_mujoco_follow() -> None:
    """The mass of the subtree below the world is the sum of the masses of the context."""
    environment: Any = constant_context("model.body_mass", 3.0, relative=True).wrap(
        gym.make("Hopper-v5"), Stage.TRAINING
    )
    environment.reset(seed=1)
    model, nominal = environment.unwrapped.model, gym.make("Hopper-v5").unwrapped.model  # type: ignore[attr-defined]
    assert pytest.approx(3 * nominal.body_subtreemass[0]) == model.body_subtreemass[0]
    assert model.body_invweight0[1, 0] < 0.9 * nominal.body_invweight0[1, 0]


def test_classes_keep_their_values() -> None:
    """Class attributes of Acrobot stay unchanged."""
    environment: Any = constant_context("LINK_LENGTH_1", 3.0).wrap(
        gym.make("Acrobot-v1"), Stage.TRAINING
    )
    environment.reset(seed=1)
    assert 3.0 == environment.unwrapped.LINK_LENGTH_1
    assert 1.0 == gym.make("Acrobot-v1").unwrapped.LINK_LENGTH_1  # type: ignore[attr-defined]


POLES = {
    "length": ContextParameter(
        field="length",
        training=Range(low=0.4, high=0.8),
        test=Range(low=0.2, high=1.0),
    ),
    "gravity": ContextParameter(field="gravity", training=(8.0, 10.0), test=(5.0, 15.0)),
}


def measured_contexts(environment: Any, seed: int, episodes: int) -> list[tuple[float, ...]]:
    """The contexts that an environment reports in its measures."""
    results = []
    for number in range(episodes):
        environment.reset(seed=seed if number == 0 else None)
        ended = False
        while not ended:
            *_, terminated, truncated, info = environment.step(0)
            ended = terminated or truncated
        results.append(tuple(info[MEASURES][f"context/{name}"] for name in POLES))
    return results


def test_training_draws_contexts_of_its_distributions() -> None:
    """Contexts differ over episodes, follow the seed, and lie in the distributions."""

    def draw_contexts(seed: int) -> list[tuple[float, ...]]:
        environment = contexts(parameters=POLES).wrap(gym.make("CartPole-v1"), Stage.TRAINING)
        return measured_contexts(environment, seed, 30)

    lengths, gravities = zip(*draw_contexts(1), strict=True)
    assert 30 == len(set(lengths))
    assert 0.4 <= min(lengths) < 0.5
    assert 0.7 < max(lengths) <= 0.8
    assert {8.0, 10.0} == set(gravities)
    assert draw_contexts(1) == draw_contexts(1) != draw_contexts(2)


def test_evaluation_plays_the_grid() -> None:
    """Parallel environments play every test context equally often, with any seeds."""
    played_contexts: list[tuple[float, ...]] = []
    for position in range(4):
        environment = contexts(parameters=POLES).wrap(gym.make("CartPole-v1"), Stage.EVALUATION)
        environment.get_wrapper_attr("deal")(position, 4)
        played_contexts += measured_contexts(environment, position, 3)
    expected = [(length, gravity) for length in (0.2, 0.6, 1.0) for gravity in (5.0, 15.0)]
    assert sorted(expected * 2) == sorted(played_contexts)


def test_evaluation_begins_anew() -> None:
    """Every evaluation starts at the beginning of the list."""
    environment = contexts(parameters=POLES).wrap(gym.make("CartPole-v1"), Stage.EVALUATION)
    evaluations = []
    for seed in (1, 2):
        environment.get_wrapper_attr("deal")(1, 2)
        evaluations.append(measured_contexts(environment, seed, 2))
    assert evaluations[0] == evaluations[1]


def test_sample_is_that_of_its_own_seed() -> None:
    """The test sample depends on the seed of the component only."""
    sample, same_seed, other_seed = (
        contexts(parameters=POLES, evaluation="sample", points=50, seed=seed).test_contexts()
        for seed in (3, 3, 4)
    )
    assert (50, 2) == sample.shape
    np.testing.assert_array_equal(sample, same_seed)
    assert not np.array_equal(sample, other_seed)
    assert 0.2 <= sample[:, 0].min() < 0.4
    assert 0.8 < sample[:, 0].max() <= 1.0


def test_in_distribution_plays_as_many_training_contexts() -> None:
    """The in-distribution stage plays a list of as many training contexts."""
    environment = contexts(parameters=POLES).wrap(gym.make("CartPole-v1"), Stage.IN_DISTRIBUTION)
    environment.get_wrapper_attr("deal")(0, 1)
    played_contexts = measured_contexts(environment, 1, 12)
    assert played_contexts[:6] == played_contexts[6:]
    assert all(
        0.4 <= length <= 0.8 and gravity in {8.0, 10.0} for length, gravity in played_contexts
    )


def test_log_uniform_range() -> None:
    """Equal factors are equally likely, and a grid has geometric steps."""
    scale = Range(low=0.1, high=10.0, scale="log_uniform")
    parameter = ContextParameter(field="masspole", training=scale, test=scale)
    component = contexts(parameters={"x": parameter})
    assert [0.1, 1.0, 10.0] == sorted(component.test_contexts()[:, 0].tolist())
    samples = contexts(
        parameters={"x": parameter}, evaluation="sample", points=500
    ).test_contexts()
    assert 0.4 < (samples < 1).mean() < 0.6


def test_context_can_be_shown() -> None:
    """A visible context ends observations, scaled so that training spans -1 to 1."""
    parameters = {**POLES, "cart": ContextParameter(field="masscart", training=2.0, test=3.0)}
    environment = contexts(parameters=parameters, visible=True).wrap(
        gym.make("CartPole-v1"), Stage.TRAINING
    )
    environment.get_wrapper_attr("plan_next")(np.array([0.4, 15.0, 3.0]))
    observation, _ = environment.reset(seed=1)
    assert pytest.approx([-1.0, 6.0, 0.5], abs=1e-6) == observation[4:].tolist()
    assert environment.observation_space.contains(observation)
    next_observation, *_ = environment.step(0)
    np.testing.assert_array_equal(observation[4:], next_observation[4:])
    assert np.float32 == next_observation.dtype


def test_teacher_can_plan_one_episode() -> None:
    """A planned context holds for the next reset only."""
    environment = contexts(parameters=POLES).wrap(gym.make("CartPole-v1"), Stage.TRAINING)
    assert ("length", "gravity") == environment.get_wrapper_attr("context_names")
    assert [0.4, 8.0] == environment.get_wrapper_attr("context_low").tolist()
    assert [0.8, 10.0] == environment.get_wrapper_attr("context_high").tolist()
    environment.get_wrapper_attr("plan_next")(np.array([0.55, 9.0]))
    first, second = measured_contexts(environment, 1, 2)
    assert (0.55, 9.0) == first
    assert second[1] in {8.0, 10.0}


def test_proposals_are_rounded_to_the_values_of_a_list() -> None:
    """A proposal is rounded to the nearest value of a list; a range takes any number."""
    environment = contexts(parameters=POLES).wrap(gym.make("CartPole-v1"), Stage.TRAINING)
    rounded_context = environment.get_wrapper_attr("as_trained")(np.array([0.55, 9.4]))
    assert [0.55, 10.0] == rounded_context.tolist()
