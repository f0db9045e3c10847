"""Warnings about labels that were tuned with different effort."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from evidence_samples import CARTPOLE, typical
from sweep_samples import (
    COSTS,
    beside_untuned,
    default_won,
    searching,
    swept,
    swept_evidence,
    trial,
    two_sweeps,
)

from rlexp.protocol.seeds import Phase
from rlexp.reports.analysis.fairness import efforts, untuned, warnings
from rlexp.reports.drawing.blocks import Tone
from rlexp.reports.evidence.runs import Evidence
from rlexp.reports.evidence.sweeps import TuningEffort, full_runs, tuning_effort


def tuning_warnings(sample: Evidence) -> list[str]:
    """Warnings about tuning."""
    return [n.text for n in warnings(sample) if n.tone is Tone.WARNING and "tuned" in n.text]


def test_effort_is_that_of_the_search() -> None:
    """The effort counts tuning and selection runs, without test runs."""
    assert TuningEffort(12, 248_000) == tuning_effort(swept_evidence())
    assert "248,000 environment steps in 12 trials" == str(tuning_effort(swept_evidence()))


def test_full_run_equivalents_by_hand() -> None:
    """A trial counts as at most one full run, and a pruned trial as less."""
    trials = (
        trial(0, 1.0, 2.0, 3.0),
        trial(1, state="pruned", spent=5500),
        trial(2, 1.0, spent=100_000),
        trial(3, state="failed", runs=(), spent=0),
    )
    assert 2.5 == full_runs(swept_evidence(trials=trials))


def test_winner_and_default_of_a_sweep_are_fair() -> None:
    """The untuned default of a sweep gives no warning."""
    assert {"tuned": TuningEffort(12, 248_000)} == efforts(swept(), CARTPOLE)
    assert {"default": TuningEffort(12, 248_000)} == efforts(default_won(), CARTPOLE)
    assert [] == tuning_warnings(swept())


@pytest.mark.parametrize("make", [typical, searching])
def test_without_a_tuned_label_there_is_no_warning(make: Callable[[], Evidence]) -> None:
    """Runs without a tuned label give no warning."""
    assert [] == tuning_warnings(make())


def test_a_label_that_was_not_tuned_is_a_warning() -> None:
    """A tuned and an untuned label on one task give a warning."""
    assert ("a2c",) == untuned(beside_untuned())
    expected = (
        "On CartPole-v1, tuned was tuned, and a2c was not, according to these records. "
        "Tuning may explain a difference."
    )
    assert [expected] == tuning_warnings(beside_untuned())


def test_different_budgets_of_tuning_are_a_warning() -> None:
    """Three times as many environment steps of tuning give a warning."""
    expected = (
        "On CartPole-v1, labels were tuned with different budgets: tuned with 248,000 environment "
        "steps in 12 trials; other/tuned with 744,000 environment steps in 12 trials. "
        "A longer search is an advantage."
    )
    assert [expected] == tuning_warnings(two_sweeps())


def test_what_pruning_explains_is_no_difference() -> None:
    """Five per cent more environment steps count as the same budget."""
    sample = two_sweeps()
    costs = {phase: replace(cost, steps=cost.steps * 21 // 20) for phase, cost in COSTS.items()}
    similar_sweep = replace(sample.sweeps[1], costs=costs)
    assert [] == tuning_warnings(replace(sample, sweeps=(sample.sweeps[0], similar_sweep)))


def test_other_phases_have_no_warning() -> None:
    """Runs of the tuning phase have no tuning effort to compare."""
    sample = swept()
    members = tuple(
        replace(m, record=replace(m.record, spec=replace(m.record.spec, phase=Phase.TUNING)))
        for m in sample.members
    )
    assert {} == efforts(replace(sample, phase=Phase.TUNING, members=members), CARTPOLE)
