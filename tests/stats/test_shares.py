"""Shares and their intervals."""

import numpy as np

from rlexp.stats.share_intervals import resamples, share_intervals, summing_to_one


def test_shares_sum_to_one() -> None:
    """Shares sum to 1; effects of 0 give shares of 0."""
    assert [0.25, 0.75] == list(summing_to_one(np.array([1.0, 3.0])))
    assert [0.0, 0.0] == list(summing_to_one(np.zeros(2)))


def test_an_interval_holds_its_estimate() -> None:
    """If all resamples are above the estimate, the interval begins at the estimate."""
    resampled = [np.array([0.6, 0.4]), np.array([0.7, 0.3])]
    first, second = share_intervals(np.array([0.5, 0.5]), resampled, 30, 7)
    assert (0.5, 0.5) == (first.low, second.high)
    assert (30, 2, 7) == (first.n, first.repetitions, first.seed)
    assert first.high is not None
    assert 0.69 < first.high <= 0.7


def test_a_resample_without_effects_is_left_out() -> None:
    """A resample without effects is left out; if all lack effects, there is a reason."""
    interval = share_intervals(np.array([1.0]), [np.array([0.0]), np.array([1.0])], 30, 0)[0]
    assert 1 == interval.repetitions
    missing = share_intervals(np.array([1.0]), [np.array([0.0])], 30, 0)[0]
    assert (None, None) == (missing.low, missing.high)
    assert "all effects are 0 in every resample of the trials" == missing.reason


def test_resamples_are_those_of_the_seed() -> None:
    """Equal seeds give equal, sorted rows, drawn with replacement."""
    first, again, other = (
        [rows.tolist() for rows, _ in resamples(10, 3, seed)] for seed in (5, 5, 6)
    )
    assert first == again
    assert first != other
    assert all(rows == sorted(rows) and len(rows) == 10 for rows in first)
