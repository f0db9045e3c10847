"""The declared rule of a choice on a front: what it chooses, what it says, and what is refused."""

from typing import Any

import pytest

from rlexp.errors import ConfigError
from rlexp.protocol.front_rule import (
    check_reference,
    check_utility_weights,
    read_rule,
)

OBJECTIVES = ("score", "cost")
FRONT = [(10.0, -1.0), (60.0, -3.0), (90.0, -20.0), (100.0, -80.0)]
"""Greater is better: a cost of 1, 3, 20 and 80."""


def choice(value: Any, front: Any = FRONT) -> int:
    """The position of the chosen policy."""
    return read_rule(value, OBJECTIVES, {"cost"}).best(front)


def test_each_rule_chooses_its_policy() -> None:
    """The first objective, the knee, a weighted sum and a bound choose different policies."""
    assert 3 == choice("first")
    assert 2 == choice("knee")
    assert 1 == choice({"weights": {"score": 1, "cost": 10}})
    assert 0 == choice({"weights": {"score": 0, "cost": 1}})
    assert 2 == choice({"constraint": {"cost": 20}})
    assert 1 == choice({"constraint": {"cost": 19.9}})
    assert 1 == choice({"constraint": {"score": 60}})


def test_the_knee_does_not_depend_on_units() -> None:
    """A cost in other units has the same knee, and a front of two falls back on the first objective."""
    assert 2 == choice("knee", [(score, 1000 * cost) for score, cost in FRONT])
    assert 1 == choice("knee", FRONT[:2])
    assert "fewer than three" in read_rule("knee", OBJECTIVES, {"cost"}).text(FRONT[:2])


def test_where_no_policy_keeps_a_bound_the_nearest_one_is_chosen() -> None:
    """The rule says that none keeps it."""
    rule = read_rule({"constraint": {"cost": 0.5}}, OBJECTIVES, {"cost"})
    assert 0 == rule.best(FRONT)
    assert "the policy that is nearest to cost at most 0.5, which none keeps" == rule.text(FRONT)


def test_the_words_name_what_decided() -> None:
    """The text of each rule names objectives, directions and numbers."""
    assert "the best score" == read_rule("first", OBJECTIVES).text(FRONT)
    weights = read_rule({"weights": {"cost": 2, "score": 1}}, OBJECTIVES, {"cost"})
    assert "the best weighted sum, 1 × score and 2 × cost" == weights.text(FRONT)
    bound = read_rule({"constraint": {"cost": 20}}, OBJECTIVES, {"cost"})
    assert "the best score with cost at most 20" == bound.text(FRONT)
    assert "at least 50" in read_rule({"constraint": {"score": 50}}, OBJECTIVES).text(FRONT)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("elbow", "is no rule of a choice: write first, knee, {weights"),
        ({"weights": {"score": 1}}, "has no number for cost: give one for each objective"),
        (
            {"weights": {"score": 1, "coast": 1}},
            "names coast, which sweep.objective does not; did you",
        ),
        ({"weights": {"score": 1, "cost": -1}}, "must be 0 or more, and not all 0"),
        ({"weights": {"score": 0, "cost": 0}}, "must be 0 or more, and not all 0"),
        ({"weights": {"score": 1, "cost": float("nan")}}, "must be a finite number"),
        ({"weights": 3}, "must name objectives with a number each, of score, cost"),
        ({"constraint": {}}, "must name objectives with a number each"),
        ({"constraint": {"score": 1, "cost": 1}}, "bounds all objectives"),
        ({"weights": {}, "constraint": {}}, "is no rule of a choice"),
    ],
)
def test_rules_that_do_not_fit_are_refused(value: Any, message: str) -> None:
    """Each mistake is refused in one line, which names what is allowed."""
    with pytest.raises(ConfigError) as caught:
        read_rule(value, OBJECTIVES)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_reference_points_and_utilities_name_every_objective() -> None:
    """A reference point without a number, and weights of the wrong length, are refused."""
    check_reference({"score": 0, "cost": 50}, OBJECTIVES)
    with pytest.raises(ConfigError, match="has no number for cost"):
        check_reference({"score": 0}, OBJECTIVES)
    check_utility_weights([[1, 0], [0.5, 0.5]], OBJECTIVES)
    for wrong in ([], [[1.0]], [[0.0, 0.0]], [[1.0, -1.0]]):
        with pytest.raises(ConfigError, match=r"sweep\.utility_weights"):
            check_utility_weights(wrong, OBJECTIVES)
