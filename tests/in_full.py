"""Whether tests are tried in full, or the long ones left out."""

import os

import pytest

IN_FULL = bool(os.environ.get("RLEXP_LONG_FAULTS"))
"""Whether every case is tried, which takes an hour (`make test-faults`), or a few of each."""
long = pytest.mark.skipif(not IN_FULL, reason="takes long: make test-faults")
