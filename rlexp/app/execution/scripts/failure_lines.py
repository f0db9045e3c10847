"""Finds the line of a script's log that says why the script failed."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

TAIL_BYTES = 1 << 16
"""Bytes at the end of a log that are searched."""
LONGEST_LINE = 300
MOST_REMARKS = 8
"""Largest number of lines after an error that still count as remarks on it."""
TRACEBACK = "Traceback (most recent call last):"
ERROR = re.compile(r"(?:[\w.]*(?:Error|Exception)|[Ee]rror|ERROR|fatal|panic)\b.*:")
"""A line that names an error, in Python and elsewhere."""


def failure_line(log: Path) -> str:
    """The line of a log that names the error, or else the last line; shortened, empty without any.

    Frameworks print remarks after an error (JAX on hidden frames, Hydra on its variable). So the error
    of the last traceback counts, or the last line that names an error, if few lines follow it.
    """
    try:
        with log.open("rb") as file:
            # A log may have gigabytes, so only its end is read; the cut may split a character.
            file.seek(max(file.seek(0, os.SEEK_END) - TAIL_BYTES, 0))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    written = [line for line in lines if line.strip()]
    line = " ".join(_failing(written).split())
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}…"


def _failing(lines: Sequence[str]) -> str:
    """The line that names the error."""
    last_lines = lines[-MOST_REMARKS - 1 :]
    position = _error_of_traceback(lines)
    if position is not None and position >= len(lines) - len(last_lines):
        return lines[position]
    # A line with an indentation is part of something, such as the message of another line.
    named = [line for line in last_lines if not line[0].isspace() and ERROR.match(line)]
    return next(reversed(named or list(last_lines)), "")


def _error_of_traceback(lines: Sequence[str]) -> int | None:
    """The position of the error of the last traceback: its first line without an indentation."""
    starts = [position for position, line in enumerate(lines) if line == TRACEBACK]
    if not starts:
        return None
    frames = range(starts[-1] + 1, len(lines))
    return next((p for p in frames if not lines[p][0].isspace()), None)
