"""Constraints as terminations have the probabilities, rewards and ends of the paper."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import Scripted, array, play

from rlexp.components.constraints import Constraint
from rlexp.components.constraints_as_terminations import ConstraintsAsTerminations
from rlexp.environments import Stage
from rlexp.errors import ConfigError

ABOVE = Constraint(entry=0, above=1.0)
PUSH = Constraint(action=0, above=0.0)
STILL = [array(0.0)] * 8


def terminations(**settings: Any) -> ConstraintsAsTerminations:
    """The component with the settings of its yaml and changes."""
    defaults: dict[str, Any] = {
        "constraints": {"height": ABOVE},
        "probability": 0.25,
        "scale": None,
        "decay": 0.95,
        "shift": 0.0,
        "stage": "training",
    }
    return ConstraintsAsTerminations(**(defaults | settings))


def rewards(env: Any, actions: list[Any] = STILL, seed: int = 0) -> list[float]:
    """The rewards of an episode."""
    return [float(step[1]) for step in play(env, actions, seed)]


def test_rewards_are_scaled_by_the_chance_to_go_on() -> None:
    """With a worst violation of 2, a violation of 1 has probability p/2, and one of 4 has p."""
    component = terminations(probability=1e-9, scale={"height": 2.0})
    env = component.wrap(Scripted([0, 1, 2, 5, 0], rewards=[1, 1, 4, 1]), Stage.TRAINING)
    assert [1.0, 1 - 5e-10, 4 * (1 - 1e-9), 1.0] == rewards(env)


def test_the_highest_chance_of_all_constraints_counts() -> None:
    """Each constraint has its own probability, and the largest counts."""
    component = terminations(
        constraints={"height": ABOVE, "push": PUSH},
        probability={"height": 1e-9, "push": 4e-9},
        scale={"height": 1.0, "push": 1.0},
    )
    env = component.wrap(Scripted([0, 2, 2, 0]), Stage.TRAINING)
    expected = [1 - 2e-9, 1 - 1e-9, 1 - 4e-9]
    assert expected == rewards(env, [array(0.5), array(0.0), array(1.0)])


def test_the_worst_violation_is_learnt_over_episodes() -> None:
    """The first episode uses its worst violation so far; later episodes use a moving average."""
    component = terminations(probability=1e-3, decay=0.9)
    script = Scripted([0, 3, 2, 0], rewards=[1, 1, 1])
    env = component.wrap(script, Stage.TRAINING)
    # Seed 0 draws no number below 0.001.
    assert [1 - 1e-3, 1 - 1e-3 / 2, 1.0] == pytest.approx(rewards(env), abs=1e-15)
    script.observations = [array(0), array(2), array(7), array(0)]
    assert [1 - 1e-3 / 2, 1 - 1e-3, 1.0] == pytest.approx(rewards(env), abs=1e-15)
    learnt_scale = 0.9 * 2 + 0.1 * 6
    assert 1 - 1e-3 / learnt_scale == pytest.approx(rewards(env)[0], abs=1e-15)


@pytest.mark.parametrize("chance", [0.0, 0.2, 1.0])
def test_the_mean_return_is_that_of_the_discounted_future(chance: float) -> None:
    """The mean return of randomly ended episodes is the return of the paper."""
    component = terminations(probability=chance, scale={"height": 1.0})
    env = component.wrap(Scripted([0, *[2] * 6], truncates=True), Stage.TRAINING)
    returns = [sum(rewards(env, seed=seed)) for seed in range(2000)]
    expected = sum((1 - chance) ** step for step in range(1, 7))
    assert expected == pytest.approx(np.mean(returns), abs=4 * np.std(returns) / 2000**0.5 + 1e-12)


def test_an_end_by_violation_is_a_termination() -> None:
    """A violation ends an episode as terminated, not as truncated."""
    component = terminations(probability=1.0, scale={"height": 1.0})
    (step,) = play(component.wrap(Scripted([0, 2, 0]), Stage.TRAINING), STILL)
    assert (0.0, True, False) == step[1:4]


@given(violation=st.floats(0, 1e3), scale=st.floats(1e-3, 1e3), chance=st.floats(0, 1))
def test_a_chance_is_between_zero_and_the_probability(
    violation: float, scale: float, chance: float
) -> None:
    """The probability grows with the violation, up to that of the worst one."""
    component = terminations(probability=chance, scale={"height": scale})
    env = component.wrap(Scripted([0, 1 + violation, 0]), Stage.TRAINING)
    (reward, *_) = rewards(env)
    excess = (1 + violation) - 1
    assert 1 - chance * min(1.0, excess / scale) == pytest.approx(reward, abs=1e-12)


def test_evaluations_play_the_task_as_it_is() -> None:
    """Evaluations have no terminations, unless the stage is `both`."""
    for stage in (Stage.EVALUATION, Stage.IN_DISTRIBUTION):
        env = Scripted([0, 2, 0])
        assert env is terminations().wrap(env, stage)
        both_stages = terminations(stage="both", scale={"height": 2.0})
        assert env is not both_stages.wrap(env, stage)
    assert not terminations().splits


def test_evaluations_need_a_declared_scale() -> None:
    """With `stage=both`, a learnt scale is refused: scores would depend on earlier evaluations."""
    with pytest.raises(ConfigError, match="stage=both needs a scale of height"):
        terminations(stage="both")


def test_a_negative_reward_of_a_violation_is_refused() -> None:
    """The error names the shift that is needed, and with this shift the run starts."""
    script = Scripted([0, 2, 0], rewards=[-3.0, -3.0])
    with pytest.raises(ConfigError, match="shift by at least 3"):
        rewards(terminations().wrap(script, Stage.TRAINING))
    env = terminations(shift=4.0, probability=1e-9).wrap(script, Stage.TRAINING)
    assert [1 - 1e-9, 1.0] == rewards(env)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"constraints": {}}, "has no constraint"),
        (
            {"probability": {"hight": 0.5}},
            "'hight', which is not a constraint; did you mean 'height'",
        ),
        ({"probability": {}}, "probability lacks height"),
        ({"scale": {"width": 1.0}}, "scale names 'width'"),
    ],
)
def test_settings_that_fit_no_constraint_are_refused(settings: Any, reason: str) -> None:
    """Names in settings must be names of constraints."""
    with pytest.raises(ConfigError, match=reason):
        terminations(**settings)
