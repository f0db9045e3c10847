"""Python's garbage collector, and what it costs while thousands of records are read."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Read much at once without a search for garbage: all of it is kept.

    The collector looks through everything again and again as it grows, for a third of the time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
