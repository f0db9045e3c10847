"""What a task allows: intervals end there, and lose no true value."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from evidence_samples import typical

from rlexp.reports.analysis.scale import TaskAnchors, possible_scores
from rlexp.reports.evidence.runs import LabelTaskRuns
from rlexp.stats.interval import Interval, limited

FOUND = Interval(
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
    ],
)
def test_an_interval_is_clipped_to_possible_scores(
    least: float | None, greatest: float | None, ends: tuple[float, float]
) -> None:
    """An end is clipped to the declared bound, unless the estimate lies beyond it."""
    cut = limited(FOUND, least, greatest)
    assert ends == (cut.low, cut.high)
    assert replace(FOUND, low=cut.low, high=cut.high) == cut


def test_no_interval_stays_none() -> None:
    """A missing interval stays missing."""
    none = replace(FOUND, low=None, high=None, reason="one run alone shows no spread")
    assert none == limited(none, 0.0, 10.0)


@pytest.mark.parametrize("n", [1, 2])
def test_one_or_two_runs_have_no_interval(n: int) -> None:
    """One or two runs have no interval, with this as the reason."""
    found = limited(replace(FOUND, n=n), 0.0, 10.0)
    assert (None, None, None) == (found.low, found.high, found.seed)
    assert f"too few runs for an interval (n = {n})" == found.reason


def cells(*references: dict[str, Any]) -> list[LabelTaskRuns]:
    """Cells of tasks with these known scores."""
    own = typical().of_label(typical().labels[0])
    return [
        replace(
            cell,
            members=tuple(
                replace(m, configuration=replace(m.configuration, reference=reference))
                for m in cell.members
            ),
        )
        for cell, reference in zip(own, references, strict=True)
    ]


def test_the_widest_task_gives_the_possible_range() -> None:
    """The common range is the widest normalised one, and open where an end is not declared."""
    both = cells({"minimum": -10.0, "maximum": 30.0}, {"minimum": 0.0})
    scale = {
        cell.task: TaskAnchors(low=0.0, high=high, source="")
        for cell, high in zip(both, (10.0, 1.0), strict=True)
    }
    assert (-1.0, None) == possible_scores(both, scale)
    assert (-10.0, 30.0) == possible_scores(both[:1], None)
    assert np.isclose(3.0, possible_scores(both[:1], scale)[1] or 0.0)
