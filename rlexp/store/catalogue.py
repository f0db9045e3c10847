"""The catalogue of an experiment: a cache of its ended runs, so that their journals are read once.

The catalogue is derived from the records and may be deleted. It holds runs whose records match the
ledger only. An entry is valid while the stamp of the run (inode, size and times of its files) is
unchanged, so that unchanged runs are neither read nor compared with the ledger again. A catalogue
that cannot be read is ignored as a whole; a catalogue is always written as a whole.
"""

import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any

from rlexp.errors import RecordError
from rlexp.protocol.spec import CONFIGURATION, RunSpec
from rlexp.records.run import RunRecord, State
from rlexp.store.catalogue_rows import CatalogueTable, columns_as_json, read_table
from rlexp.store.changed_records import ChangedRecords, ledger_stamp
from rlexp.store.curves import Curves
from rlexp.store.derived_files import read_derived_bytes, write_derived
from rlexp.store.files import parse_json, read_file
from rlexp.store.layout import RunPaths
from rlexp.store.run_stamps import (
    SETTLED,
    Stamp,
    is_settled,
    packed,
    stamp_before_reading,
    stamp_of,
)
from rlexp.store.runs import StoredRun
from rlexp.store.schemas import CATALOGUE, VERSION, writer

FORMAT = 8
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
        is_unchanged: Whether the run in a row of the file with a checksum is known to be unchanged; None
            where nothing is known.
        ahead: Runs that were read and compared before they are looked at, by name.
    """

    locations: Sequence[Path]
    now: Callable[[], float]
    records: ChangedRecords
    curves: Curves
    is_unchanged: Callable[[bytes, int], bool] | None = None
    ahead: dict[str, ReadRun] = field(default_factory=dict)
    _table: CatalogueTable = field(default_factory=CatalogueTable)
    _held: set[str] = field(default_factory=set)
    _kept: dict[str, tuple[bytes, StoredRun]] = field(default_factory=dict)
    _firsts: dict[str, RunSpec] = field(default_factory=dict)
    _alike: dict[tuple[int, ...], bool] = field(default_factory=dict)
    _requested: list[RunSpec] = field(default_factory=list)
    _provenances: dict[bytes, bytes] = field(default_factory=dict)
    _new: int = 0

    @classmethod
    def read(
        cls,
        locations: Sequence[Path],
        now: Callable[[], float],
        records: ChangedRecords,
        curves: Curves,
        is_unchanged: Callable[[bytes, int], bool] | None = None,
    ) -> "Catalogue":
        """Read the newest file; a damaged file, or that of another version, reads as empty."""
        catalogue = cls(locations, now, records, curves, is_unchanged)
        with suppress(OSError, *INVALID):
            newest = max(filter(os.path.lexists, locations), key=lambda p: p.lstat().st_mtime_ns)
            catalogue._table = _read(newest)
        return catalogue

    def holds(self, name: str) -> bool:
        """Whether it is known already that a run in the catalogue is unchanged."""
        row = self._table.rows.get(name)
        return row is not None and self._known_unchanged(row)

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
        if brief is None or kept is None or before is None or kept != packed(before):
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
        return runs - min(len(self._table.rows), self.curves.count(logged=logged))

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
            self._held.discard(name)
            self._kept[name] = packed(before), brief
            self._new += 1
        return brief

    def has_entered(self, name: str) -> bool:
        """Whether this catalogue shows that all attempts of the run `name` are in the ledger.

        It shows it for runs that it held unchanged, while the ledger is unchanged too.
        """
        return (
            name in self._held
            and self._ledger_unchanged
            and self._table.is_entered(self._table.rows[name])
        )

    @cached_property
    def _ledger_unchanged(self) -> bool:
        """Whether the ledger is the file that the catalogue was made with."""
        present = [*ledger_stamp(self.records.paths)]
        return bool(present) and present == self._table.ledger

    def compare(self, stored: StoredRun) -> StoredRun:
        """A run that was just read, with the names of its files that differ from the ledger."""
        # The stamp is looked at after the reading: what was read is then what was compared.
        row = self._valid_row(stored.paths, stored.paths.folder.name)
        return stored if row is not None else self._compared(stored)

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
        return {"ledger": self._table.ledger, **columns}

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
        name = run.folder.name
        row = self._valid_row(run, name)
        if row is None:
            return None
        with suppress(*INVALID):
            matches = requested is not None and self._specifies(requested, row)
            stored = self._table.stored(row, run, requested if matches else None)
            if stored.record.spec.name == name and stored.record.is_over:
                self._held.add(name)
                self._kept[name] = self._table.stamp(row), stored
                return stored
        return None

    def _valid_row(self, run: RunPaths, name: str) -> int | None:
        """The row of a run whose files are as they were when the catalogue was written."""
        row = self._table.rows.get(name)
        if row is None or self._known_unchanged(row):
            return row
        present = stamp_of(str(run.folder), self._table.attempts(row))
        return row if self._table.stamp(row) == packed(present) else None

    def _known_unchanged(self, row: int) -> bool:
        """Whether a run was seen to be unchanged just before, and no command executes it again."""
        if self.is_unchanged is None or not self._table.never_runs_again(row):
            return False
        return self.is_unchanged(self._table.checksum, row)

    def _specifies(self, requested: RunSpec, row: int) -> bool:
        """Whether a specification is that of a catalogued run."""
        if not self._table.is_seeded_as(row, requested):
            return False
        # Python reuses the `id` of a freed object: all these objects live as long as this
        # catalogue (`_requested` keeps the caller's), so that an `id` stands for one object.
        number = self._table.configuration_number(row)
        key = (number, *map(id, PARTS(requested)))
        if key not in self._alike:
            self._requested.append(requested)
            configuration = self._table.configurations[number]
            self._alike[key] = _written(requested) == _written(configuration)
        return self._alike[key]

    def _keep_others(self) -> None:
        """Keep the valid entries of runs that this command did not look at."""
        folders = {run.paths.folder.parent for _, run in self._kept.values()}
        (folder,) = folders
        for name in self._table.rows.keys() - self._kept.keys():
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


def _read(location: Path) -> CatalogueTable:
    """The runs of a catalogue of this version.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is damaged, of another version, or too large.
    """
    checksum, content = read_derived_bytes(location)
    document = parse_json(content)
    if (document[VERSION], document["of"]) != (CATALOGUE.version, written_by()):
        raise ValueError("it is of another version")
    return read_table(document, checksum)
