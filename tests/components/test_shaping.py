"""Potential-based shaping: sums telescope, optimal policies stay, imports are checked."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import Scripted, array, play

from rlexp.components.shaping import Shaping, Term
from rlexp.environments import Stage
from rlexp.errors import ConfigError

LINE = Term(weight=2.0, entry=0, power=1)
FINITE = st.floats(-100, 100)


def shaping(**settings: Any) -> Shaping:
    """The component with the settings of its yaml and changes."""
    defaults: dict[str, Any] = {"terms": (LINE,), "function": None, "scale": 1.0, "discount": 0.9}
    return Shaping(**({"imports": (), **defaults} | settings))


def rewards(env: Any, steps: int) -> list[float]:
    """The rewards of an episode."""
    return [float(step[1]) for step in play(env, [array(0.0)] * steps)]


def test_a_reward_is_that_of_the_task_and_the_growth_of_the_potential() -> None:
    """Shaping adds the discounted growth of 2x - x², which is 0 at the end, to the reward."""
    terms = (LINE, Term(weight=-1.0, entry=0, power=2))
    script = Scripted([1, 3, 2, 7], rewards=[1.0, 10.0, 100.0])
    env = shaping(terms=terms).wrap(script, Stage.TRAINING)
    expected = [1 + 0.9 * -3 - 1, 10 + 0.9 * 0 + 3, 100 + 0.0 - 0]
    assert expected == pytest.approx(rewards(env, 3))
    assert expected == pytest.approx(rewards(env, 3))


def test_a_truncation_keeps_the_potential() -> None:
    """The potential counts at a truncation, because the learner bootstraps there."""
    for truncates, last in ((True, 0.9 * 2 * 5 - 2), (False, -2)):
        env = shaping().wrap(Scripted([1, 5], rewards=[0], truncates=truncates), Stage.TRAINING)
        assert [last] == pytest.approx(rewards(env, 1))


@given(
    places=st.lists(FINITE, min_size=2, max_size=12),
    discount=st.floats(0, 1),
    scale=FINITE,
    truncates=st.booleans(),
)
def test_discounted_sums_telescope(
    places: Sequence[float], discount: float, scale: float, truncates: bool
) -> None:
    """Shaping adds the last potential minus the first to a discounted return."""
    script = Scripted(places, rewards=[0.0] * (len(places) - 1), truncates=truncates)
    env = shaping(scale=scale, discount=discount).wrap(script, Stage.TRAINING)
    steps = len(places) - 1
    discounted_return = sum(discount**t * reward for t, reward in enumerate(rewards(env, steps)))
    last = discount**steps * 2 * scale * places[-1] if truncates else 0.0
    assert last - 2 * scale * places[0] == pytest.approx(discounted_return, abs=1e-6)


class Chain(gym.Env[Any, Any]):
    """Five places in a row with terminal ends; the right end pays."""

    observation_space = gym.spaces.Box(0.0, 4.0, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, begin: int) -> None:
        self.begin = self.place = begin

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.place = self.begin
        return array(self.place), {}

    def step(self, action: Any) -> Any:
        self.place += 2 * int(action) - 1
        reward = {0: 0.3, 4: 1.0}.get(self.place, -0.05)
        return array(self.place), reward, self.place in {0, 4}, False, {}


def values(component: Shaping | None) -> Any:
    """The optimal action values of the inner places by value iteration (3 × 2)."""
    model = {}
    for place in (1, 2, 3):
        for action in (0, 1):
            env: Any = Chain(place)
            env = env if component is None else component.wrap(env, Stage.TRAINING)
            env.reset()
            observation, reward, terminated, *_ = env.step(action)
            model[place, action] = (float(reward), int(observation[0]), terminated)
    action_values = np.zeros((5, 2))
    for _ in range(500):
        best = action_values.max(axis=1)
        for (place, action), (reward, next_place, is_end) in model.items():
            action_values[place, action] = reward + (0.0 if is_end else 0.9 * best[next_place])
    return action_values[1:4]


@given(weights=st.lists(FINITE, min_size=1, max_size=3))
def test_the_optimal_policy_stays(weights: Sequence[float]) -> None:
    """Every action value is lower by the potential of its place (theorem 1)."""
    terms = tuple(Term(weight=w, entry=0, power=p) for p, w in enumerate(weights, 1))
    potential = np.array([[sum(t.value(array(place)) for t in terms)] for place in (1, 2, 3)])
    assert values(None) - potential == pytest.approx(values(shaping(terms=terms)), abs=1e-6)


def test_shaping_with_another_discount_changes_action_values() -> None:
    """Shaping with another discount changes the action values, so the test above can fail."""
    terms = (Term(weight=-50.0, entry=0, power=1),)
    potential = np.array([[-50.0], [-100.0], [-150.0]])
    wrong_values = values(shaping(terms=terms, discount=0.5))
    assert np.abs(values(None) - potential - wrong_values).max() > 1


def test_scores_are_those_of_the_task() -> None:
    """Only training is shaped, and scale 0 disables shaping."""
    env = Scripted([0, 0])
    for stage in (Stage.EVALUATION, Stage.IN_DISTRIBUTION):
        assert env is shaping().wrap(env, stage)
    assert env is shaping(scale=0.0).wrap(env, Stage.TRAINING)
    assert not shaping().splits


@pytest.fixture
def _user_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a user's module with a potential function."""
    text = "LIMIT = 3\n\ndef height(observation):\n    return 5 * observation[0]\n"
    (tmp_path / "own_potentials.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))


def shaping_by_function(name: str, imports: tuple[str, ...] = ("own_potentials",)) -> Shaping:
    """Shaping by a function of a module."""
    return shaping(terms=(), function=name, imports=imports)


@pytest.mark.usefixtures("_user_module")
def test_a_function_of_an_imported_module_is_a_potential() -> None:
    """The potential is five times the place: from 1 to 2, it adds 0.9 * 10 - 5."""
    env = shaping_by_function("own_potentials:height").wrap(
        Scripted([1, 2, 0], rewards=[0, 0]), Stage.TRAINING
    )
    assert [4.0, -10.0] == pytest.approx(rewards(env, 2))


@pytest.mark.usefixtures("_user_module")
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("os:system", "may not be loaded: 'os' is not in environment.imports"),
        ("own_potentials", "is no function: write module:function"),
        ("own_potentials:os.system", "is no function: write module:function"),
        ("own_potentials:hight", "is no function of own_potentials; did you mean 'height'"),
        ("own_potentials:LIMIT", "'LIMIT' is no function"),
    ],
)
def test_functions_from_elsewhere_are_refused(name: str, reason: str) -> None:
    """Only functions of imported modules are loaded, and only by their plain names."""
    with pytest.raises(ConfigError, match=reason):
        shaping_by_function(name).wrap(Scripted([0, 0]), Stage.TRAINING)


def test_a_missing_module_is_named() -> None:
    """A module that is allowed but missing is named."""
    with pytest.raises(ConfigError, match="module 'nowhere_at_all' does not import"):
        shaping_by_function("nowhere_at_all:f", ("nowhere_at_all",)).wrap(
            Scripted([0, 0]), Stage.TRAINING
        )


def test_potentials_that_do_not_fit_are_refused() -> None:
    """No potential, two potentials, and a term on a missing entry are refused."""
    for settings in ({"terms": ()}, {"function": "a:b", "imports": ("a",)}):
        with pytest.raises(ConfigError, match="needs its potential once"):
            shaping(**settings)
    term = Term(weight=1.0, entry=4, power=1)
    with pytest.raises(ConfigError, match="entry 4 of observations, which have 1"):
        shaping(terms=(term,)).wrap(Scripted([0, 0]), Stage.TRAINING)
    discrete: Any = Scripted([0, 0])
    discrete.observation_space = gym.spaces.Discrete(3)
    with pytest.raises(ConfigError, match=r"observations that are arrays of numbers \(Box\)"):
        shaping().wrap(discrete, Stage.TRAINING)
