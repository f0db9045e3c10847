"""A search space translated into Optuna's distributions."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mirroring import SPACE
from optuna.distributions import CategoricalDistribution as Categorical
from optuna.distributions import FloatDistribution as Float
from optuna.distributions import IntDistribution as Int

from rlexp.exchange.optuna_trials import ranges, value_and_range
from rlexp.protocol.space import Choice, Domain, Integer, Parameter, Real, Space


def single_parameter_space(domain: Domain) -> Space:
    """A search space of one parameter."""
    return Space(parameters=(Parameter(key="x", domain=domain),))


@pytest.mark.parametrize(
    ("domain", "distribution"),
    [
        (Real(0, 1), Float(0.0, 1.0)),
        (Real(1e-5, 1e-1, "log"), Float(1e-5, 1e-1, log=True)),
        (Real(0.9, 0.9999, "flipped_log"), Float(0.9, 0.9999)),
        (Integer(1, 9), Int(1, 9)),
        (Integer(16, 2048, log=True), Int(16, 2048, log=True)),
        (Choice((None, True, 0.5, 3, "relu")), Categorical([None, True, 0.5, 3, "relu"])),
        (Choice(([64, 64], {"a": 1})), Categorical(["[64,64]", '{"a":1}'])),
        (Choice(("[1]", [1])), Categorical(['"[1]"', "[1]"])),
        (Choice((True, 1)), Categorical(["true", "1"])),
        (Choice((1, 1.0)), Categorical(["1", "1.0"])),
    ],
)
def test_ranges(domain: Domain, distribution: Any) -> None:
    """Each domain has its distribution; values that Optuna would confuse become JSON texts."""
    assert {"x": distribution} == ranges(single_parameter_space(domain), {})


@pytest.mark.parametrize(
    ("domain", "default", "distribution"),
    [
        (Real(0, 1), 2, Float(0.0, 2.0)),
        (Real(1e-3, 1e-1, "log"), 1e-4, Float(1e-4, 1e-1, log=True)),
        (Real(1e-3, 1e-1, "log"), 0.0, Float(1e-3, 1e-1, log=True)),
        (Integer(16, 64), 8, Int(8, 64)),
        (Integer(16, 64, log=True), 0, Int(16, 64, log=True)),
        (Choice(("relu", "tanh")), "elu", Categorical(["relu", "tanh"])),
    ],
)
def test_default_widens(domain: Domain, default: Any, distribution: Any) -> None:
    """The distribution is widened to contain the default, if its scale allows it."""
    assert {"x": distribution} == ranges(single_parameter_space(domain), {"x": default})


@pytest.mark.parametrize(
    ("domain", "value", "expected"),
    [
        (Real(0, 1), 0.25, (0.25, Float(0.0, 1.0))),
        (Real(0, 1), -1, (-1.0, Float(-1.0, 1.0))),
        (Integer(1, 9), 4.0, (4, Int(1, 9))),
        (Integer(1, 9), 20, (20, Int(1, 20))),
        (Choice((1, True)), True, ("true", Categorical(["1", "true"]))),
        (Real(0, 1), None, None),
        (Real(0, 1), True, None),
        (Real(0, 1), "auto", None),
        (Real(0, 1), float("nan"), None),
        (Real(0, 1), float("inf"), None),
        (Real(1e-3, 1, "log"), 0, None),
        (Integer(1, 9), 2.5, None),
        (Integer(1, 9, log=True), 0, None),
        (Choice(("relu", "tanh")), "elu", None),
    ],
)
def test_value_and_range(domain: Domain, value: Any, expected: Any) -> None:
    """A value gets a distribution that contains it; an impossible value gets none."""
    assert expected == value_and_range(
        domain, ranges(single_parameter_space(domain), {})["x"], value
    )


@given(st.lists(st.floats(0, 1), min_size=3, max_size=3))
def test_points_are_inside(point: list[float]) -> None:
    """Optuna returns every value that a tuner can propose unchanged."""
    distributions = ranges(SPACE, {})
    for parameter, value in zip(SPACE.parameters, SPACE.decode(point).values(), strict=True):
        result = value_and_range(parameter.domain, distributions[parameter.key], value)
        assert result is not None
        stored_value, distribution = result
        assert distributions[parameter.key] == distribution
        assert stored_value == distribution.to_external_repr(
            distribution.to_internal_repr(stored_value)
        )
