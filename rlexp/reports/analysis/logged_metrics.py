"""The metrics that runs logged in training: their names, and how many values there are."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rlexp.records.logged_values import MEAN_RETURN
from rlexp.reports.evidence.runs import Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedMetric:
    """A metric that runs logged in training.

    Attributes:
        metric: The name of the metric.
        runs: Number of runs with a finite value.
        values: Number of finite values of all runs.
        first: The smallest environment step with a finite value.
        last: The largest environment step with a finite value.
    """

    metric: str
    runs: int
    values: int
    first: int
    last: int


def logged_metrics(evidence: Evidence) -> Iterator[LoggedMetric]:
    """The metrics with a finite value, sorted by name; the mean return comes first."""
    names = {name for member in evidence.members for name in member.logged}
    for name in sorted(names, key=lambda name: (name != MEAN_RETURN, name)):
        series = [member.logged[name] for member in evidence.members if name in member.logged]
        steps = [s.steps[np.isfinite(s.values)] for s in series]
        if every := [at for at in steps if len(at)]:
            yield LoggedMetric(
                metric=name,
                runs=len(every),
                values=sum(map(len, every)),
                first=int(min(at[0] for at in every)),
                last=int(max(at[-1] for at in every)),
            )
