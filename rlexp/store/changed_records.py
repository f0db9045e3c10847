"""Names the records of runs that are not what the ledger of their experiment says.

Only the files that a score is computed from are compared here, because every command that shows a
score asks for them. `rlexp verify` and reports compare all files.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rlexp.errors import RecordError
from rlexp.records.ledger import SCORING_FILE, ExpectedRecords, SealedAttempt
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.registers.ledger import read_ledger, sum_of_file

DECISIVE = ("spec.json", "events.jsonl", "verdict.json", SCORING_FILE)
"""Files of a run and of its attempts that a score is computed from."""


@dataclass(slots=True)
class ChangedRecords:
    """Compares runs of one experiment with its ledger, which is read at the first comparison.

    Attributes:
        paths: The experiment.
        broken: Whether the ledger, as far as it was read, is damaged or was changed itself.
        sum_of: Returns the sha256 of a file; None where it is unreadable.
    """

    paths: ExperimentPaths
    broken: bool = False
    sum_of: Callable[[Path], str | None] = sum_of_file
    _stamp: tuple[int, ...] | None = None
    _runs: Mapping[str, Mapping[int, SealedAttempt]] = field(default_factory=dict)

    def of(self, run: RunPaths) -> tuple[str, ...]:
        """The decisive files of a run that differ from the ledger, by their paths in its folder.

        An attempt that is not in the ledger yet is left out, and so is a run of an older version.
        """
        if self._stamp is None:
            self._read()
        changed = tuple(self._differing(run))
        # The run may have been removed and made again since the ledger was read.
        if changed and self._stamp != ledger_stamp(self.paths):
            self._read()
            changed = tuple(self._differing(run))
        return changed

    def read_ahead(self) -> None:
        """Read the ledger, unless it was read, so that forks of this process need not."""
        if self._stamp is None:
            self._read()

    @property
    def stamp(self) -> tuple[int, ...] | None:
        """The stamp of the ledger when it was read; None where it was not read."""
        return self._stamp

    def entered(self, run: str, attempts: int) -> bool:
        """Whether the attempts of a run, numbered from 1, are all in the ledger that was read."""
        in_ledger = self._runs.get(run, {})
        return all(number in in_ledger for number in range(1, attempts + 1))

    def _read(self) -> None:
        self._stamp = ledger_stamp(self.paths)
        try:
            ledger = read_ledger(self.paths)
        except RecordError:
            self.broken, self._runs = True, {}
            return
        self.broken = bool(ledger and ledger.breaks)
        self._runs = ExpectedRecords.of(ledger.entries if ledger else ()).runs

    def _differing(self, run: RunPaths) -> Iterator[str]:
        attempts = self._runs.get(run.folder.name, {})
        # A later attempt may replace a file of an earlier one, so its sum comes last.
        expected = {
            path: text for _, a in sorted(attempts.items()) for path, text in a.files.items()
        }
        for path, text in expected.items():
            if path.rpartition("/")[2] in DECISIVE and self.sum_of(run.folder / path) != text:
                yield path
        for number in attempts:
            verdict = f"attempts/{number}/verdict.json"
            if verdict not in expected and os.path.lexists(run.folder / verdict):
                yield verdict


def ledger_stamp(paths: ExperimentPaths) -> tuple[int, ...]:
    """Inode, size and times of a ledger; empty where there is none."""
    try:
        status = paths.ledger.stat()
    except OSError:
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
