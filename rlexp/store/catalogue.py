"""The catalogue of an experiment: a cache of its ended runs, so that their journals are read once.

The catalogue is derived from the records and may be deleted. It holds runs whose records match the
ledger only. An entry is valid while the stamp of the run (inode, size and times of its files) is
unchanged, so that unchanged runs are neither read nor compared with the ledger again. A catalogue
that cannot be read is ignored as a whole; a catalogue is always written as a whole.
"""

import json
import os
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from operator import attrgetter
from pathlib import Path
from typing import Any

from rlexp.errors import RecordError
from rlexp.protocol.spec import CONFIGURATION, RunSpec
from rlexp.records.run import RunRecord, State
from rlexp.store.catalogue_rows import CatalogueRow, Stamp, columns_as_json, read_rows
from rlexp.store.changed_records import ChangedRecords, ledger_stamp
from rlexp.store.curves import Curves
from rlexp.store.derived_files import read_derived, write_derived
from rlexp.store.files import read_file
from rlexp.store.layout import RunPaths
from rlexp.store.runs import StoredRun
from rlexp.store.schemas import CATALOGUE, VERSION, writer

OF_A_FILE = 4
"""Numbers per file in a stamp: inode, size, mtime and ctime, times in nanoseconds."""
NO_FILE = (-1,) * OF_A_FILE
"""The numbers of a missing file."""
SETTLED = 2.0
"""Age in seconds after which a further change shows in the times on every file system."""


def stamp_of(run: RunPaths, attempts: int) -> Stamp:
    """The stamp of a run with attempts numbered from 1 to `attempts`.

    It covers the specification, the folder of the attempts, the journals and verdicts, the
    provenance of the last attempt, and the score of the trusted code of a stream, which comes after
    the run has ended.

    The stamp of the folder `attempts` changes when an attempt is added or removed. The ctime is set
    by the kernel only: an edit that restores the mtime, or a copy of the folder, has another ctime.
    """
    # Strings and `os.lstat`: this is done for each of thousands of runs.
    folder = str(run.folder)
    stamp = [
        *numbers_of_file(f"{folder}/spec.json"),
        *numbers_of_file(f"{folder}/scoring.json"),
        *_of_folder(f"{folder}/attempts"),
    ]
    for number in range(1, attempts + 1):
        stamp += numbers_of_file(f"{folder}/attempts/{number}/events.jsonl")
        stamp += numbers_of_file(f"{folder}/attempts/{number}/verdict.json")
    if attempts:
        stamp += numbers_of_file(f"{folder}/attempts/{attempts}/provenance.json")
    return stamp


def length_of(attempts: int) -> int:
    """The number of integers in the stamp of a run with so many attempts."""
    return OF_A_FILE * (3 + 2 * attempts + bool(attempts))


def stamp_before_reading(run: RunPaths) -> Stamp | None:
    """The present stamp of a run; None where its attempts are not numbered from 1 without gaps."""
    with suppress(RecordError):
        numbers = [attempt.number for attempt in run.attempts()]
        if numbers == list(range(1, len(numbers) + 1)):
            return stamp_of(run, len(numbers))
    return None


def is_settled(stamp: Stamp, now: float, seconds: float) -> bool:
    """Whether no file of a stamp changed in the last `seconds`."""
    # Times of files have coarse steps, up to 2 s: a second change within one step of the clock
    # would leave the stamp as it is.
    limit = int((now - seconds) * 1e9)
    times = (*stamp[2::OF_A_FILE], *stamp[3::OF_A_FILE])
    return all(time < limit for time in times)


def stamp_of_tree(
    folder: str, before: float, *, files: Collection[str] = (), folders: Collection[str] = ()
) -> str | None:
    """A digest of the stamps of all files below a folder.

    Args:
        folder: The folder.
        before: A time in seconds since 1970; a file that changed later could change once more
            without another stamp.
        files: Names of files that are ignored.
        folders: Names of folders that are ignored.

    Returns:
        None where a file changed after `before`, cannot be read, or is a link, because a link may
        lead to another file tomorrow.
    """
    limit, waiting = int(before * 1e9), [folder]
    total = sha256()
    while waiting:
        present = waiting.pop()
        try:
            with os.scandir(present) as entries:
                by_name = sorted((entry.name, entry) for entry in entries)
            numbers = [
                (name, _numbers(entry))
                for name, entry in by_name
                if name not in (folders if entry.is_dir(follow_symlinks=False) else files)
            ]
        except OSError:
            return None
        total.update(repr((present, numbers)).encode())
        for name, (is_link, is_folder, _, _, changed, touched) in numbers:
            if is_link or max(changed, touched) >= limit:
                return None
            if is_folder:
                waiting.append(f"{present}/{name}")
    return total.hexdigest()


