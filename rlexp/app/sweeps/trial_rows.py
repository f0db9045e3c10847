"""A row for each trial of a sweep, with its hyperparameters, for use in Python."""

from collections.abc import Iterator
from math import nan

from rlexp.app.data_frames import DataRow
from rlexp.reports.evidence.sweeps import SweepEvidence

TRIAL_COLUMNS = (
    *(
        "experiment",
        "trial",
        "state",
        "value",
        "n",
        "steps",
        "spent",
        "winner",
        "reason",
        "origin",
    ),
)
"""The first columns of a data frame with a row for each trial; its hyperparameters follow."""


def trial_rows(sweep: SweepEvidence) -> Iterator[DataRow]:
    """The cells of each trial: its state, its value and its hyperparameters.

    `value` is that of the first objective, and `n` is the number of tuning seeds with a score. With
    several objectives, `objective.NAME` holds each.
    """
    winner = sweep.selection.winner if sweep.selection is not None else None
    objectives = sweep.definition.plan.objectives
    for trial in sweep.trials:
        values = zip(objectives, trial.values, strict=False) if len(objectives) > 1 else ()
        yield {
            "experiment": sweep.experiment,
            "trial": trial.number,
            "state": trial.state,
            # With None instead, a column without any value would not hold numbers.
            "value": nan if trial.value is None else trial.value,
            "n": len(trial.scores),
            "steps": trial.steps,
            "spent": trial.spent,
            "winner": trial.number == winner,
            "reason": trial.reason,
            "origin": None if trial.origin is None else str(trial.origin),
            **{f"objective.{name}": value for name, value in values},
            **trial.parameters,
        }
