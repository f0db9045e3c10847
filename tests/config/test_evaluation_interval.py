"""The default of `budget.evaluation_every`: a tenth of the budget."""

from pathlib import Path

import pytest
from composing import compose_one, refusal, value_at
from quick_parts import quick_parts

from rlexp.config.compose import compose
from rlexp.config.sweep import compose_sweep

quick = pytest.fixture(autouse=True)(quick_parts)

INTERVAL = "budget.evaluation_every"
SHORT_TRIAL_STEPS = 100
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
    """The tenth is rounded down and at least 1; a number or null wins over it."""
    assert interval == value_at(compose_one(tmp_path, word), INTERVAL)


def test_every_configuration_of_a_grid_has_its_tenth(tmp_path: Path) -> None:
    """The interval is computed for each configuration of a grid."""
    configurations = compose(["budget.steps=1000,2000", f"{INTERVAL}=tenth,50"], tmp_path)
    assert [100, 50, 200, 50] == [value_at(each.plain, INTERVAL) for each in configurations]


def test_every_cell_of_a_matrix_has_its_tenth(tmp_path: Path) -> None:
    """Each cell has the tenth of its own budget, or of the budget in the command."""
    matrix = "+benchmark=classic_control"
    for overrides in ([matrix], [matrix, "budget.steps=3000"]):
        budgets = [each.plain["budget"] for each in compose(overrides, tmp_path)]
        assert [b["steps"] // 10 for b in budgets] == [b["evaluation_every"] for b in budgets]


def test_references_to_the_interval_get_its_number(tmp_path: Path) -> None:
    """A reference to `budget.evaluation_every` becomes the computed number."""
    overrides = ("budget.steps=4000", "budget.checkpoint_every=${budget.evaluation_every}")
    assert 400 == value_at(compose_one(tmp_path, *overrides), "budget.checkpoint_every")


def test_unknown_word_is_refused(tmp_path: Path) -> None:
    """The error for an unknown word lists the allowed values of the interval."""
    message = refusal(tmp_path, f"{INTERVAL}=half")
    for text in (f"{INTERVAL}=half", "tenth (a tenth of budget.steps)", "or null"):
        assert text in message


@pytest.mark.parametrize("word", ["algorithm.gae_lambda=0.9", "algorithm.gae_lambda=${.gamma}"])
def test_shorter_trials_keep_the_interval_of_the_sweep(tmp_path: Path, word: str) -> None:
    """A trial with fewer steps is evaluated at the same steps as a full trial."""
    overrides = ["algorithm.gamma=0.9,0.99", "tuner=dehb", "budget.steps=4000", word]
    request = compose_sweep(None, overrides, tmp_path)
    trial = request.configure({"algorithm.gamma": 0.9}, SHORT_TRIAL_STEPS)
    assert (SHORT_TRIAL_STEPS, 400) == (value_at(trial, "budget.steps"), value_at(trial, INTERVAL))
    assert 400 == value_at(request.plain, INTERVAL)
