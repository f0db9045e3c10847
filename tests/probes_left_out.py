"""Leaves out the probes of plans, which train for seconds to find out what a run costs.

Tests about probes ask for them by `--probe`, or call `find_costs`. In `make test-long`, every command
probes as usual.
"""

from math import inf

import pytest
from in_full import IN_FULL

MODULE = "rlexp.app.execution.probes"
LIMIT = {} if IN_FULL else {"PROBE_FROM": inf}
"""The seconds that a plan takes at least which is probed unasked, by the name of the constant."""


def leave_out_probes(patch: pytest.MonkeyPatch) -> None:
    """Let commands in this process probe no plan that does not ask for it."""
    for name, seconds in LIMIT.items():
        patch.setattr(f"{MODULE}.{name}", seconds)
