"""File names of the tables and figures of a report."""

import re
from collections.abc import Iterator, Mapping

from rlexp.reports.drawing.blocks import Figure, ReportDocument, Table

LONGEST = 60
"""Maximal length of a stem, which with a suffix every file system accepts."""

RESERVED = frozenset(
    {"report", "con", "prn", "aux", "nul"}
    | {f"{device}{k}" for device in ("com", "lpt") for k in range(10)}
)
"""Name of the report itself, and names that Windows reserves for devices."""


def drawn_blocks(study: ReportDocument) -> Iterator[Table | Figure]:
    """The tables and figures of a study, in order."""
    for part in study.parts:
        for block in part.blocks:
            if isinstance(block, Table | Figure):
                yield block


def file_stems(study: ReportDocument) -> Mapping[str, str]:
    """File names without a suffix, by the names of the tables and figures.

    A stem consists of ASCII letters, digits, dots, dashes and underscores, begins with none of dot
    and dash, and differs from other stems in more than case (Windows and macOS ignore case).

    Raises:
        ValueError: Two blocks share a name.
    """
    stems: dict[str, str] = {}
    # Lower case, because Windows and macOS treat stems that differ only in case as one file.
    taken: set[str] = set(RESERVED)
    for block in drawn_blocks(study):
        if block.name in stems:
            raise ValueError(f"two blocks are named {block.name!r}; names are unique in a report")
        stem = _free(_plain(block.name), taken)
        taken.add(stem.lower())
        stems[block.name] = stem
    return stems


def _plain(name: str) -> str:
    # Stripped after it was cut, because the cut may leave a dot or a dash at the end.
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:LONGEST].strip(".-") or "unnamed"


def _free(stem: str, taken: set[str]) -> str:
    candidate, number = stem, 2
    while candidate.lower() in taken:
        candidate, number = f"{stem}-{number}", number + 1
    return candidate
