"""The output of a notebook's cell: what is displayed there, and replaced in place."""

import sys
from contextlib import suppress
from typing import Any


def in_kernel() -> bool:
    """Whether this process executes the cells of a notebook."""
    # Without IPython in the process there is no notebook: looking needs no import.
    if "IPython" not in sys.modules:
        return False
    from IPython import get_ipython

    # IPython in a terminal has no kernel; it shows text only.
    return getattr(get_ipython(), "kernel", None) is not None


class CellOutput:
    """A part of a cell's output that can be replaced.

    A saved notebook holds its last state only. Whatever fails here is ignored: a closed notebook
    must not end runs.
    """

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, html: str, text: str) -> None:
        """Show HTML, or text where HTML cannot be shown, in place of what was shown before."""
        with suppress(Exception):
            from IPython.display import display

            content = {"text/html": html, "text/plain": text}
            if self._handle is None:
                self._handle = display(content, raw=True, display_id=True)
            else:
                self._handle.update(content, raw=True)