def _numbers(entry: os.DirEntry[str]) -> tuple[bool, bool, int, int, int, int]:
    """Whether the entry is a link, whether it is a folder, and its four numbers of a stamp."""
    status = entry.stat(follow_symlinks=False)
    kind = entry.is_symlink(), entry.is_dir(follow_symlinks=False)
    return *kind, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def numbers_of_file(path: str) -> tuple[int, ...]:
    """The numbers of a file in a stamp; `NO_FILE` where it is missing."""
    try:
        status = os.lstat(path)
    except OSError:
        return NO_FILE
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _of_folder(path: str) -> tuple[int, ...]:
    try:
        status = os.stat(path)  # noqa: PTH116 (called for every run)
    except OSError:
        return NO_FILE
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


FORMAT = 7
"""Increased when the same records would give another catalogue."""
FEWEST = 50
"""Runs below which a catalogue saves no time."""
SHARE = 50
"""A catalogue is written when at least one run in so many is new in it."""
INVALID = (
    *(RecordError, TypeError, ValueError, KeyError, IndexError, AttributeError),
    RecursionError,
)
"""Exceptions that a JSON file with invalid content can cause."""


PARTS = attrgetter(*CONFIGURATION)
"""Returns the parts of a specification that define its configuration."""
ReadRun = tuple[Stamp | None, StoredRun]
"""A run as it was read, with its stamp from before the reading."""


