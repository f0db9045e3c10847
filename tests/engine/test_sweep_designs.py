"""The table of designs is what whole sweeps reach on the landscapes."""

import landscapes
import numpy as np
import pytest
import sweep_designs
from landscape_table import load
from landscapes import Contender

from rlexp.app.sweeps.design_table import SweepDesign, read_design_table

LANDSCAPE = load("cc_acrobot_dqn")


def test_a_design_reaches_what_whole_sweeps_reach() -> None:
    """The mean true score of a design is that of replayed sweeps with the same seeds, within errors."""
    design = SweepDesign(36, 5, 1 / 12, 0, 1)
    scores = sweep_designs.gathered(LANDSCAPE, 500)
    worst = LANDSCAPE.normalise(float(np.nanmin(LANDSCAPE.final)))
    true, optimism = sweep_designs.outcome(scores, worst, design)
    replayed = np.array(
        [
            landscapes.numbers(LANDSCAPE, landscapes.sweep(LANDSCAPE, Contender(), 48, number))
            for number in range(12)
        ]
    )
    error = replayed[:, 0].std(ddof=1) / np.sqrt(len(replayed))
    assert pytest.approx(replayed[:, 0].mean(), abs=4 * error + 0.005) == true
    assert 0 < optimism < 0.2


def test_the_packaged_table_is_that_of_the_program() -> None:
    """The designs are those of the program, and selection seeds lower the optimism on average."""
    results = read_design_table().results
    assert sweep_designs.designs() == [result.design for result in results]
    optimism = {
        count: np.mean([r.optimism for r in results if r.design.selection == count])
        for count in (0, 3)
    }
    assert optimism[3] < optimism[0]
