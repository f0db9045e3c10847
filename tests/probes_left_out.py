"""Leaves out the probes of plans, which train for seconds to find out what a run costs.

tests/conftest.py does so in the processes of the tests, and the warm processes in commands that are forked from
them. Tests of probes ask for them by `--probe`, or put the usual limit back. In `make test-long`, every command
probes as usual.
"""

from math import inf

import pytest
from in_full import IN_FULL

MODULE, NAME = "rlexp.app.execution.probes", "PROBE_FROM"
"""The seconds that a plan takes at least which is probed unasked."""
LIMIT = {} if IN_FULL else {NAME: inf}


def leave_out_probes(patch: pytest.MonkeyPatch) -> None:
    """Let commands in this process probe no plan that does not ask for it."""
    for name, seconds in LIMIT.items():
        patch.setattr(f"{MODULE}.{name}", seconds)
