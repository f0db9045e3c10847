"""Settings of all tests; importing this file makes modules such as `samples` importable."""

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings
from in_full import IN_FULL
from probes_left_out import leave_out_probes

# `make test` draws the same examples on every machine and every day, so that only a change of the
# code makes a test fail. `make test-all` draws more examples, and different ones each time.
settings.register_profile("fixed", deadline=None, max_examples=60, derandomize=True, database=None)
settings.register_profile("random", deadline=None, max_examples=300, print_blob=True)
settings.load_profile("random" if IN_FULL else "fixed")

# In the background of a shell, tests and their child processes would otherwise ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

# JAX starts threads, and a process with threads must not fork, as other tests do: `make test-suites` runs
# the tests with JAX in a process of their own.
collect_ignore_glob = [
    *([] if "RLEXP_COMPILED_TESTS" in os.environ else ["compiled/test_*.py"]),
    # The package of the trees has an environment of its own, too.
    *([] if "RLEXP_TREE_TESTS" in os.environ else ["trees/test_*.py"]),
]

LONG_FOLDERS = ("docs", "faults", "trackers", "training")
"""Folders with slow test files, which start first so that no worker waits for them at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put long files first and keep the order within a file."""
    items.sort(key=_position)


def _position(item: pytest.Item) -> int:
    folder = item.path.parent.name
    return LONG_FOLDERS.index(folder) if folder in LONG_FOLDERS else len(LONG_FOLDERS)


@pytest.fixture(scope="session", autouse=True)
def _without_probes() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        leave_out_probes(patch)
        yield
