"""Answers of the reproducibility checklist for reports with sweeps."""

from dataclasses import replace
from typing import Any

import pytest
from evidence_samples import inquiry, typical
from sweep_samples import (
    SWEEPS,
    beside_untuned,
    searching,
    sweep,
    swept,
    swept_evidence,
    two_sweeps,
)

from rlexp.reports.analysis.checklist import ChecklistAnswer, ChecklistItem, failed_checks, items
from rlexp.reports.evidence.runs import Evidence


def item(number: int, sample: Evidence) -> ChecklistItem:
    """The item of the checklist with this number."""
    return items(inquiry(sample))[number - 1]


def sweep_with(**changes: Any) -> Evidence:
    """Evidence of a sweep with a changed plan."""
    sample = swept()
    return replace(sample, sweeps=(swept_evidence(definition=sweep(**changes)),))


@pytest.mark.parametrize("name", SWEEPS)
def test_every_item_has_evidence(name: str) -> None:
    """Every item has evidence, for every sample of sweeps."""
    for entry in items(inquiry(SWEEPS[name]())):
        assert entry.evidence.endswith(".")


@pytest.mark.parametrize("number", [2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 15])
def test_a_sweep_answers_the_items_about_tuning(number: int) -> None:
    """A sweep answers items that plain runs leave to the author."""
    assert ChecklistAnswer.YES is item(number, swept()).answer
    if number not in {5, 8, 13}:
        assert ChecklistAnswer.WORDS is item(number, typical()).answer


def test_a_finished_sweep_passes_the_strict_checks() -> None:
    """`--strict` accepts a finished sweep."""
    assert () == failed_checks(inquiry(swept()))


def test_tuner_and_pruner_are_named_with_their_settings() -> None:
    """Item 2 names tuner and pruner with settings and package versions."""
    expected = "sample: tuner tpe (startup = 10), pruner none. Versions: numpy 2.1.0, rlexp 0.1.0."
    assert expected == item(2, swept()).evidence


def test_ranges_that_differ_need_words() -> None:
    """Item 4 lists both ranges of a parameter that differ."""
    entry = item(4, two_sweeps())
    expected = (
        "Ranges differ: algorithm.learning_rate is 1e-05 to 0.1, log in sample, 1e-06 to 1, log "
        "in other. State why."
    )
    assert (ChecklistAnswer.WORDS, expected) == (entry.answer, entry.evidence)


def test_ranges_that_are_shared_are_a_yes() -> None:
    """Item 4 answers yes where all shared parameters have equal ranges."""
    sample = swept()
    two_equal_sweeps = replace(sample, sweeps=(sample.sweeps[0], swept_evidence("other")))
    assert ChecklistAnswer.YES is item(4, two_equal_sweeps).answer
    assert "one of 4 hyperparameters" in item(4, two_equal_sweeps).evidence


def test_the_objective_is_stated() -> None:
    """Item 5 states the objective with its aggregate, and further objectives."""
    assert "sample optimised the mean over tuning seeds of the score." in item(5, swept()).evidence
    text = item(5, sweep_with(objective=("auc", "spread"), aggregate="iqm")).evidence
    assert "iqm over tuning seeds of the mean height of the curve of evaluations" in text
    assert text.endswith(", and spread.")


def test_the_budget_is_stated_in_both_units() -> None:
    """Item 6 states full-run equivalents of configurations and environment steps of all seeds."""
    text = item(6, sweep_with(steps=500_000, full_runs=10.5, hours=2.0)).evidence
    limits = "12 trials, 10.5 full-run equivalents, 500,000 environment steps and 2 hours"
    assert f"sample: at most {limits}; spent 9.38 full-run equivalents of 11,000 steps" in text
    assert "248,000 environment steps in 12 trials" in text


def test_unequal_searches_are_a_no() -> None:
    """Item 7 answers no where searches of one task used different budgets."""
    entry = item(7, two_sweeps())
    assert ChecklistAnswer.NO is entry.answer
    assert "tuned 248,000 environment steps in 12 trials; other/tuned 744,000" in entry.evidence


def test_a_budget_in_hours_needs_words() -> None:
    """Item 8 lists the recorded machine and asks the author about the others."""
    entry = item(8, sweep_with(hours=1.0))
    assert ChecklistAnswer.WORDS is entry.answer
    assert (
        "The budget of sample is in hours. Its test runs were on Example 3000." in entry.evidence
    )


def test_a_label_that_was_not_tuned_is_refused() -> None:
    """Item 9 answers no and names the untuned label."""
    entry = item(9, beside_untuned())
    assert ChecklistAnswer.NO is entry.answer
    assert entry.evidence.startswith("No sweep in this report tuned a2c")
    assert "checklist item 9" == failed_checks(inquiry(beside_untuned()))[-1][:16]


def test_seeds_of_tuning_and_selection_are_listed() -> None:
    """Item 10 lists the seeds of tuning and of selection."""
    expected = "sample, root 0: 0–2 (3), and 0–3 (4) for selection."
    assert expected == item(10, swept()).evidence


def test_without_a_winner_there_is_no_final_configuration() -> None:
    """Item 13 answers no before the winner is selected, even if the default has test runs."""
    sample = swept()
    undecided = replace(sample, sweeps=(swept_evidence(selection=None),))
    assert (ChecklistAnswer.NO, "sample has not chosen a winner yet.") == (
        item(13, undecided).answer,
        item(13, undecided).evidence,
    )
    assert ChecklistAnswer.NO is item(13, searching()).answer
