"""What a guess is worth, and what a bad guess costs, on real landscapes.

`python benchmarks/landscape_priors.py [TUNER …] [--repeats 50]` compares searches with a prior on every
parameter with searches of the same tuner without one, on common draws. The guess is the best or the
worst configuration of the landscape by its mean on all seeds, which no user knows so exactly.
"""

import argparse

import landscapes
import numpy as np
from landscape_searches import Guess, SearchDraws, most_screened, screened_rows, two_stage_winner
from landscape_table import Landscape, usable
from numpy.typing import NDArray

from rlexp.tuners import Tuner

WIDTHS = (0.1, 0.25)


def guess_at(landscape: Landscape, share: float, width: float) -> Guess:
    """The configuration with this share of the others below it, as a guess."""
    order = landscape.scores.mean(axis=1).argsort(kind="stable")
    return Guess(int(order[round(share * (len(order) - 1))]), width)


def gains(
    tuner: Tuner,
    tables: list[Landscape],
    guess: tuple[float, float],
    repeats: range,
    budgets: tuple[int, ...] = landscapes.BUDGETS,
) -> NDArray[np.float64]:
    """True score with a guess less that without one, of shape (repeats, landscapes, budgets).

    Args:
        tuner: The tuner.
        tables: The landscapes.
        guess: The share of configurations below the guess (0 for the worst, 1 for the best), and the
            width of its prior.
        repeats: The numbers of the repeats.
        budgets: Numbers of runs.
    """
    guesses = [guess_at(table, *guess) for table in tables]
    return np.array(
        [
            [
                _gain(tuner, SearchDraws(table, number), at, budgets)
                for table, at in zip(tables, guesses, strict=True)
            ]
            for number in repeats
        ]
    )


def _gain(tuner: Tuner, draws: SearchDraws, guess: Guess, budgets: tuple[int, ...]) -> list[float]:
    trials = most_screened(max(budgets))
    without, with_guess = (screened_rows(tuner, draws, trials, g) for g in (None, guess))
    return [
        two_stage_winner(draws, with_guess, runs) - two_stage_winner(draws, without, runs)
        for runs in budgets
    ]


def cells(gained: NDArray[np.float64]) -> str:
    """Mean gain at each budget, with its standard errors over repeats and over landscapes."""
    over_repeats = gained.mean(axis=1).std(axis=0, ddof=1) / np.sqrt(len(gained))
    over_landscapes = gained.mean(axis=0).std(axis=0, ddof=1) / np.sqrt(gained.shape[1])
    means = gained.mean(axis=(0, 1))
    return "   ".join(
        f"{mean:+.3f} ± {first:.3f} ± {second:.3f}"
        for mean, first, second in zip(means, over_repeats, over_landscapes, strict=True)
    )


def main() -> None:
    """Print the gains by good and bad guesses."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tuners", nargs="*", metavar="TUNER", default=["random"])
    parser.add_argument("--repeats", type=int, default=50, help="searches on each landscape")
    arguments = parser.parse_args()
    if arguments.repeats < 2:
        parser.error("a standard error takes --repeats 2 or more")
    tables = usable()
    print(f"gain at {landscapes.BUDGETS} runs ± standard error over repeats ± over landscapes")
    for name in arguments.tuners:
        for share, guess in ((1.0, "best"), (0.0, "worst")):
            for width in WIDTHS:
                tuner = landscapes.part("tuner", name)
                gained = gains(tuner, tables, (share, width), range(arguments.repeats))
                print(f"{name:7} {guess:5} guess, width {width}: {cells(gained)}", flush=True)


if __name__ == "__main__":
    main()
