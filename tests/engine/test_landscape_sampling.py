"""What tuning overstates, on real landscapes and in the Gaussian model, and how to tune on seeds.

The figures of the specification are means over 24 landscapes of ARLBench. Of those, twelve are
here, and ten can be used. At K = 16 the optimism is that of the 24 to within 0.01 (0.163, 0.071,
0.047 with 1, 3 and 5 seeds); what is frozen below is what these ten give. At K = 64 and one seed
it is 0.04 lower, and one seed wins nothing from 96 to 192 runs: the ten landscapes are noisier at
the top. Two stages are the best everywhere, as there.
"""

from functools import cache

import numpy as np
import pytest
from landscape_sampling import Winners, fixed_winners, gaussian_winners, two_stage_winners
from landscape_table import usable

from rlexp.stats.selection_bias import expected_optimism

REPEATS = 1000
LANDSCAPES = usable()
SEEDS = (1, 3, 5)


@cache
def fixed(configurations: int, seeds: int) -> tuple[Winners, ...]:
    """Winners on each landscape."""
    return tuple(fixed_winners(item, configurations, seeds, REPEATS, 0) for item in LANDSCAPES)


@cache
def two_stage(runs: int) -> tuple[Winners, ...]:
    """Three quarters of the runs screen on one seed; a twelfth gets four more seeds."""
    return tuple(two_stage_winners(item, runs * 3 // 4, 1 / 12, REPEATS, 0) for item in LANDSCAPES)


def gap(winners: tuple[Winners, ...]) -> float:
    """Mean optimism over landscapes."""
    return float(np.mean([each.gap for each in winners]))


def true_score(winners: tuple[Winners, ...]) -> float:
    """Mean test score over landscapes."""
    return float(np.mean([each.true_score for each in winners]))


def test_the_gaussian_model_is_what_it_predicts() -> None:
    """K = 16, n = 3, σ = 2, τ = 1: by simulation, by the formula, by the specification."""
    generator = np.random.default_rng(1)
    winners = gaussian_winners(16, 3, noise=2.0, spread=1.0, repeats=60_000, generator=generator)
    formula = expected_optimism(16, 3, noise=2.0, spread=1.0)
    assert 1.5415 == pytest.approx(formula, abs=1e-4)
    assert 1.5415 == pytest.approx(winners.gap, abs=0.02)
    assert 1.1561 == pytest.approx(winners.true_score, abs=0.02)


@pytest.mark.parametrize(
    ("configurations", "expected"),
    [(16, (0.169, 0.079, 0.052)), (64, (0.204, 0.104, 0.071))],
)
def test_optimism_on_landscapes(configurations: int, expected: tuple[float, ...]) -> None:
    """With 1, 3 and 5 tuning seeds."""
    results = [gap(fixed(configurations, seeds)) for seeds in SEEDS]
    assert list(expected) == pytest.approx(results, abs=0.01)


def test_more_seeds_overstate_less() -> None:
    """On every landscape."""
    by_seeds = np.array([[each.gap for each in fixed(16, seeds)] for seeds in SEEDS])
    assert (np.diff(by_seeds, axis=0) < 0).all()
    assert (by_seeds > 0).all()


def test_more_configurations_overstate_more() -> None:
    """On average."""
    for seeds in SEEDS:
        assert gap(fixed(16, seeds)) < gap(fixed(64, seeds))


def test_most_winners_were_overstated() -> None:
    """Four of five with one tuning seed; the specification's .81, .69, .63."""
    results = [np.mean([each.overstated for each in fixed(16, seeds)]) for seeds in SEEDS]
    assert [0.80, 0.67, 0.62] == pytest.approx(results, abs=0.02)


@pytest.mark.parametrize("runs", [48, 96, 192])
def test_two_stages_find_better_configurations(runs: int) -> None:
    """Than any fixed number of seeds at as many runs."""
    best = max(true_score(fixed(runs // seeds, seeds)) for seeds in SEEDS)
    assert best + 0.02 < true_score(two_stage(runs))


def test_true_scores_at_equal_cost() -> None:
    """Of 1, 3 and 5 seeds, and two stages; rows are 48, 96 and 192 runs."""
    results = [
        [
            *(true_score(fixed(runs // seeds, seeds)) for seeds in SEEDS),
            true_score(two_stage(runs)),
        ]
        for runs in (48, 96, 192)
    ]
    expected = [
        [1.023, 0.959, 0.878, 1.054],
        [1.056, 1.040, 0.994, 1.113],
        [1.081, 1.092, 1.071, 1.147],
    ]
    assert expected == [pytest.approx(row, abs=0.01) for row in results]
