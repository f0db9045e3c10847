"""Intervals that earlier commands computed for an experiment, kept in the user's cache.

An interval is a function of scores, a metric, the settings of the resampling and the code that
computes it. All of them are in the key of an entry, so that another score finds no entry. The file
may be deleted at any time.
"""

import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from rlexp.stats.interval import Interval
from rlexp.store.catalogue import INVALID
from rlexp.store.derived_files import read_derived, write_derived
from rlexp.store.layout import ExperimentPaths, cache_folder
from rlexp.store.run_stamps import SETTLED, stamp_of_tree
from rlexp.store.schemas import writer

MOST = 1_000
"""Most entries of a file."""
COMPUTING = ("stats", "metrics")
"""The packages of rlexp that compute intervals."""

NUMBER = "number"
"""The key of an entry that holds one number instead of intervals."""

Entry = Mapping[str, Mapping[str, Any]]
"""The fields of the intervals that were computed together, by metric."""

Answer = TypeVar("Answer")


@dataclass
class IntervalMemory:
    """The intervals of an experiment by what they were computed from.

    Attributes:
        file: The file; it is read when the first interval is sought.
    """

    file: Path
    _used: dict[str, Entry] = field(default_factory=dict)
    _new: bool = False

    @classmethod
    def of(cls, paths: ExperimentPaths) -> "IntervalMemory":
        """The memory of an experiment."""
        # The full path, because experiments of several workspaces share the cache.
        name = sha256(os.fsencode(os.path.realpath(paths.folder))).hexdigest()[:32]
        return cls(cache_folder() / "intervals" / name)

    def recall(
        self, question: bytes, compute: Callable[[], dict[str, Interval]]
    ) -> dict[str, Interval]:
        """The intervals that answer a question; they are computed where none are kept."""

        def read(entry: Entry) -> dict[str, Interval]:
            return {name: Interval(**values) for name, values in entry.items()}

        def to_entry(intervals: dict[str, Interval]) -> Entry:
            return {name: asdict(interval) for name, interval in intervals.items()}

        return self._recall(question, compute, read, to_entry)

    def recall_number(self, question: bytes, compute: Callable[[], float | None]) -> float | None:
        """The number that answers a question; it is computed where none is kept."""

        def read(entry: Entry) -> float | None:
            value = entry[NUMBER][NUMBER]
            if value is not None and not isinstance(value, float):
                raise TypeError("it is no number")
            return value

        return self._recall(question, compute, read, lambda value: {NUMBER: {NUMBER: value}})

    def _recall(
        self,
        question: bytes,
        compute: Callable[[], Answer],
        read: Callable[[Entry], Answer],
        to_entry: Callable[[Answer], Entry],
    ) -> Answer:
        """The kept answer to a question; a computed one where none is kept or it cannot be read."""
        if self._version is None:
            return compute()
        key = sha256(question).hexdigest()
        entry = self._kept.get(key)
        with suppress(*INVALID):
            if entry is not None:
                answer = read(entry)
                self._used[key] = entry
                return answer
        computed = compute()
        self._used[key] = to_entry(computed)
        self._new = True
        return computed

    def save(self) -> None:
        """Write the entries of this command and the last ones of earlier commands, if any is new."""
        if not self._new:
            return
        others = {key: entry for key, entry in self._kept.items() if key not in self._used}
        entries = dict([*others.items(), *self._used.items()][-MOST:])
        content = json.dumps({"of": self._version, "entries": entries}).encode()
        with suppress(OSError):
            # Scores can be guessed from intervals, and the user's records may be private.
            self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_derived(self.file, content)

    @cached_property
    def _kept(self) -> Mapping[str, Entry]:
        """The entries of the file; none where it is damaged or of another version."""
        with suppress(OSError, *INVALID):
            document = read_derived(self.file)
            if document["of"] == self._version:
                return dict(document["entries"])
        return {}

    @cached_property
    def _version(self) -> str | None:
        """What computes intervals here; None where the code has just changed, or cannot be read."""
        # The version alone is not enough: an editable installation changes without a new version.
        folder = str(Path(__file__).parents[2])
        before = time.time() - SETTLED
        stamps = [
            stamp_of_tree(f"{folder}/{name}", before, folders=("__pycache__",))
            for name in COMPUTING
        ]
        if None in stamps:
            return None
        machine = (
            platform.python_version(),
            np.__version__,
            version("scipy"),
            platform.machine(),
            platform.node(),
        )
        return repr((writer(), *machine, *stamps))
