"""How often runs are evaluated: a tenth of their budget, where nothing else is said."""

from pathlib import Path

import pytest
from composing import at, one, refusal
from quick_parts import quick_parts

from rlexp.config.compose import compose
from rlexp.config.sweep import compose_sweep

quick = pytest.fixture(autouse=True)(quick_parts)

INTERVAL = "budget.evaluation_every"
FEWER = 100
"""Environment steps of a trial that a tuner tries for a shorter time."""


@pytest.mark.parametrize(
    ("word", "interval"),
    [
        ("budget.steps=4000", 400),
        ("budget.steps=4_019", 401),
        ("budget.steps=1e6", 100_000),
        ("budget.steps=9", 1),
        ("budget.evaluation_every=tenth", 10_000),
        ("budget.evaluation_every=70", 70),
        ("budget.evaluation_every=null", None),
    ],
)
def test_the_default_is_a_tenth_of_the_budget(
    tmp_path: Path, word: str, interval: int | None
) -> None:
    """It is rounded down, at least 1, and a number or null wins over it."""
    assert interval == at(one(tmp_path, word), INTERVAL)


def test_every_configuration_of_a_grid_has_its_tenth(tmp_path: Path) -> None:
    """Budgets of a grid, and the interval itself as a choice, are settled one by one."""
    composed = compose(["budget.steps=1000,2000", f"{INTERVAL}=tenth,50"], tmp_path)
    assert [100, 50, 200, 50] == [at(each.plain, INTERVAL) for each in composed]


def test_every_cell_of_a_matrix_has_its_tenth(tmp_path: Path) -> None:
    """A cell has the tenth of its budget, or of the budget that the command gives to all."""
    matrix = "+benchmark=classic_control"
    for words in ([matrix], [matrix, "budget.steps=3000"]):
        budgets = [each.plain["budget"] for each in compose(words, tmp_path)]
        assert [b["steps"] // 10 for b in budgets] == [b["evaluation_every"] for b in budgets]


def test_what_refers_to_the_interval_gets_its_number(tmp_path: Path) -> None:
    """A checkpoint at each evaluation follows the budget."""
    words = ("budget.steps=4000", "budget.checkpoint_every=${budget.evaluation_every}")
    assert 400 == at(one(tmp_path, *words), "budget.checkpoint_every")


def test_other_words_are_refused(tmp_path: Path) -> None:
    """The message says what is allowed, for a run and for a sweep."""
    message = refusal(tmp_path, f"{INTERVAL}=half")
    for text in (f"{INTERVAL}=half", "tenth (a tenth of budget.steps)", "or null"):
        assert text in message


@pytest.mark.parametrize("word", ["algorithm.gae_lambda=0.9", "algorithm.gae_lambda=${.gamma}"])
def test_shorter_trials_keep_the_interval_of_the_sweep(tmp_path: Path, word: str) -> None:
    """Seeds of final evaluations follow the count of evaluations, which are at equal steps."""
    words = ["algorithm.gamma=0.9,0.99", "tuner=dehb", "budget.steps=4000", word]
    request = compose_sweep(None, words, tmp_path)
    trial = request.configure({"algorithm.gamma": 0.9}, FEWER)
    assert (FEWER, 400) == (at(trial, "budget.steps"), at(trial, INTERVAL))
    assert 400 == at(request.plain, INTERVAL)
