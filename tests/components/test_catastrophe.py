"""Catastrophes of evaluated episodes, by their return and by constraints."""

from typing import Any

import gymnasium as gym
import pytest
from scripted import Scripted, array, play

from rlexp.components.catastrophe import Catastrophe
from rlexp.components.constraints import Constraint
from rlexp.environments import MEASURES, Stage
from rlexp.errors import ConfigError
from rlexp.stats.none_seen import largest_rate, none_seen
from rlexp.training.environments.monitor import RewardTap, WatchedEnvironment

TRACK = {"track": Constraint(entry=0, above=1.0)}


def judged(env: Any, number: int) -> list[float]:
    """Whether each of two equal episodes of some steps was a catastrophe."""
    return [play(env, [array(0.0)] * number)[-1][4][MEASURES]["catastrophe"] for _ in range(2)]


@pytest.mark.parametrize(("below", "expected"), [(2.9, 0.0), (3.0, 0.0), (3.1, 1.0)])
def test_a_return_below_the_bound_is_a_catastrophe(below: float, expected: float) -> None:
    """A return equal to the bound is none; each episode is judged anew."""
    env = Scripted([0.0] * 4, rewards=[1.0, 1.0, 1.0])
    wrapped = Catastrophe(below=below, constraints={}).wrap(env, Stage.EVALUATION)
    assert [expected, expected] == judged(wrapped, 3)


@pytest.mark.parametrize(("seen", "expected"), [([0.0, 2.0, 0.0], 1.0), ([0.0, 1.0, 0.0], 0.0)])
def test_one_violated_step_is_a_catastrophe(seen: list[float], expected: float) -> None:
    """A constraint that is violated in the middle of an episode counts, whatever the return is."""
    env = Scripted([0.0, *seen], rewards=[1.0, 1.0, 1.0])
    wrapped = Catastrophe(below=-100.0, constraints=TRACK).wrap(env, Stage.EVALUATION)
    assert [expected, expected] == judged(wrapped, 3)


def test_training_is_not_changed() -> None:
    """Training has the bare environment; evaluation in distribution is measured, too."""
    component, env = Catastrophe(below=1.0, constraints=None), Scripted([0.0, 0.0])
    assert component.wrap(env, Stage.TRAINING) is env
    assert component.wrap(env, Stage.IN_DISTRIBUTION) is not env


def test_a_component_without_a_condition_is_refused() -> None:
    """Nothing could be a catastrophe: the error names both conditions."""
    with pytest.raises(ConfigError, match=r"has no condition: give it a return, .*below=100"):
        Catastrophe(below=None, constraints=None)


def test_no_catastrophe_in_few_runs_is_no_rate_of_zero() -> None:
    """The largest possible rate is the one-sided bound of Clopper and Pearson for runs."""
    for n in (1, 3, 10, 300):
        assert 0.05 == pytest.approx((1 - largest_rate(n, 0.95)) ** n)
    assert 3 / 300 == pytest.approx(largest_rate(300, 0.95), rel=0.01)
    text = none_seen("catastrophe", [0.0] * 10, 0.95)
    assert "no catastrophe in 10 runs: a mean rate up to 0.26 is possible at 95 %" in str(text)
    assert none_seen("catastrophe", [0.0, 0.1], 0.95) is None
    assert none_seen("success", [0.0, 0.0], 0.95) is None


def test_the_bound_is_one_on_the_return_of_the_task() -> None:
    """A wrapper that clips rewards changes neither the return of an episode nor what it is judged by."""
    tap = RewardTap(Scripted([0.0] * 4, rewards=[3.0, 3.0, 3.0]))
    clipped = gym.wrappers.ClipReward(tap, -1.0, 1.0)
    wrapped = Catastrophe(below=9.0, constraints=None).wrap(clipped, Stage.EVALUATION)
    watched = WatchedEnvironment(wrapped, tap, 0, filename=None, defer=False)
    info = play(watched, [array(0.0)] * 3)[-1][4]
    assert (9.0, 0.0) == (info["episode"]["r"], info[MEASURES]["catastrophe"])
