"""Invalid contexts are refused in one line."""

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import pytest

from rlexp.components.context_distributions import Range
from rlexp.components.contexts import ContextParameter, Contexts
from rlexp.environments import Stage
from rlexp.errors import ConfigError, EnvironmentFault


@pytest.fixture(autouse=True)
def _in_temporary_folder(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in a temporary folder, because MuJoCo writes its warnings into the current folder."""
    monkeypatch.chdir(tmp_path)


def contexts(*, visible: bool = False, **settings: Any) -> Contexts:
    """Contexts of these parameters, evaluated on a grid of three points along each."""
    merged_settings = {"evaluation": "grid", "points": 3, "seed": 0, **settings}
    return Contexts(**merged_settings, visible=visible)


def parameter(**changes: Any) -> dict[str, ContextParameter]:
    """A valid parameter with changes."""
    return {
        "length": ContextParameter(**{"field": "length", "training": 0.5, "test": 1.0, **changes})
    }


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"parameters": {}}, ["name one parameter"]),
        ({"parameters": parameter(training=float("nan"))}, ["length.training", "finite"]),
        ({"parameters": parameter(test=float("inf"))}, ["length.test", "finite"]),
        ({"parameters": parameter(test=())}, ["length.test", "no value"]),
        ({"parameters": parameter(test=(1.0, 1.0))}, ["length.test", "twice"]),
        ({"parameters": parameter(test=Range(low=2.0, high=1.0))}, ["length.test", "below"]),
        (
            {"parameters": parameter(test=Range(low=0.0, high=1.0, scale="log_uniform"))},
            ["length.test", "above 0"],
        ),
        ({"parameters": parameter(test=0.5)}, ["nothing is held out"]),
        ({"parameters": parameter(training=(0.5, 1.0))}, ["nothing is held out"]),
        ({"parameters": parameter(field=())}, ["length.field"]),
        (
            {"parameters": parameter(test=Range(low=0.1, high=1.0)), "points": 10_001},
            ["10,001", "10,000", "sample"],
        ),
    ],
)
def test_bad_declarations_are_refused(settings: dict[str, Any], words: Sequence[str]) -> None:
    """The error is one line that names the setting."""
    with pytest.raises(ConfigError) as caught:
        contexts(**settings)
    assert 1 == len(str(caught.value).splitlines())
    assert [word for word in words if word not in str(caught.value)] == []


@pytest.mark.parametrize(
    ("task", "changes", "words"),
    [
        ("CartPole-v1", {"field": "lenght"}, ["did you mean 'length'", "masspole", "tau"]),
        ("CartPole-v1", {"field": "total_mass"}, ["masscart"]),
        ("CartPole-v1", {"field": "kinematics_integrator"}, ["no number"]),
        ("CartPole-v1", {"field": "spec.max_episode_steps"}, ["no number"]),
        ("CartPole-v1", {"field": "np_random"}, ["no number"]),
        ("CartPole-v1", {"field": "__class__"}, ["no field"]),
        ("CartPole-v1", {"field": "length[0]"}, ["length[0]"]),
        ("CartPole-v1", {"training": -0.5}, ["'length'", "below 0"]),
        ("CartPole-v1", {"test": 0.0}, ["'length'", "above 0"]),
        ("CartPole-v1", {"training": -1.0, "relative": True}, ["below 0"]),
        ("LunarLander-v3", {"field": "enable_wind"}, ["no number", "wind_power"]),
        ("MountainCar-v0", {"field": "goal_velocity", "relative": True}, ["is 0", "factor"]),
        ("Hopper-v5", {"field": "model.body_mas[torso]"}, ["did you mean 'model.body_mass'"]),
        ("Hopper-v5", {"field": "model.body_mass[trunk]"}, ["'trunk'", "torso, thigh"]),
        ("Hopper-v5", {"field": "model.body_mass[9]"}, ["(5,)"]),
        ("Hopper-v5", {"field": "model.body_mass"}, ["5 numbers", "relative=true"]),
        ("Hopper-v5", {"field": "model.geom_type"}, ["no number"]),
        ("Hopper-v5", {"field": "model.qpos0[rootz]"}, ["no names", "numbers"]),
        ("Hopper-v5", {"field": "model.body_mass[torso]", "training": -1.0}, ["below 0"]),
    ],
)
def test_bad_fields_are_refused(task: str, changes: dict[str, Any], words: Sequence[str]) -> None:
    """The error is one line that lists valid fields."""
    with pytest.raises(ConfigError) as caught:
        contexts(parameters=parameter(**changes)).wrap(gym.make(task), Stage.TRAINING)
    assert 1 == len(str(caught.value).splitlines())
    assert [word for word in words if word not in str(caught.value)] == []


def test_field_that_a_reset_sets_itself_is_refused() -> None:
    """LunarLander makes a new world at each reset, so its gravity cannot be set."""
    component = contexts(parameters=parameter(field="world.gravity[1]", training=-5.0))
    environment = component.wrap(gym.make("LunarLander-v3"), Stage.TRAINING)
    with pytest.raises(EnvironmentFault, match=r"world\.gravity\[1\] itself at each reset"):
        environment.reset(seed=1)


def test_images_cannot_show_a_context() -> None:
    """Only flat observations of floats can show a context."""
    component = contexts(parameters=parameter(field="gravity"), visible=True)
    environment = gym.wrappers.ReshapeObservation(gym.make("CartPole-v1"), (2, 2))
    with pytest.raises(ConfigError, match="visible=false"):
        component.wrap(environment, Stage.TRAINING)
