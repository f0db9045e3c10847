"""Common points of learning curves, and texts about the number of runs behind them."""

import numpy as np
import pytest
from curve_samples import run
from evidence_samples import CARTPOLE, evidence

from rlexp.records.events import Failure
from rlexp.reports.analysis.curves import (
    LabelCurves,
    by_steps,
    common_points,
    number_in_words,
    runs_in_words,
    thinned,
)
from rlexp.reports.evidence.runs import PlannedRun


def steps_of(*members: PlannedRun, points: int = 100) -> tuple[float, ...]:
    """The common points of the runs of ppo on CartPole."""
    curves: LabelCurves = by_steps(evidence(members), "ppo", CARTPOLE)
    return tuple(common_points([curves], points).tolist())


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ((3, 3), (1000.0, 2000.0, 3000.0)),
        ((1, 3), (1000.0, 2000.0, 3000.0)),
        ((1, 1, 3), (1000.0,)),
        ((1, 2, 3, 3), (1000.0, 2000.0, 3000.0)),
        ((), ()),
    ],
)
def test_common_points_need_half_of_the_runs(
    lengths: tuple[int, ...], expected: tuple[float, ...]
) -> None:
    """Common points are those that at least half of the runs cover."""
    failed_runs = (run([1.0] * n, seed, failure=Failure.NAN) for seed, n in enumerate(lengths))
    assert expected == steps_of(*failed_runs)


def test_common_points_need_every_completed_run() -> None:
    """Common points end with the shortest completed run, but not with a failed run."""
    members = [run([1.0] * n, seed) for seed, n in enumerate((2, 3, 3))]
    assert (1000.0, 2000.0) == steps_of(*members)
    failed_run = run([1.0], 9, failure=Failure.NAN)
    assert (1000.0, 2000.0) == steps_of(*members, failed_run)


def test_thinning_keeps_both_ends() -> None:
    """Thinned points are evenly spread and include the first and the last point."""
    assert [0.0, 5.0, 10.0] == thinned(np.arange(11.0), 3).tolist()
    assert [0.0, 1.0] == thinned(np.arange(2.0), 3).tolist()


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([3, 3, 3, 3], "3 of 4 runs"),
        ([3, 3, 2, 2], "3 of 4 runs up to 2, then 2"),
        ([1, 3, 2, 2], "1 of 4 runs up to 1, then 3 up to 2, then 2"),
        ([1, 2, 3, 4, 3, 2], "at most 4 of 4 runs (from 4 to 4), at least 1"),
        ([4], "4 of 4 runs, at a single point, 1"),
    ],
)
def test_runs_in_words(runs: list[int], expected: str) -> None:
    """The text has the number of runs at each change, or the range after many changes."""
    x = np.arange(1.0, len(runs) + 1)
    assert expected == runs_in_words(x, np.asarray(runs, dtype=np.int64), 4)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(5000.0, "5,000"), (0.0, "0"), (0.12345, "0.123"), (1234.5, "1,234"), (12.34, "12.3")],
)
def test_positions_in_words(value: float, expected: str) -> None:
    """Positions are whole numbers, or have three digits."""
    assert expected == number_in_words(value)
