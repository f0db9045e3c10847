"""Searches without the engine: the winners are those of whole sweeps, and budgets share one search."""

import landscapes
import numpy as np
import pytest
from landscape_baselines import Baseline, baseline_winners
from landscape_searches import SearchDraws, most_screened, screened_rows, two_stage_winner
from landscape_table import load
from landscapes import Contender

LANDSCAPE = load("cc_acrobot_dqn")


@pytest.mark.parametrize("name", ["random", "sobol", "cma_es", "smac"])
def test_winners_equal_those_of_whole_sweeps(name: str) -> None:
    """The prefix of one long search has the winner that a sweep of each budget chooses."""
    draws = SearchDraws(LANDSCAPE, 3)
    rows = screened_rows(landscapes.part("tuner", name), draws, most_screened(96))
    for runs in (48, 96):
        outcome = landscapes.sweep(LANDSCAPE, Contender(tuner=name), runs, 3)
        expected = landscapes.numbers(LANDSCAPE, outcome)[0]
        assert expected == pytest.approx(two_stage_winner(draws, rows, runs))


def test_the_budget_holds_screening_and_promotion() -> None:
    """Of 48, 96 and 192 runs, three quarters screen, and a twelfth of these gets four more."""
    assert [36, 72, 144] == [most_screened(runs) for runs in (48, 96, 192)]


@pytest.mark.parametrize(("seeds", "hyperband"), [(1, False), (5, False), (1, True)])
def test_baselines_find_good_configurations(seeds: int, hyperband: bool) -> None:
    """Optuna's winners are better than the median configuration, and the same in a repeat."""
    draws = SearchDraws(LANDSCAPE, 0)
    winners = baseline_winners(Baseline(seeds, hyperband), draws, (48, 96))
    assert winners == baseline_winners(Baseline(seeds, hyperband), draws, (48, 96))
    assert winners[1] > float(np.median(draws.test))
