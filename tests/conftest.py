"""Settings of every test; this file's folder becomes importable, `samples` with it."""

import signal

import pytest
from hypothesis import settings

settings.register_profile("shared cores", deadline=None, max_examples=60, print_blob=True)
settings.load_profile("shared cores")

# Where the tests run in the background of a shell, they and all they start would ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

LONG_FOLDERS = ("docs", "faults", "trackers", "training")
"""Their files take minutes each: begun first, none of them is waited for alone in the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put long files first; the order within a file stays."""
    items.sort(key=_position)


def _position(item: pytest.Item) -> int:
    folder = item.path.parent.name
    return LONG_FOLDERS.index(folder) if folder in LONG_FOLDERS else len(LONG_FOLDERS)
