"""Which tests run: long ones in `make test-all`, those of the lowest versions in `make test-lowest`."""

import os

import pytest

IN_FULL = bool(os.environ.get("RLEXP_ALL_TESTS"))
"""Whether every case of every test runs, which takes an hour, instead of a few cases of each."""
LOWEST_VERSIONS = bool(os.environ.get("RLEXP_LOWEST_VERSIONS"))
"""Whether the installed packages have the lowest versions that pyproject.toml allows."""
long = pytest.mark.skipif(not IN_FULL, reason="takes long: make test-all")
