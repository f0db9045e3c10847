"""Searches without the engine: the winners are those of whole sweeps, and budgets share one search."""

import landscapes
import numpy as np
import pytest
from landscape_baselines import Baseline, baseline_winners
from landscape_searches import SearchDraws, most_screened, screened_rows, two_stage_winner
from landscape_table import load
from landscape_tuners import decision, default_tuner, gain_over
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


def test_the_default_tuner_needs_two_standard_errors() -> None:
    """A tuner becomes the default by a gain beyond two standard errors of both kinds, and only then."""
    generator = np.random.default_rng(0)
    scores = generator.normal(1.0, 0.1, (20, 10, 3))
    clear = scores + 0.05 + generator.normal(0.0, 0.01, (20, 10, 1))
    # Better on one landscape only.
    lucky = scores + np.where(np.arange(10) == 3, 0.5, 0.0)[:, np.newaxis]
    default = default_tuner()
    assert decision({default: scores, "smac": clear[:9]}).endswith("smac becomes the default")
    assert decision({default: scores, "sobol": lucky}).endswith(f"{default} stays the default")
    assert decision({default: scores, "gp": clear}).endswith(f"{default} stays the default")
    gain, over_repeats, over_landscapes = gain_over(lucky, scores)
    assert [0.05, 0.0, 0.05] == pytest.approx([gain, over_repeats, over_landscapes], abs=1e-9)