@dataclass
class Catalogue:
    """The cached entries of an experiment's ended runs.

    Attributes:
        locations: Files that may hold the catalogue, the preferred one first.
        now: Returns the time in seconds since 1970.
        records: Compares runs with the ledger of the experiment.
        curves: The curves of the same runs.
        ahead: Runs that were read and compared before they are looked at, by name.
    """

    locations: Sequence[Path]
    now: Callable[[], float]
    records: ChangedRecords
    curves: Curves
    ahead: dict[str, ReadRun] = field(default_factory=dict)
    _rows: dict[str, CatalogueRow] = field(default_factory=dict)
    _kept: dict[str, tuple[Stamp, StoredRun]] = field(default_factory=dict)
    _firsts: dict[str, RunSpec] = field(default_factory=dict)
    _alike: dict[tuple[int, ...], bool] = field(default_factory=dict)
    _requested: list[RunSpec] = field(default_factory=list)
    _provenances: dict[bytes, bytes] = field(default_factory=dict)
    _ledger: Stamp = field(default_factory=list)
    _new: int = 0

    @classmethod
    def read(
        cls,
        locations: Sequence[Path],
        now: Callable[[], float],
        records: ChangedRecords,
        curves: Curves,
    ) -> "Catalogue":
        """Read the newest file; a damaged file, or that of another version, reads as empty."""
        with suppress(OSError, *INVALID):
            newest = max(filter(os.path.lexists, locations), key=lambda p: p.lstat().st_mtime_ns)
            rows, ledger = _read(newest)
            return cls(locations, now, records, curves, _rows=rows, _ledger=ledger)
        return cls(locations, now, records, curves)

    def look(
        self,
        run: RunPaths,
        read: Callable[[RunPaths], StoredRun],
        requested: RunSpec | None = None,
    ) -> StoredRun:
        """The run from the catalogue, or else as `read` reads it; in brief if it has ended.

        Args:
            run: The files of the run.
            read: Reads the files.
            requested: The specification that the caller has for this name. If it is that of the
                run, the record refers to it, so that it is in memory once.
        """
        cached = self._find(run, requested)
        if cached is not None:
            return cached
        before, stored = stamp_before_reading(run), self._compared(read(run))
        return self._entered(run, before, stored) or stored

    def look_in_full(
        self,
        run: RunPaths,
        read: Callable[[RunPaths], StoredRun],
        requested: RunSpec | None = None,
        *,
        logged: bool = False,
    ) -> StoredRun:
        """The run with its curves, from the catalogue, or else as `read` reads it.

        Args:
            run: The files of the run.
            read: Reads the files.
            requested: As of `look`.
            logged: Whether it gets what its learner logged, which `read` then reads too.
        """
        name, brief = run.folder.name, self._find(run, requested)
        if brief is not None:
            full = self.curves.add_to(brief.record, self._kept[name][0], logged=logged)
            if full is not None:
                return replace(brief, record=full)
        if name in self.ahead:
            before, stored = self.ahead.pop(name)
        else:
            before, stored = self._read(run, read, catalogued=brief)
        if brief is None:
            brief = self._entered(run, before, stored)
        kept, _ = self._kept.get(name, (None, None))
        if brief is None or kept is None or kept != before:
            return stored
        self.curves.keep(stored.record, kept, logged=logged)
        record = replace(stored.record, spec=brief.record.spec)
        return replace(stored, record=record, provenance=brief.provenance)

    def read_ahead(
        self,
        run: RunPaths,
        read: Callable[[RunPaths], StoredRun],
        requested: RunSpec | None = None,
        *,
        logged: bool = False,
    ) -> ReadRun | None:
        """What `look_in_full` would read and compare of a run; None where it needs no files.

        The arguments are those of `look_in_full`. A fork of this process can call this method,
        because it enters nothing.
        """
        brief = self._find(run, requested)
        if brief is not None:
            stamp = self._kept[run.folder.name][0]
            if self.curves.add_to(brief.record, stamp, logged=logged) is not None:
                return None
        return self._read(run, read, catalogued=brief)

    def lacks(self, runs: int, *, logged: bool) -> int:
        """About how many of an experiment's runs would be read from their files.

        Args:
            runs: Number of runs on disk.
            logged: Whether what learners logged is read too.
        """
        return runs - min(len(self._rows), self.curves.count(logged=logged))

    def _read(
        self,
        run: RunPaths,
        read: Callable[[RunPaths], StoredRun],
        *,
        catalogued: StoredRun | None,
    ) -> ReadRun:
        """A run from its files, compared with the ledger unless the catalogue has it (`catalogued`)."""
        before, stored = stamp_before_reading(run), read(run)
        return before, self._compared(stored) if catalogued is None else self.compare(stored)

    def _entered(self, run: RunPaths, before: Stamp | None, stored: StoredRun) -> StoredRun | None:
        """The run in brief, entered if its files are settled; None where it has not ended.

        Args:
            run: The files of the run.
            before: Their stamp from before the reading: a change in between then makes the entry
                invalid, and not the entry of old content valid for new files.
            stored: The run as it was read, compared with the ledger.
        """
        name, spec = run.folder.name, stored.record.spec
        if not stored.record.is_over or spec.name != name or spec.parent is not None:
            return None
        record = replace(stored.record.in_brief(), spec=self._shared(spec))
        brief = replace(stored, record=record, provenance=self._provenance(run, record))
        intact = not (brief.changed or self.records.broken)
        if intact and before is not None and is_settled(before, self.now(), SETTLED):
            self._kept[name] = before, brief
            self._new += 1
        return brief

    def has_entered(self, name: str) -> bool:
        """Whether this catalogue shows that all attempts of the run `name` are in the ledger.

        It shows it for runs that it held unchanged, while the ledger is unchanged too.
        """
        row, kept = self._rows.get(name), self._kept.get(name)
        return (
            row is not None
            and kept is not None
            and kept[0] is row.stamp
            and self._ledger_unchanged
            and bool(row.values["entered"])
        )

    @cached_property
    def _ledger_unchanged(self) -> bool:
        """Whether the ledger is the file that the catalogue was made with."""
        present = [*ledger_stamp(self.records.paths)]
        return bool(present) and present == self._ledger

    def compare(self, stored: StoredRun) -> StoredRun:
        """A run that was just read, with the names of its files that differ from the ledger."""
        # The stamp is looked at after the reading: what was read is then what was compared.
        return stored if self._valid_row(stored.paths) else self._compared(stored)

    def _compared(self, stored: StoredRun) -> StoredRun:
        # A running run is still being written.
        if stored.record.state is State.RUNNING:
            return stored
        changed = self.records.of(stored.paths)
        return replace(stored, changed=changed) if changed else stored

    def save(self, *, complete: bool) -> None:
        """Write the catalogue, and the curves, if enough of either is new.

        Each is written to its first writable location.

        Args:
            complete: Whether every run was looked at, so that runs without a look are gone.
        """
        self.curves.save(complete=complete, fewest=FEWEST, share=SHARE)
        if len(self._kept) < FEWEST or self._new * SHARE < len(self._kept):
            return
        if not complete:
            self._keep_others()
        document = {
            VERSION: CATALOGUE.version,
            "of": written_by(),
            **self._as_json(),
        }
        content = json.dumps(document, separators=(",", ":")).encode()
        for location in self.locations:
            with suppress(OSError):
                write_derived(location, content)
                return

    def _as_json(self) -> dict[str, Any]:
        """The runs, and the stamp of the ledger in which their attempts were looked up."""
        stamp = self.records.stamp
        # A ledger that has just changed may change again within one step of the clock.
        if stamp and is_settled([*stamp], self.now(), SETTLED):
            columns = columns_as_json(
                self._kept.values(),
                lambda s: self.records.entered(s.record.spec.name, s.record.attempts),
            )
            return {"ledger": [*stamp], **columns}
        columns = columns_as_json(
            self._kept.values(), lambda s: self.has_entered(s.record.spec.name)
        )
        return {"ledger": self._ledger, **columns}

    def _provenance(self, run: RunPaths, record: RunRecord) -> bytes | None:
        """The content of the provenance of the last attempt; runs with the same share it."""
        if not record.attempts:
            return None
        try:
            content = read_file(run.attempt(record.attempts).provenance)
        except OSError:
            return None
        return self._provenances.setdefault(content, content)

    def _find(self, run: RunPaths, requested: RunSpec | None = None) -> StoredRun | None:
        name, row = run.folder.name, self._valid_row(run)
        if row is None:
            return None
        with suppress(*INVALID):
            matches = requested is not None and self._specifies(requested, row)
            stored = row.stored(run, requested if matches else None)
            if stored.record.spec.name == name and stored.record.is_over:
                self._kept[name] = row.stamp, stored
                return stored
        return None

    def _valid_row(self, run: RunPaths) -> CatalogueRow | None:
        """The entry of a run whose files are as they were when the entry was made."""
        row = self._rows.get(run.folder.name)
        if row is None:
            return None
        attempts = row.values["attempts"]
        unchanged = len(row.stamp) == length_of(attempts) and row.stamp == stamp_of(run, attempts)
        return row if unchanged else None

    def _specifies(self, requested: RunSpec, row: CatalogueRow) -> bool:
        """Whether a specification is that of a catalogued run."""
        if not row.is_seeded_as(requested):
            return False
        # Python reuses the `id` of a freed object: all these objects live as long as this
        # catalogue (`_requested` keeps the caller's), so that an `id` stands for one object.
        key = (row.values["configuration"], *map(id, PARTS(requested)))
        if key not in self._alike:
            self._requested.append(requested)
            self._alike[key] = _written(requested) == _written(row.configuration)
        return self._alike[key]

    def _keep_others(self) -> None:
        """Keep the valid entries of runs that this command did not look at."""
        folders = {run.paths.folder.parent for _, run in self._kept.values()}
        (folder,) = folders
        for name in self._rows.keys() - self._kept.keys():
            self._find(RunPaths(folder / name))

    def _shared(self, spec: RunSpec) -> RunSpec:
        """The same specification; all runs of a configuration share its parts in memory."""
        return self._firsts.setdefault(_written(spec), spec).again(
            spec.phase, spec.root, spec.seed
        )


def _written(spec: RunSpec) -> str:
    """A configuration as text; the order of its keys counts, unlike in a comparison of dicts."""
    return repr([spec.schema, *(getattr(spec, name) for name in CONFIGURATION)])


def written_by() -> str:
    """The format of the catalogue, and the version of rlexp that writes it."""
    return f"{FORMAT}, rlexp {writer()}"


def _read(location: Path) -> tuple[dict[str, CatalogueRow], Stamp]:
    """The rows of a catalogue of this version, and the stamp of the ledger.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is damaged, of another version, or too large.
    """
    document = read_derived(location)
    if (document[VERSION], document["of"]) != (CATALOGUE.version, written_by()):
        raise ValueError("it is of another version")
    ledger = document["ledger"]
    if not isinstance(ledger, list):
        raise TypeError("the stamp of the ledger is no list")
    return read_rows(document), ledger
