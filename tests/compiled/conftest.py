"""Tests with JAX: `make test-suites` runs them, in a process of their own.

JAX starts threads, and a process with threads must not fork, as the ordinary tests do.
"""

import os

import pytest

if "RLEXP_COMPILED_TESTS" not in os.environ:
    collect_ignore_glob = ["test_*.py"]
else:
    pytest.importorskip("jax")
