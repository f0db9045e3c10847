"""Contexts act, are those of the configuration, and leave no trace in later episodes."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from rlexp.components.context_distributions import Range
from rlexp.components.contexts import ContextParameter, Contexts
from rlexp.environments import MEASURES, Stage
from rlexp.training.episode_log import digest

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
]
"""A task, one of its fields, what that holds, and another value."""
FACTORS = [
    ("Hopper-v5", "model.body_mass[torso]", 2.0),
    ("Hopper-v5", "model.body_mass", 2.0),
    ("Hopper-v5", "model.dof_damping[foot_joint]", 3.0),
    ("Hopper-v5", "model.actuator_gear[0,0]", 0.5),
    ("Ant-v5", "model.body_mass[front_left_leg]", 5.0),
    ("Acrobot-v1", ("LINK_LENGTH_1", "LINK_COM_POS_1"), 1.3),
]
"""A task, one of its fields, and a factor."""


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """MuJoCo writes its warnings into the current folder."""
    monkeypatch.chdir(tmp_path)


def contexts(*, visible: bool = False, **settings: Any) -> Contexts:
    """Contexts of these parameters, evaluated on a grid of three points along each."""
    plain = {"evaluation": "grid", "points": 3, "seed": 0, **settings}
    return Contexts(**plain, visible=visible)


def constant(
    field: str | tuple[str, ...], value: float, *, relative: bool = False, other: float = 0.75
) -> Contexts:
    """One parameter, whose training distribution is a constant."""
    parameter = ContextParameter(field=field, relative=relative, training=value, test=other)
    return contexts(parameters={"x": parameter})


def trace(environment: Any, steps: int = 60, seed: int | None = 4) -> Trace:
    """Digests of the results of an environment, with actions that depend on no seed."""
    environment.action_space.seed(1)
    told: Trace = [digest(environment.reset(seed=seed)[0])]
    for _ in range(steps):
        observation, reward, terminated, truncated, _ = environment.step(
            environment.action_space.sample()
        )
        told.append((digest(observation), float(reward), terminated, truncated))
        if terminated or truncated:
            told.append(digest(environment.reset()[0]))
    return told


def episode(environment: Any) -> Trace:
    """Digests of one episode or of its first steps."""
    told = trace(environment)
    ends = [
        number for number, each in enumerate(told) if each[2:] in {(True, False), (False, True)}
    ]
    return told[: (ends or [len(told)])[0] + 1]


@pytest.mark.parametrize(("task", "field", "nominal", "other"), FIELDS)
def test_fields_act(task: str, field: str, nominal: float, other: float) -> None:
    """The nominal value changes nothing; another value changes the episode."""
    plain = trace(gym.make(task))
    assert plain == trace(
        constant(field, nominal, other=other).wrap(gym.make(task), Stage.TRAINING)
    )
    changed = constant(field, other, other=nominal).wrap(gym.make(task), Stage.TRAINING)
    assert plain != trace(changed)


@pytest.mark.parametrize(("task", "field", "factor"), FACTORS)
def test_factors_act(task: str, field: str, factor: float) -> None:
    """A factor of 1 changes nothing; another factor changes the episode."""
    plain = trace(gym.make(task))
    nominal = constant(field, 1.0, relative=True)
    assert plain == trace(nominal.wrap(gym.make(task), Stage.TRAINING))
    changed = constant(field, factor, relative=True)
    assert plain != trace(changed.wrap(gym.make(task), Stage.TRAINING))


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
    one, other = test
    used: Any = constant(field, one, other=other).wrap(gym.make(task), Stage.TRAINING)
    for value in (one, other, one):
        used.get_wrapper_attr("plan_next")(np.array([value]))
        fresh = constant(field, value, other=2 * value).wrap(gym.make(task), Stage.TRAINING)
        assert episode(used) == episode(fresh)


def test_derived_values_of_cartpole_follow() -> None:
    """CartPole's sum of masses and product of mass and length follow the context."""
    parameters = {
        "length": ContextParameter(field="length", training=2.0, test=1.0),
        "pole": ContextParameter(field="masspole", training=0.3, test=0.1),
    }
    made: Any = contexts(parameters=parameters).wrap(gym.make("CartPole-v1"), Stage.TRAINING)
    made.reset(seed=1)
    assert pytest.approx(1.3) == made.unwrapped.total_mass
    assert pytest.approx(0.6) == made.unwrapped.polemass_length


def test_derived_values_of_mujoco_follow() -> None:
    """The mass of the subtree below the world is the sum of the masses of the context."""
    made: Any = constant("model.body_mass", 3.0, relative=True).wrap(
        gym.make("Hopper-v5"), Stage.TRAINING
    )
    made.reset(seed=1)
    model, plain = made.unwrapped.model, gym.make("Hopper-v5").unwrapped.model  # type: ignore[attr-defined]
    assert pytest.approx(3 * plain.body_subtreemass[0]) == model.body_subtreemass[0]
    assert model.body_invweight0[1, 0] < 0.9 * plain.body_invweight0[1, 0]


def test_classes_keep_their_values() -> None:
    """Class attributes of Acrobot stay unchanged."""
    made: Any = constant("LINK_LENGTH_1", 3.0).wrap(gym.make("Acrobot-v1"), Stage.TRAINING)
    made.reset(seed=1)
    assert 3.0 == made.unwrapped.LINK_LENGTH_1
    assert 1.0 == gym.make("Acrobot-v1").unwrapped.LINK_LENGTH_1  # type: ignore[attr-defined]


