"""Budgets of runs, and the refusal of budgets that contradict themselves."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import SETTINGS, budget

from rlexp.errors import ConfigError
from rlexp.protocol.budget import OPERATIONAL, Budget, Compute
from rlexp.protocol.seeds import MAXIMUM_EVALUATIONS


def test_what_defines_a_run_leaves_out_how_it_is_executed() -> None:
    """The defining settings are all settings except checkpoints and time limits."""
    expected = {k: v for k, v in SETTINGS.items() if k not in OPERATIONAL}
    assert expected == budget(checkpoint_every=5, timeout=1.5).defining()


@given(st.none() | st.integers(1), st.none() | st.floats(0.1, 1e9))
def test_operational_settings_never_matter(interval: int | None, timeout: float | None) -> None:
    """Any operational settings leave the defining part unchanged."""
    changed = budget(checkpoint_every=interval, checkpoint_minutes=timeout, timeout=timeout)
    assert budget().defining() == changed.defining()


def test_a_recorded_budget_is_the_same_budget() -> None:
    """The defining settings of an extended training, as JSON values, give an equal budget."""
    extended = budget(restarts=(50,))
    assert extended == Budget(**json.loads(json.dumps(extended.defining())))


@pytest.mark.parametrize("score", ["auc", "last_window"])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"evaluation_every": None}, "reads the evaluation curve; set budget.evaluation_every"),
        ({"evaluation_every": 101}, "evaluation_every=101 is more than budget.steps=100"),
    ],
)
def test_a_score_of_the_curve_needs_a_curve(
    score: str, changes: dict[str, Any], message: str
) -> None:
    """A run that would end without its score is refused before it starts."""
    with pytest.raises(ConfigError, match=message):
        budget(score=score, **changes)


@pytest.mark.parametrize("evaluation_every", [None, 101])
def test_the_final_score_needs_no_curve(evaluation_every: int | None) -> None:
    """The final score needs no evaluation during training."""
    assert (
        evaluation_every
        == budget(score="final", evaluation_every=evaluation_every).evaluation_every
    )


def test_evaluations_beyond_the_seeds_are_refused() -> None:
    """More evaluations than seeds are refused, with an interval that is then accepted."""
    limit = MAXIMUM_EVALUATIONS
    assert limit == budget(steps=limit, evaluation_every=1).steps
    with pytest.raises(ConfigError, match=f"2,048 evaluations; at most {limit:,}.*use 2 or more"):
        budget(steps=limit + 1, evaluation_every=1)
    assert 2 == budget(steps=limit + 1, evaluation_every=2).evaluation_every


@given(st.integers(1, 10**9))
def test_the_advice_on_evaluations_is_good(steps: int) -> None:
    """Following the message leads to a budget that is accepted."""
    try:
        budget(steps=steps, evaluation_every=1)
    except ConfigError as error:
        interval = int(str(error).split("use ")[1].split()[0])
        assert interval == budget(steps=steps, evaluation_every=interval).evaluation_every


def test_a_batch_defines_a_run_and_a_run_by_itself_has_none() -> None:
    """Runs that are advanced together have another definition; a batch of 1 is that of before."""
    alone = {"threads": 1, "device": "cpu"}
    assert alone == Compute(threads=1, device="cpu").defining()
    assert alone == Compute(threads=1, device="cpu", batch=1).defining()
    assert {**alone, "batch": 8} == Compute(threads=1, device="cpu", batch=8).defining()
