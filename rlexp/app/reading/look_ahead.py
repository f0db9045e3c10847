"""Looks at the files of ended runs in a fork, while the command still imports its modules.

The fork compares the stamps of an experiment's runs with its catalogue, from the last run to the first. It
marks each unchanged run in memory that it shares with the command. The command waits for nothing: it looks
itself at every run without a mark. So a fork that is slow, killed or missing changes no result.
"""

import mmap
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path

from rlexp.app.reading.beside import PartBeside, can_fork
from rlexp.app.reading.catalogue_files import catalogue_files
from rlexp.store.layout import ExperimentPaths

FEWEST_BYTES = 200_000
"""Size of a catalogue, that of about 500 runs, below which a fork saves no time."""
LEAST_OF_A_RUN = 100
"""Fewest bytes of a run in a catalogue."""
MOST_SECONDS = 30.0
"""Age of a look after which the command looks itself."""
CHECKSUM = 64
"""Bytes before the marks: the checksum of the catalogue whose rows they belong to."""

IsUnchanged = Callable[[bytes, int], bool]
"""Whether the run in a row of the catalogue with a checksum is known to be unchanged."""


class LookAhead:
    """Marks for the runs of one experiment, which a fork sets."""

    def __init__(self, folder: Path, file: Path, size: int) -> None:
        """Begin to look.

        Args:
            folder: The folder of the experiment.
            file: Its catalogue.
            size: Bytes of the catalogue.
        """
        self._folder = folder
        self._begun = time.monotonic()
        self._marks = mmap.mmap(-1, CHECKSUM + size // LEAST_OF_A_RUN)
        self._fork = PartBeside(partial(_look, str(folder), file, self._marks), fork=True)

    def is_of(self, paths: ExperimentPaths) -> bool:
        """Whether the marks are those of an experiment, and new enough."""
        recent = time.monotonic() - self._begun < MOST_SECONDS
        return recent and paths.folder == self._folder

    def is_unchanged(self, checksum: bytes, row: int) -> bool:
        """Whether a run is marked; see `IsUnchanged`."""
        # Another catalogue may have more rows than there are marks.
        return self._marks[:CHECKSUM] == checksum and self._marks[CHECKSUM + row] == 1

    def end(self) -> None:
        """End the fork."""
        self._fork.end()


_BEGUN: ContextVar[LookAhead | None] = ContextVar("_BEGUN", default=None)


@contextmanager
def looking_ahead(experiments: Iterable[ExperimentPaths]) -> Iterator[None]:
    """Begin to look at the runs of the first of some experiments that has a large catalogue."""
    look = next(filter(None, map(_begun, experiments)), None) if can_fork() else None
    token = _BEGUN.set(look)
    try:
        yield
    finally:
        _BEGUN.reset(token)
        if look is not None:
            look.end()


def take_look(paths: ExperimentPaths) -> IsUnchanged | None:
    """What a fork has seen of an experiment, if one has looked. A later scan looks itself."""
    look = _BEGUN.get()
    if look is None or not look.is_of(paths):
        return None
    _BEGUN.set(None)
    return look.is_unchanged


def _begun(paths: ExperimentPaths) -> LookAhead | None:
    # A missing file, or one without permission.
    with suppress(OSError, ValueError):
        sizes = {file: file.lstat().st_size for file in catalogue_files(paths) if file.exists()}
        newest = max(sizes, key=lambda file: file.lstat().st_mtime_ns, default=None)
        if newest is not None and sizes[newest] >= FEWEST_BYTES:
            return LookAhead(paths.folder, newest, sizes[newest])
    return None


def _look(folder: str, file: Path, marks: mmap.mmap) -> None:
    """Mark the unchanged runs of a catalogue; a damaged catalogue raises an error."""
    from rlexp.store.derived_files import read_derived_bytes
    from rlexp.store.files import parse_json
    from rlexp.store.run_stamps import packed, spans_of, stamp_of, stamps_in

    checksum, content = read_derived_bytes(file)
    document = parse_json(content)
    names, attempts = document["runs"]["name"], document["runs"]["attempts"]
    stamps = stamps_in(document["stamps"], attempts)
    marks[:CHECKSUM] = checksum
    # The command looks from the first run to the last: in the end, they meet.
    rows = zip(range(len(names)), names, attempts, spans_of(attempts), strict=True)
    for row, name, number, span in reversed([*rows]):
        if stamps[span] == packed(stamp_of(f"{folder}/{name}", number)):
            marks[CHECKSUM + row] = 1
