"""Intervals of a difference that invert the sequential test."""

import numpy as np
import pytest
from ablation import Array, Draw, each, normal, nothing, one, path, simulate, skewed, together
from in_full import IN_FULL

from rlexp.stats.sequential.comparison import decide
from rlexp.stats.sequential.design import Design
from rlexp.stats.sequential.intervals import ShiftTest, repeated_interval

PAIR = Design(group=5, interims=3, pairs=(("a", "b"),), repetitions=2000)


def scores(seed: int, shift: float, blocks: int = 3) -> tuple[Array, Array]:
    """Scores of two labels that differ by a shift, of shape (blocks, 5) each."""
    generator = np.random.default_rng(seed)
    first, second = generator.normal(size=(2, blocks, 5))
    return first + shift, second


def test_an_interval_moves_with_its_scores() -> None:
    """Scores that are shifted and scaled shift and scale the interval."""
    first, second = scores(1, 0.5)
    plain = repeated_interval(PAIR, first, second, excludes_zero=False)
    moved = repeated_interval(PAIR, 10 * first + 70, 10 * second, excludes_zero=False)
    assert plain.low is not None
    assert plain.high is not None
    assert moved.low == pytest.approx(10 * plain.low + 70, abs=1e-2)
    assert moved.high == pytest.approx(10 * plain.high + 70, abs=1e-2)
    assert (30, 0) == (plain.n, plain.seed)


def test_the_sides_can_be_exchanged() -> None:
    """The difference of the exchanged pair has the mirrored interval."""
    first, second = scores(2, 0.5)
    one_way = repeated_interval(PAIR, first, second, excludes_zero=False)
    other = repeated_interval(PAIR, second, first, excludes_zero=False)
    assert other.estimate == pytest.approx(-one_way.estimate)
    assert one_way.low is not None
    assert other.high == pytest.approx(-one_way.low, abs=0.02)


@pytest.mark.parametrize("shift", [0.0, 0.7, 1.5, 4.0])
def test_an_interval_excludes_zero_where_the_test_decides(shift: float) -> None:
    """The interval of a pair excludes 0 exactly where the sequential test decides the pair."""
    for seed in range(10):
        first, second = scores(seed, shift)
        decided = decide(PAIR, {"a": first, "b": second})
        looks = decided.interims["a", "b"]
        is_decided = decided.decisions["a", "b"] in {"better", "worse"}
        interval = repeated_interval(PAIR, first[:looks], second[:looks], excludes_zero=is_decided)
        assert interval.low is not None
        assert interval.high is not None
        assert is_decided == (not interval.low <= 0 <= interval.high), seed


def test_few_runs_have_no_interval() -> None:
    """Where no difference could be rejected, there is no interval, and the reason is named."""
    design = Design(group=2, interims=5, pairs=(("a", "b"),))
    sides = [side[:, :2] for side in scores(0, 9.0, 1)]
    interval = repeated_interval(design, *sides, excludes_zero=False)
    assert (None, None) == (interval.low, interval.high)
    assert "too few runs" in str(interval.reason)


def test_equal_scores_give_a_point() -> None:
    """Scores without noise differ by exactly their shift, whatever their size."""
    first, second = np.full((3, 5), 1e6 + 2.0), np.full((3, 5), 1e6)
    test = ShiftTest.of(PAIR, first, second)
    assert test.estimate == pytest.approx(2.0)
    interval = repeated_interval(PAIR, first, second, excludes_zero=True)
    assert interval.low == pytest.approx(2.0, abs=1e-3)
    assert interval.high == pytest.approx(2.0, abs=1e-3)


STUDIES = 1000 if IN_FULL else 200
"""Simulated studies of a case."""


@pytest.mark.parametrize("draw", [normal, skewed] if IN_FULL else [skewed])
def test_an_ablation_without_effects_errs_at_its_level(draw: Draw) -> None:
    """Over all comparisons of three changes that do nothing, errors are at most the level."""
    result = simulate(each(3), nothing, draw, STUDIES, 7, repetitions=500)
    assert result.wrong <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / STUDIES)


def test_an_ablation_finds_what_did_it() -> None:
    """A change of two standard deviations is found, alone and together with another one."""
    alone = simulate(each(3), one(2.0), normal, 100, 3, repetitions=500, intervals=20)
    both = simulate(each(3), together(3.0), normal, 100, 3, repetitions=500)
    assert alone.found > 0.9
    assert both.found > 0.9
    assert alone.runs < alone.most
    assert alone.covered is not None
    assert alone.covered >= 0.8
    assert max(alone.wrong, both.wrong) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 100)


def test_a_path_compares_neighbours() -> None:
    """A path of n changes has n + 1 configurations, n steps and the total."""
    contrasts = path(4)
    assert (5, 5) == (len(contrasts.configurations), len(contrasts.pairs))
    assert all(
        len(contrasts.configurations[a] - contrasts.configurations[b]) == 1
        for a, b in contrasts.pairs[1:]
    )
