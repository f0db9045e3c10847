"""Safety measures constraints in evaluations, compared with results by hand."""

from math import nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import Scripted, array, play

from rlexp.components.constraints import Constraint
from rlexp.components.safety import Safety
from rlexp.environments import MEASURES, Stage
from rlexp.errors import ConfigError, EnvironmentFault

TRACK = Constraint(entry=0, above=1.0, below=-1.0)
PUSH = Constraint(action=0, above=0.5)


def measures(env: Any, actions: list[Any]) -> dict[str, float]:
    """The measures at the end of an episode."""
    steps = play(env, actions)
    assert all(MEASURES not in step[4] for step in steps[:-1])
    return dict(steps[-1][4][MEASURES])


def test_costs_are_what_is_beyond_the_bounds() -> None:
    """Costs are the sums of the distances beyond the bounds."""
    env = Safety(constraints={"track": TRACK, "push": PUSH}).wrap(
        Scripted([9.0, 0.0, 1.5, -3.0, 1.0]), Stage.EVALUATION
    )
    expected = {"cost": 2.75, "violations": 0.75, "cost/track": 2.5, "cost/push": 0.25}
    for _ in range(2):  # the second episode counts anew
        assert expected == measures(env, [array(0.75), array(0.5), array(0.0), array(0.0)])


def test_a_key_of_info_is_a_cost_unless_it_has_bounds() -> None:
    """An info key without bounds is summed; with a bound, the excess above it is summed."""
    infos = [{"cost": 1.0}, {"cost": 0.0}, {"cost": 3.0}]
    env = Scripted([0, 0, 0, 0], infos=infos)
    constraints = {"told": Constraint(key="cost"), "much": Constraint(key="cost", above=2.0)}
    result = measures(Safety(constraints=constraints).wrap(env, Stage.EVALUATION), [array(0)] * 3)
    assert {"cost": 5.0, "violations": 2 / 3, "cost/told": 4.0, "cost/much": 1.0} == result


def test_a_key_that_info_lacks_is_named() -> None:
    """A missing info key is an error at the first training step, not a cost of 0."""
    env = Scripted([0, 0], infos=[{"cost": 1.0}])
    wrapped_env = Safety(constraints={"told": Constraint(key="costs")}).wrap(env, Stage.TRAINING)
    with pytest.raises(ConfigError, match="lacks; did you mean 'cost'"):
        play(wrapped_env, [array(0)])


@given(value=st.floats(-1e6, 1e6), below=st.floats(-1e6, 1e6), width=st.floats(0, 1e6))
def test_a_violation_is_the_distance_to_the_bounds(
    value: float, below: float, width: float
) -> None:
    """A violation is 0 within the bounds, and the distance to the nearer bound beyond."""
    above = below + width
    violation = Constraint(entry=0, above=above, below=below).violation(array(value), None, {})
    assert (violation == 0.0) == (below <= value <= above)
    assert max(value - above, below - value, 0.0) == violation


@pytest.mark.parametrize(
    ("constraint", "number"),
    [
        (Constraint(entry=0, above=1.0), "entry 0 of the observation"),
        (Constraint(action=0, below=1.0), "entry 0 of the action"),
        (Constraint(key="cost"), "'cost' of info"),
    ],
)
def test_a_number_that_is_nan_is_refused(constraint: Constraint, number: str) -> None:
    """NaN is neither within bounds nor beyond them, so it is an error and not a cost of 0."""
    with pytest.raises(EnvironmentFault, match=f"{number}, which is NaN"):
        constraint.violation(array(nan), array(nan), {"cost": nan})


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({}, "names no number"),
        ({"entry": 0, "key": "cost", "above": 1.0}, "names entry and key"),
        ({"entry": 0}, "on entry 0 has no bound"),
        ({"entry": 0, "above": -1.0, "below": 1.0}, "every number is above -1.0 or below 1.0"),
    ],
)
def test_invalid_constraints_are_refused(settings: Any, reason: str) -> None:
    """A constraint needs one number and bounds with a number between them."""
    with pytest.raises(ConfigError, match=reason):
        Constraint(**settings)


def test_training_is_not_measured() -> None:
    """Training has no costs, which would slow down each step."""
    env = Scripted([0.0, 0.0])
    component = Safety(constraints={"track": TRACK})
    assert env is component.wrap(env, Stage.TRAINING)
    assert env is not component.wrap(env, Stage.IN_DISTRIBUTION)
    assert not component.splits


def test_constraints_that_do_not_fit_are_refused() -> None:
    """Missing entries and actions without entries are refused before the run."""
    env = Scripted([0.0, 0.0])
    for constraint, reason in (
        (Constraint(entry=1, above=0.0), "entry 1 of observations, which have 1"),
        (Constraint(action=3, above=0.0), "entry 3 of actions"),
    ):
        with pytest.raises(ConfigError, match=reason):
            Safety(constraints={"x": constraint}).wrap(env, Stage.TRAINING)
    with pytest.raises(ConfigError, match="has no constraint"):
        Safety(constraints={})
