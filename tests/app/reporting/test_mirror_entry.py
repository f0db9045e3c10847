"""Trackers receive the answer of the report, with the phases of a sweep's winner."""

from pathlib import Path

import pytest
from quick_parts import quick_parts
from stored_sweeps import stored_sweep

from rlexp.app.reporting.mirror_entry import answer_reader, read_answer
from rlexp.app.reporting.next_commands import card_and_sequential
from rlexp.app.sweeps.mirrored import mirrored_sweep
from rlexp.engine.sweep_source import SweepStage

quick = pytest.fixture(autouse=True)(quick_parts)


def test_the_phases_are_those_of_the_winner(tmp_path: Path) -> None:
    """The answer has the mean of the winner in each phase, and how much tuning overstated it."""
    sweep = stored_sweep(tmp_path)
    winner = mirrored_sweep(sweep.go_on(), "made_up").attributes["winner"]
    answer = read_answer(sweep.paths.name, sweep.study)
    card, _ = card_and_sequential(sweep.paths.name, None, sweep.study)
    assert answer is not None
    assert card is not None
    assert (card.text, card.basis) == (answer.text, answer.basis)
    means = {p.phase: p.mean.estimate for p in answer.phases if p.mean is not None}
    assert {phase: pytest.approx(winner[phase]["value"]) for phase in means} == means
    assert {"tuning", "selection", "test"} == set(means)
    assert pytest.approx(means["tuning"] - means["test"]) == answer.optimism


def test_a_sweep_without_a_winner_has_no_phases(tmp_path: Path) -> None:
    """Before the selection, no score of a trial is shown as that of a winner."""
    sweep = stored_sweep(tmp_path)
    sweep.go_on(until=SweepStage.SEARCH)
    answer = read_answer(sweep.paths.name, sweep.study)
    assert answer is None or ((), None) == (tuple(answer.phases), answer.optimism)


def test_one_state_is_answered_once(tmp_path: Path) -> None:
    """The answer to a state of the results is computed once for all trackers."""
    sweep = stored_sweep(tmp_path)
    sweep.go_on()
    read = answer_reader(sweep.study)
    first = read(sweep.paths, "state")
    assert first is not None
    assert read(sweep.paths, "state") is first
    assert read(sweep.paths, "another state") is not first
