"""Names of the values that a run logs over time, the same for trackers, plots and tables."""

import statistics
from collections.abc import Iterator
from math import isfinite

from rlexp.records.events import Evaluated, Measured

MEAN_RETURN = "eval/mean_reward"
"""Name of the mean return of an evaluation in training."""
OF_EVALUATIONS = ("mean_reward", "std_reward", "mean_ep_length")
"""Values of every evaluation, by the names of stable-baselines3."""


def logged_values(event: Measured | Evaluated) -> Iterator[tuple[str, float]]:
    """Names and values of an event; a value may be NaN or infinite.

    Metrics of the learner keep the library's names (`train/loss`). Values of evaluations in
    training begin with `eval/`, those of the final evaluation with `final/`.
    """
    if isinstance(event, Measured):
        yield from event.metrics.items()
        return
    # The final evaluation decides the score. Under another prefix it cannot become a point of
    # the learning curve.
    prefix = "final" if event.final else "eval"
    yield f"{prefix}/mean_reward", event.mean
    yield f"{prefix}/std_reward", _standard_deviation(event)
    if event.lengths:
        yield f"{prefix}/mean_ep_length", statistics.fmean(event.lengths)
    for name in event.measures or {}:
        # An episode without the measure does not hide those of the others.
        if (mean := event.mean_of_reported(name)) is not None:
            yield f"{prefix}/{_apart(name)}", mean


def _apart(measure: str) -> str:
    """The name of a measure, which never replaces a value of the return or the length."""
    return f"measure/{measure}" if measure in OF_EVALUATIONS else measure


def _standard_deviation(event: Evaluated) -> float:
    """Standard deviation of the returns, divided by n as in stable-baselines3."""
    if not isfinite(event.mean) or not all(map(isfinite, event.returns)):
        return float("nan")
    return statistics.pstdev(event.returns, event.mean)
