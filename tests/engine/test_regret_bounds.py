"""The measurement of the bounds on regret says what is left on a landscape."""

import numpy as np
import regret_bounds
from landscape_table import load

from rlexp.tuners.regret_bound import DEVIATIONS


def test_the_bound_holds_on_a_landscape_and_stops_are_counted() -> None:
    """Bounds of two searches hold, and limits stop searches earlier the larger they are."""
    table = load("cc_cartpole_ppo")
    results = np.array([[regret_bounds.measured(table, "random", n) for n in range(2)]])
    assert (1, 2, len(regret_bounds.COUNTS), 1 + len(regret_bounds.GRID)) == results.shape
    position = regret_bounds.GRID.index(DEVIATIONS)
    assert regret_bounds.held(results, position)[0] >= 0.9
    rows = [regret_bounds.stops(results, limit) for limit in (0.5, 1.0)]
    assert rows[0]["stopped"] <= rows[1]["stopped"] == 1.0
    assert rows[1]["trials"] <= 144
    none = regret_bounds.stops(results, 1e-6)
    assert none["stopped"] == 0
    assert np.isnan(none["regret"])
