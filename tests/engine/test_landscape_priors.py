"""Guesses on real landscapes: what they are worth, and what a bad one costs."""

import landscapes
import numpy as np
from in_full import long
from landscape_priors import gains
from landscape_table import usable


def gain_at(share: float, repeats: int) -> tuple[float, float]:
    """Mean gain of random search by a guess at 48 runs, and its standard error over repeats."""
    tuner = landscapes.part("tuner", "random")
    gained = gains(tuner, usable(), (share, 0.1), range(repeats), (48,)).mean(axis=(1, 2))
    return float(gained.mean()), float(gained.std(ddof=1) / np.sqrt(repeats))


def test_a_good_guess_helps() -> None:
    """The best configuration as the guess raises the true score at 48 runs by two standard errors."""
    gain, error = gain_at(1.0, 4)
    assert gain > 2 * error
    assert gain > 0.1


@long
def test_a_bad_guess_costs_little() -> None:
    """The worst configuration as the guess costs less than 0.05 at 48 runs, two errors included."""
    gain, error = gain_at(0.0, 60)
    assert gain - 2 * error > -0.05


def test_a_bad_guess_costs_little_in_few_repeats() -> None:
    """In four repeats, the cost of the worst guess is not above 0.05 by more than two errors."""
    gain, error = gain_at(0.0, 4)
    assert gain + 2 * error > -0.05
