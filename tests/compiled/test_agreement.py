"""The margins of `benchmarks/compiled_agreement.py`, and the direction of its verdicts."""

import math
from pathlib import Path

import compiled_acrobot
import numpy as np
import pytest
from compiled_agreement import (
    CASES,
    ROOT_SEED,
    Case,
    Judgement,
    reversed_pair,
    row_text,
    run_words,
)

from rlexp.config.compose import compose


@pytest.mark.parametrize("name", CASES)
def test_a_margin_is_a_tenth_of_the_range_of_the_task(name: str, tmp_path: Path) -> None:
    """The range goes from random actions to a solved task, and the margin is rounded down."""
    words = [word for word in CASES[name].words if word.startswith("environment=")]
    (composed,) = compose(words, tmp_path)
    reference = composed.plain["environment"]["reference"]
    assert CASES[name].margin == math.floor((reference["threshold"] - reference["random"]) / 10)


@pytest.mark.parametrize("name", CASES)
def test_both_sides_have_the_same_words(name: str) -> None:
    """One command trains both sides, so that they differ in the algorithm only."""
    algorithms = [word for word in run_words(name) if word.startswith("algorithm=")]
    assert algorithms == ["algorithm={},{}".format(*CASES[name].labels)]


def test_a_verdict_is_that_of_the_compiled_side() -> None:
    """Where the library is better by 3 [1, 4], the compiled side is worse by the same numbers."""
    difference = {"estimate": 3.0, "low": 1.0, "high": 4.0}
    pair = reversed_pair({"difference": difference, "verdict": "better"})
    assert pair == {
        "difference": {"estimate": -3.0, "low": -4.0, "high": -1.0},
        "verdict": "worse",
    }


def test_a_case_without_all_runs_has_no_numbers() -> None:
    """The row of an unfinished case holds the reason and no score."""
    case = Case(title="PPO", algorithm="ppo", words=(), steps=1_000, margin=5)
    row = row_text(case, Judgement(verdict="not run"))
    assert row == "| PPO | 1,000 | 5 |  |  |  | not run |"


def test_the_rule_for_more_seeds_has_the_margin_of_the_case() -> None:
    """The new seeds of Acrobot are judged with the margin of before, and are no seeds of before."""
    assert compiled_acrobot.DESIGN.margin == CASES["ppo_acrobot"].margin
    assert compiled_acrobot.NEW_ROOT_SEED != ROOT_SEED


@pytest.mark.parametrize(
    ("shift", "verdict"), [(0, "equivalent"), (39, "undecided"), (90, "different")]
)
def test_the_rule_calls_sides_equivalent_within_the_margin_only(shift: int, verdict: str) -> None:
    """A shift of no, of one, and of more than two margins has its verdict in both directions."""
    generator = np.random.default_rng(1)
    seeds = compiled_acrobot.DESIGN.group
    scores = generator.normal(-100, 20, (2, seeds))
    sides = (scores[0], scores[1] - shift)
    for first, second in (sides, sides[::-1]):
        result = compiled_acrobot.equivalence(first, second)
        assert result.verdict == verdict
        difference = result.difference
        assert difference is not None
        assert difference.low is not None
        assert difference.high is not None
        margin = compiled_acrobot.DESIGN.margin
        inside = -margin < difference.low and difference.high < margin
        assert inside == (verdict == "equivalent")
