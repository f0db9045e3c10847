"""Times rliable, in its own virtual environment: prints seconds for one label, or one pair."""

import argparse

import numpy as np
from cases import REPETITIONS, STEPS, THRESHOLDS, curves, scores, seconds
from numpy.typing import NDArray
from rliable import library, metrics  # type: ignore[import-not-found]

FEWER = {"iqm": 1_000, "improvement": 100, "profile": 500, "curve": 20}
"""Resamples that are timed; each is one call of a Python function, so the time is scaled."""

Scores = NDArray[np.float64]


def interquartile_means(runs: int, repetitions: int) -> None:
    """The interval of one label's interquartile mean."""
    library.get_interval_estimates(
        {"a": scores(runs)}, lambda x: np.array([metrics.aggregate_iqm(x)]), reps=repetitions
    )


def improvement(runs: int, repetitions: int) -> None:
    """The interval of the probability that one label improves upon another."""
    library.get_interval_estimates(
        {"a,b": (scores(runs), scores(runs, 1))},
        metrics.probability_of_improvement,
        reps=repetitions,
    )


def profile(runs: int, repetitions: int) -> None:
    """The performance profile of one label, with its band."""
    library.create_performance_profile({"a": scores(runs)}, THRESHOLDS, reps=repetitions)


def curve(runs: int, repetitions: int) -> None:
    """The interquartile mean of one label at each step, with its band."""

    def middles(x: Scores) -> Scores:
        return np.array([metrics.aggregate_iqm(x[..., step]) for step in range(STEPS)])

    library.get_interval_estimates({"a": curves(runs)}, middles, reps=repetitions)


PARTS = {
    "iqm": interquartile_means,
    "improvement": improvement,
    "profile": profile,
    "curve": curve,
}


def main() -> None:
    """Time one part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("runs", type=int)
    arguments = parser.parse_args()
    few, all_of_them = FEWER[arguments.part], REPETITIONS[arguments.part]
    work = PARTS[arguments.part]
    work(arguments.runs, 2)
    print(seconds(lambda: work(arguments.runs, few), 3) * all_of_them / few)


if __name__ == "__main__":
    main()
