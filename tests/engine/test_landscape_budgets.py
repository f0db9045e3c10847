"""The procedures that the landscape benchmark compares spend equal budgets."""

import numpy as np
import pytest
from landscape_table import Landscape
from landscapes import PARTS, REFERENCE, Contender, sweep

CONTENDERS = list(dict.fromkeys((REFERENCE, *(each for part in PARTS.values() for each in part))))


def wide_landscape() -> Landscape:
    """A landscape of more configurations than a sweep of 24 runs can try."""
    generator = np.random.default_rng(0)
    rates = np.geomspace(1e-5, 1e-1, 128)
    level = generator.normal(size=(128, 1, 1))
    return Landscape(
        name="wide",
        rows=tuple({"rate": float(rate)} for rate in rates),
        steps=tuple(range(10, 110, 10)),
        returns=level + generator.normal(size=(128, 10, 10)),
    )


@pytest.mark.parametrize(
    "contender", CONTENDERS, ids=lambda c: f"{c.tuner}-{c.pruner}-{c.allocation}-{c.seeds}"
)
def test_every_procedure_spends_its_budget(contender: Contender) -> None:
    """A sweep ends only where another trial on all tuning seeds would not fit its budget."""
    landscape = wide_landscape()
    # Half a second for each suggestion of a Gaussian process after its first ten trials.
    runs = 12 if contender.tuner == "gp" else 24
    outcome = sweep(landscape, contender, runs, 0)
    spent = outcome.spent / landscape.steps[-1]
    assert runs - contender.seeds < spent <= runs
