"""Whether long tests run: yes in `make test-all`, no in `make test`."""

import os

import pytest

IN_FULL = bool(os.environ.get("RLEXP_ALL_TESTS"))
"""Whether every case of every test runs, which takes an hour, instead of a few cases of each."""
long = pytest.mark.skipif(not IN_FULL, reason="takes long: make test-all")
