"""Times rlexp's statistics: prints seconds for one label, or one pair, the first time and later."""

import argparse
import sys
from functools import partial

import numpy as np
from cases import REPETITIONS, THRESHOLDS, curves, scores, seconds

from rlexp.stats import replicates
from rlexp.stats.aggregate import interquartile_mean
from rlexp.stats.bootstrap import interval
from rlexp.stats.bootstrap_indices import blocks, draw
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores


def interquartile_means(runs: int, repetitions: int) -> None:
    """The interval of one label's interquartile mean."""
    resampling = Resampling(repetitions=repetitions)
    interval(TaskScores.from_tasks(list(scores(runs).T)), interquartile_mean, resampling)


def words(runs: int, repetitions: int) -> None:
    """Only the random words from which the runs of those resamples are drawn."""
    sizes = (runs,) * scores(runs).shape[1]
    resampling = Resampling(repetitions=repetitions)
    for block in blocks(sum(sizes), resampling):
        draw(sizes, resampling, block)


def improvement(runs: int, repetitions: int) -> None:
    """The interval of the probability that one label improves upon another."""
    from rlexp.stats.improvement import probability_of_improvement

    x, y = (TaskScores.from_tasks(list(scores(runs, label).T)) for label in (0, 1))
    probability_of_improvement(x, y, Resampling(repetitions=repetitions))


def profile(runs: int, repetitions: int) -> None:
    """The performance profile of one label, with its band, in the limit of all repetitions."""
    from rlexp.stats.profile import performance_profile

    del repetitions
    performance_profile(TaskScores.from_tasks(list(scores(runs).T)), THRESHOLDS, 0.95)


def curve(runs: int, repetitions: int) -> None:
    """The interquartile mean of one label at each step, with its band, of whole runs."""
    from rlexp.stats.curves import band

    band(list(np.moveaxis(curves(runs), 1, 0)), Resampling(repetitions=repetitions))


PARTS = {
    "iqm": interquartile_means,
    "words": words,
    "improvement": improvement,
    "profile": profile,
    "curve": curve,
}


def main() -> None:
    """Time one part: first with its imports and what is compiled, then without."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("runs", type=int)
    parser.add_argument("--numpy", action="store_true", help="compile nothing")
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    if arguments.numpy:
        replicates.WORTH_COMPILING = sys.maxsize
    repetitions = REPETITIONS.get(arguments.part, REPETITIONS["iqm"])
    work = partial(PARTS[arguments.part], arguments.runs, repetitions)
    print(seconds(work), seconds(work, arguments.repeats))


if __name__ == "__main__":
    main()
