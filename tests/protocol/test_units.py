"""Units of steps: which a run has, and how texts name them."""

import pytest
from samples import configuration

from rlexp.protocol.seeds import Phase
from rlexp.protocol.units import differing_units, in_units, unit_of


@pytest.mark.parametrize(
    ("environment", "unit"),
    [
        ({}, "environment_steps"),
        ({"unit": None}, "environment_steps"),
        ({"unit": "tokens"}, "tokens"),
        ([], "environment_steps"),
    ],
)
def test_a_run_without_a_unit_counts_environment_steps(environment: object, unit: str) -> None:
    """Null, an absent unit and a damaged file mean environment steps."""
    assert unit == unit_of(environment)  # type: ignore[arg-type]


def test_a_unit_defines_a_run_and_no_unit_changes_no_identity() -> None:
    """A run with the unit null has the id of a run that was recorded before there were units."""
    spec = configuration("ppo").spec(Phase.TEST, 0, 0)
    ids = [
        type(spec).from_plain({**spec.plain(), "environment": {**spec.environment, **setting}}).id
        for setting in ({}, {"unit": None}, {"unit": "tokens"})
    ]
    assert (True, False) == (ids[0] == ids[1], ids[0] == ids[2])


@pytest.mark.parametrize(
    ("text", "unit", "said"),
    [
        ("10 environment steps", "environment_steps", "10 environment steps"),
        ("10 environment steps", "gradient_steps", "10 gradient steps"),
        ("an environment step", "tokens", "a token"),
        ("Environment steps of the search", "episodes", "Episodes of the search"),
    ],
)
def test_texts_name_the_unit(text: str, unit: str, said: str) -> None:
    """A text about environment steps becomes one about another unit."""
    assert said == in_units(text, unit)


def test_differing_units_are_named_with_an_example_of_each() -> None:
    """Two units are named, each with the first that has it; one unit needs no words."""
    runs = [("a", "tokens"), ("b", "tokens"), ("c", "environment_steps")]
    assert "in tokens (a) and in environment steps (c)" == differing_units(runs)
    assert "" == differing_units(runs[:2])