POLES = {
    "length": ContextParameter(
        field="length",
        training=Range(low=0.4, high=0.8),
        test=Range(low=0.2, high=1.0),
    ),
    "gravity": ContextParameter(field="gravity", training=(8.0, 10.0), test=(5.0, 15.0)),
}


def measured(environment: Any, seed: int, episodes: int) -> list[tuple[float, ...]]:
    """The contexts that an environment measures."""
    found = []
    for number in range(episodes):
        environment.reset(seed=seed if number == 0 else None)
        ended = False
        while not ended:
            *_, terminated, truncated, info = environment.step(0)
            ended = terminated or truncated
        found.append(tuple(info[MEASURES][f"context/{name}"] for name in POLES))
    return found


def test_training_draws_contexts_of_its_distributions() -> None:
    """Contexts differ over episodes, follow the seed, and lie in the distributions."""

    def drawn(seed: int) -> list[tuple[float, ...]]:
        made = contexts(parameters=POLES).wrap(gym.make("CartPole-v1"), Stage.TRAINING)
        return measured(made, seed, 30)

    lengths, gravities = zip(*drawn(1), strict=True)
    assert 30 == len(set(lengths))
    assert 0.4 <= min(lengths) < 0.5
    assert 0.7 < max(lengths) <= 0.8
    assert {8.0, 10.0} == set(gravities)
    assert drawn(1) == drawn(1) != drawn(2)


def test_evaluation_plays_the_grid() -> None:
    """Parallel environments play every test context equally often, with any seeds."""
    played: list[tuple[float, ...]] = []
    for position in range(4):
        made = contexts(parameters=POLES).wrap(gym.make("CartPole-v1"), Stage.EVALUATION)
        made.get_wrapper_attr("deal")(position, 4)
        played += measured(made, position, 3)
    expected = [(length, gravity) for length in (0.2, 0.6, 1.0) for gravity in (5.0, 15.0)]
    assert sorted(expected * 2) == sorted(played)


def test_evaluation_begins_anew() -> None:
    """Every evaluation starts at the beginning of the list."""
    made = contexts(parameters=POLES).wrap(gym.make("CartPole-v1"), Stage.EVALUATION)
    found = []
    for seed in (1, 2):
        made.get_wrapper_attr("deal")(1, 2)
        found.append(measured(made, seed, 2))
    assert found[0] == found[1]


def test_sample_is_that_of_its_own_seed() -> None:
    """The test sample depends on the seed of the component only."""
    one, same, other = (
        contexts(parameters=POLES, evaluation="sample", points=50, seed=seed).test_contexts()
        for seed in (3, 3, 4)
    )
    assert (50, 2) == one.shape
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)
    assert 0.2 <= one[:, 0].min() < 0.4
    assert 0.8 < one[:, 0].max() <= 1.0


def test_in_distribution_plays_as_many_training_contexts() -> None:
    """The examination plays a list of training contexts of equal length."""
    made = contexts(parameters=POLES).wrap(gym.make("CartPole-v1"), Stage.IN_DISTRIBUTION)
    made.get_wrapper_attr("deal")(0, 1)
    found = measured(made, 1, 12)
    assert found[:6] == found[6:]
    assert all(0.4 <= length <= 0.8 and gravity in {8.0, 10.0} for length, gravity in found)


def test_log_uniform_range() -> None:
    """Equal factors are equally likely, and a grid has geometric steps."""
    scale = Range(low=0.1, high=10.0, scale="log_uniform")
    parameter = ContextParameter(field="masspole", training=scale, test=scale)
    one = contexts(parameters={"x": parameter})
    assert [0.1, 1.0, 10.0] == sorted(one.test_contexts()[:, 0].tolist())
    drawn = contexts(parameters={"x": parameter}, evaluation="sample", points=500).test_contexts()
    assert 0.4 < (drawn < 1).mean() < 0.6


def test_context_can_be_shown() -> None:
    """A visible context ends observations, scaled so that training spans -1 to 1."""
    parameters = {**POLES, "cart": ContextParameter(field="masscart", training=2.0, test=3.0)}
    made = contexts(parameters=parameters, visible=True).wrap(
        gym.make("CartPole-v1"), Stage.TRAINING
    )
    made.get_wrapper_attr("plan_next")(np.array([0.4, 15.0, 3.0]))
    observation, _ = made.reset(seed=1)
    assert pytest.approx([-1.0, 6.0, 0.5], abs=1e-6) == observation[4:].tolist()
    assert made.observation_space.contains(observation)
    stepped, *_ = made.step(0)
    np.testing.assert_array_equal(observation[4:], stepped[4:])
    assert np.float32 == stepped.dtype


def test_teacher_can_plan_one_episode() -> None:
    """A planned context holds for the next reset only."""
    made = contexts(parameters=POLES).wrap(gym.make("CartPole-v1"), Stage.TRAINING)
    assert ("length", "gravity") == made.get_wrapper_attr("context_names")
    assert [0.4, 8.0] == made.get_wrapper_attr("context_low").tolist()
    assert [0.8, 10.0] == made.get_wrapper_attr("context_high").tolist()
    made.get_wrapper_attr("plan_next")(np.array([0.55, 9.0]))
    first, second = measured(made, 1, 2)
    assert (0.55, 9.0) == first
    assert second[1] in {8.0, 10.0}


def test_proposals_are_rounded_to_the_values_of_a_list() -> None:
    """A proposal is rounded to the nearest value of a list; a range takes any number."""
    made = contexts(parameters=POLES).wrap(gym.make("CartPole-v1"), Stage.TRAINING)
    nearest = made.get_wrapper_attr("as_trained")(np.array([0.55, 9.4]))
    assert [0.55, 10.0] == nearest.tolist()
