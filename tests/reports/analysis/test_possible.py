"""Intervals that are clipped to the scores that a task allows."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from evidence_samples import typical

from rlexp.reports.analysis.scale import TaskAnchors, possible_scores
from rlexp.reports.evidence.runs import LabelTaskRuns
from rlexp.stats.interval import Interval, limited

INTERVAL = Interval(
    estimate=5.0, low=-2.0, high=12.0, level=0.95, method="t", repetitions=100, n=3, seed=0
)


@pytest.mark.parametrize(
    ("least", "greatest", "ends"),
    [
        (0.0, 10.0, (0.0, 10.0)),
        (None, 10.0, (-2.0, 10.0)),
        (-5.0, None, (-2.0, 12.0)),
        (6.0, None, (-2.0, 12.0)),
        (None, 4.0, (-2.0, 12.0)),
        (6.0, 10.0, (-2.0, 10.0)),
        (0.0, 4.0, (0.0, 12.0)),
    ],
)
def test_an_interval_is_clipped_to_possible_scores(
    least: float | None, greatest: float | None, ends: tuple[float, float]
) -> None:
    """An end is clipped to the declared bound, unless the estimate lies beyond it."""
    clipped = limited(INTERVAL, least, greatest)
    assert ends == (clipped.low, clipped.high)
    assert replace(INTERVAL, low=clipped.low, high=clipped.high) == clipped


def test_no_interval_stays_none() -> None:
    """A missing interval stays missing."""
    no_interval = replace(INTERVAL, low=None, high=None, reason="one run alone shows no spread")
    assert no_interval == limited(no_interval, 0.0, 10.0)


@pytest.mark.parametrize("n", [1, 2])
def test_one_or_two_runs_have_no_interval(n: int) -> None:
    """One or two runs have no interval, and the reason has the number of runs."""
    interval = limited(replace(INTERVAL, n=n), 0.0, 10.0)
    assert (None, None, None) == (interval.low, interval.high, interval.seed)
    assert f"too few runs for an interval (n = {n})" == interval.reason


def cells(*references: dict[str, Any]) -> list[LabelTaskRuns]:
    """Cells of one label whose tasks have these reference scores."""
    label_cells = typical().of_label(typical().labels[0])
    return [
        replace(
            cell,
            members=tuple(
                replace(m, configuration=replace(m.configuration, reference=reference))
                for m in cell.members
            ),
        )
        for cell, reference in zip(label_cells, references, strict=True)
    ]


def test_the_widest_task_gives_the_possible_range() -> None:
    """The common range is the widest normalised range, without the ends that no task declares."""
    task_cells = cells({"minimum": -10.0, "maximum": 30.0}, {"minimum": 0.0})
    scale = {
        cell.task: TaskAnchors(low=0.0, high=high, source="")
        for cell, high in zip(task_cells, (10.0, 1.0), strict=True)
    }
    assert (-1.0, None) == possible_scores(task_cells, scale)
    assert (-10.0, 30.0) == possible_scores(task_cells[:1], None)
    assert np.isclose(3.0, possible_scores(task_cells[:1], scale)[1] or 0.0)
