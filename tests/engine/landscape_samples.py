"""Small landscapes and replays for the tests of sweeps on landscapes."""

from typing import Any

import numpy as np
from landscape_replay import Replay
from landscape_table import Landscape, without_crashes
from numpy.typing import NDArray

from rlexp.protocol.sweep import SweepPlan
from rlexp.pruners import Pruner
from rlexp.pruners.none import Never
from rlexp.tuners import Tuner
from rlexp.tuners.random import RandomSearch

SENTINEL = float(np.finfo(np.float64).tiny)
"""The value that ARLBench writes for a crash: 2.2e-308."""
ROWS, SEEDS, STEPS = 12, 10, (10, 20, 30, 40)


def raw_returns(number: int = 0) -> NDArray[np.float64]:
    """Negative returns of twelve configurations, of shape (configurations, seeds, checkpoints)."""
    generator = np.random.default_rng(number)
    level = generator.normal(-900.0, 200.0, size=(ROWS, 1, 1))
    return level + generator.normal(0.0, 50.0, size=(ROWS, SEEDS, len(STEPS)))


def landscape(returns: NDArray[np.float64] | None = None) -> Landscape:
    """Twelve configurations of a learning rate and a switch, with the given returns."""
    rates = np.geomspace(1e-5, 1e-1, ROWS)
    return Landscape(
        name="sample",
        rows=tuple({"rate": float(r), "switch": bool(k % 2)} for k, r in enumerate(rates)),
        steps=STEPS,
        returns=without_crashes(raw_returns() if returns is None else returns),
    )


def plan(**changes: Any) -> SweepPlan:
    """A plan that trains every configuration on all tuning seeds; keyword arguments change it."""
    settings: dict[str, Any] = {
        "trials": ROWS,
        "full_runs": None,
        "steps": None,
        "hours": None,
        "allocation": "fixed",
        "promoted": 0.25,
        "objective": "score",
        "aggregate": "mean",
        "finalists": 1,
        "lag": 0,
        "failures": "worst",
        "stop_after": 1000,
        "storage": None,
    }
    return SweepPlan(**{**settings, **changes})


def replay(
    table: Landscape,
    *,
    tuner: Tuner | None = None,
    pruner: Pruner | None = None,
    seeds: int = 5,
    number: int = 0,
    **changes: Any,
) -> Replay:
    """A sweep by random search without pruning; keyword arguments change its plan."""
    return Replay(
        table, tuner or RandomSearch(), pruner or Never(), plan(**changes), seeds, number
    )
