"""Whether labels were tuned with the same effort."""

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


def told(own: Evidence) -> list[str]:
    """Warnings about tuning."""
    return [n.text for n in warnings(own) if n.tone is Tone.WARNING and "tuned" in n.text]


def test_effort_is_that_of_the_search() -> None:
    """Tuning and selection, not test."""
    assert TuningEffort(12, 248_000) == tuning_effort(swept_evidence())
    assert "248,000 environment steps in 12 trials" == str(tuning_effort(swept_evidence()))


def test_full_run_equivalents_by_hand() -> None:
    """A trial is one at most, whatever its seeds and attempts; a pruned one is a part."""
    own = (
        trial(0, 1.0, 2.0, 3.0),
        trial(1, state="pruned", spent=5500),
        trial(2, 1.0, spent=100_000),
        trial(3, state="failed", runs=(), spent=0),
    )
    assert 2.5 == full_runs(swept_evidence(trials=own))


def test_winner_and_default_of_a_sweep_are_fair() -> None:
    """What tuning was worth is the question; the default is left out."""
    assert {"tuned": TuningEffort(12, 248_000)} == efforts(swept(), CARTPOLE)
    assert {"default": TuningEffort(12, 248_000)} == efforts(default_won(), CARTPOLE)
    assert [] == told(swept())


@pytest.mark.parametrize("make", [typical, searching])
def test_without_a_tuned_label_nothing_is_said(make: Callable[[], Evidence]) -> None:
    """Nobody knows how plain runs were configured."""
    assert [] == told(make())


def test_a_label_that_was_not_tuned_is_a_warning() -> None:
    """Beside one that was."""
    assert ("a2c",) == untuned(beside_untuned())
    expected = (
        "On CartPole-v1 tuned was tuned, and a2c was not, as far as these records tell. So the "
        "difference may be that of tuning."
    )
    assert [expected] == told(beside_untuned())


def test_different_budgets_of_tuning_are_a_warning() -> None:
    """Three times as many steps are an advantage."""
    expected = (
        "On CartPole-v1 labels were tuned with different budgets: tuned with 248,000 environment "
        "steps in 12 trials; other/tuned with 744,000 environment steps in 12 trials. So whoever "
        "searched longer has an advantage."
    )
    assert [expected] == told(two_sweeps())


def test_what_pruning_explains_is_no_difference() -> None:
    """Ten per cent more steps are the same budget."""
    own = two_sweeps()
    costs = {phase: replace(cost, steps=cost.steps * 21 // 20) for phase, cost in COSTS.items()}
    close = replace(own.sweeps[1], costs=costs)
    assert [] == told(replace(own, sweeps=(own.sweeps[0], close)))


def test_nothing_is_said_about_other_phases() -> None:
    """Tuning runs of a sweep are of all its trials."""
    own = swept()
    members = tuple(
        replace(m, record=replace(m.record, spec=replace(m.record.spec, phase=Phase.TUNING)))
        for m in own.members
    )
    assert {} == efforts(replace(own, phase=Phase.TUNING, members=members), CARTPOLE)
