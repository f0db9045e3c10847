"""Measures: one number per episode from a key of the info dictionary."""

from typing import Any

import gymnasium
import pytest

from rlexp.environments import MEASURES
from rlexp.environments.measures import EpisodeMeasure
from rlexp.environments.wrappers import Wrapper, wrap
from rlexp.errors import ConfigError, EnvironmentFault


class Scripted(gymnasium.Env[Any, Any]):
    """Returns these info dictionaries, one per step, and ends after the last."""

    observation_space = gymnasium.spaces.Discrete(2)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, *infos: dict[str, Any]) -> None:
        self.infos = infos
        self.steps = 0

    def reset(self, **_: Any) -> tuple[int, dict[str, Any]]:
        self.steps = 0
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        is_last = self.steps == len(self.infos)
        return 0, 1.0, False, is_last, dict(self.infos[self.steps - 1])


def last_info(env: gymnasium.Env[Any, Any]) -> dict[str, Any]:
    """The info of the last step of an episode; earlier steps must have no measures."""
    env.reset()
    while True:
        *_, is_last, info = env.step(0)
        if is_last:
            return info
        assert MEASURES not in info


def scripted_speeds(*values: Any) -> Scripted:
    """An environment with one step for each value of `speed`; None leaves the key out."""
    return Scripted(*({} if value is None else {"speed": value} for value in values))


@pytest.mark.parametrize(
    ("take", "expected"), [("last", 2.0), ("sum", 6.0), ("mean", 2.0), ("largest", 3.0)]
)
def test_takes_the_set_value_in_every_episode(take: Any, expected: float) -> None:
    """A measure is the last, sum, mean or largest value of each episode."""
    env = EpisodeMeasure(scripted_speeds(1.0, 3.0, 2.0), "pace", "speed", take)
    assert [{"pace": expected}] * 2 == [last_info(env)[MEASURES] for _ in range(2)]


@pytest.mark.parametrize(("take", "expected"), [("sum", 4.0), ("mean", 2.0), ("largest", 3.0)])
def test_steps_without_the_key_do_not_count(take: Any, expected: float) -> None:
    """A measure uses only the steps that have the key."""
    env = EpisodeMeasure(scripted_speeds(1.0, None, 3.0, None), "pace", "speed", take)
    assert {"pace": expected} == last_info(env)[MEASURES]


def test_booleans_become_numbers() -> None:
    """A Boolean becomes 0 or 1, and a second measure is added to the first."""
    inner = EpisodeMeasure(
        Scripted({"is_success": True, "crashed": False}), "success", "is_success"
    )
    assert {"success": 1.0, "crash": 0.0} == last_info(EpisodeMeasure(inner, "crash", "crashed"))[
        MEASURES
    ]


@pytest.mark.parametrize(("take", "values"), [("last", (1.0, None)), ("sum", (None, None))])
def test_a_missing_key_is_named_with_those_that_exist(take: Any, values: Any) -> None:
    """A key that the last step lacks is an error at the end of the episode."""
    env = scripted_speeds(*values)
    env.infos = (*env.infos[:-1], {"crashed": False, "time": 3})
    with pytest.raises(EnvironmentFault, match=r"no key 'speed' .*; it has crashed, time"):
        last_info(EpisodeMeasure(env, "pace", "speed", take))


@pytest.mark.parametrize("value", ["fast", (1.0, 2.0), None])
def test_a_value_that_is_no_number_is_named(value: Any) -> None:
    """Text and vectors are refused as measures."""
    with pytest.raises(EnvironmentFault, match=r"measure pace: info\['speed'\] is .* no single"):
        last_info(EpisodeMeasure(Scripted({"speed": value}), "pace", "speed"))


def test_a_measure_is_a_wrapper_of_the_configuration() -> None:
    """A configuration can use a measure as a wrapper; a wrong `take` is a ConfigError."""
    name = "rlexp.environments.measures:Measured"
    arguments = {"name": "pace", "key": "speed"}
    env = wrap(scripted_speeds(4.0), Wrapper(name=name, arguments=arguments), frozenset())
    assert {"pace": 4.0} == last_info(env)[MEASURES]
    wrong_wrapper = Wrapper(name=name, arguments={**arguments, "take": "first"})
    with pytest.raises(ConfigError, match="take='first' must be one of last, sum, mean, largest"):
        wrap(scripted_speeds(4.0), wrong_wrapper, frozenset())
