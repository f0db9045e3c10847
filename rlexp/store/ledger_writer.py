"""Writes ended attempts to the ledger, each once, with the checksums of their files."""

from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from os.path import lexists

from rlexp.errors import RlexpError
from rlexp.records.events import Ending, Inherited, RunEnded
from rlexp.records.ledger import (
    ATTEMPT_FILES,
    RUN_FILES,
    ExpectedRecords,
    RemovedRun,
    SealedAttempt,
    SealedScoring,
)
from rlexp.store.layout import AttemptPaths, ExperimentPaths, RunPaths
from rlexp.store.locks.lease import hold, is_held
from rlexp.store.registers.ledger import append_entry, read_ledger, sum_of_file
from rlexp.store.runs import StoredAttempt, read_attempts, read_spec

LOST = "lost"
"""The ending of an attempt without an end in its journal and without a verdict."""


def ended_attempts(run: RunPaths) -> list[StoredAttempt]:
    """The attempts of a run whose files will not change any more.

    An attempt without an end counts as ended once a later attempt has ended: until then its
    process may still be writing.

    Raises:
        RecordError: A journal cannot be read.
    """
    attempts = read_attempts(run)
    last = max((a.paths.number for a in attempts if ending_of(a) != LOST), default=0)
    # A process holds the run: an attempt without an end may be its attempt.
    if last and is_held(run.lease):
        return [a for a in attempts if ending_of(a) != LOST]
    return [a for a in attempts if a.paths.number <= last]


def ending_of(attempt: StoredAttempt) -> str:
    """How an attempt ended: the ending of its last event, or `LOST`."""
    last = attempt.events[-1] if attempt.events else None
    return str(last.ending) if isinstance(last, RunEnded) else LOST


def _is_inherited(attempt: StoredAttempt) -> bool:
    """Whether the events of an attempt are those of the run's parent."""
    return any(isinstance(event, Inherited) for event in attempt.events)


def file_sums(run: RunPaths, attempt: AttemptPaths, *, completed: bool) -> dict[str, str]:
    """The sha256 of the existing files of an attempt and of its run, by their names."""
    # Files of the run other than its spec are final only once the run is completed.
    of_the_run = RUN_FILES if completed else RUN_FILES[:1]
    names = [*of_the_run, *(f"attempts/{attempt.number}/{name}" for name in ATTEMPT_FILES)]
    digests = {name: sum_of_file(run.folder / name) for name in names}
    return {name: digest for name, digest in digests.items() if digest is not None}


def unsealed_attempts(
    runs: Iterable[RunPaths], entered: Mapping[str, Container[int]]
) -> Iterator[tuple[RunPaths, StoredAttempt]]:
    """The ended attempts that are not in the ledger yet; unreadable runs are left out.

    Args:
        runs: The runs.
        entered: The numbers of the attempts in the ledger, by the name of their run.
    """
    for run in runs:
        numbers = entered.get(run.folder.name, ())
        with suppress(RlexpError):
            # Names of folders first: journals are read only where an attempt is missing.
            if any(attempt.number not in numbers for attempt in run.attempts()):
                yield from ((run, a) for a in ended_attempts(run) if a.paths.number not in numbers)


def unsealed_scorings(runs: Iterable[RunPaths], account: ExpectedRecords) -> Iterator[RunPaths]:
    """The runs with a score of the trusted code that is not in the ledger, while the run is."""
    for run in runs:
        name = run.folder.name
        if name in account.runs and run.scoring.exists() and not account.has_scoring(name):
            yield run


def seal_ended_attempts(
    paths: ExperimentPaths, *, now: float, counted: Mapping[str, int] | None = None
) -> None:
    """Write missing attempts to the ledger, in a command that has no run to execute.

    If another command drives the experiment, or the ledger cannot be written, a later command
    writes them.

    Args:
        paths: The experiment.
        now: The current time in seconds since 1970.
        counted: Numbers of attempts, by run, that the caller has just counted.
    """
    with suppress(OSError, RlexpError):
        entered, attempts = entered_attempts(paths), counted or {}
        runs = (r for r in paths.runs() if not _is_entered(r, entered, attempts))
        # Look without the lock first: most commands find nothing to write and must not wait.
        if any(unsealed_attempts(runs, entered)):
            with hold(paths.lock, f"experiment {paths.name}", now=now):
                LedgerWriter(paths).enter_late()


def _is_entered(
    run: RunPaths, entered: Mapping[str, Container[int]], counted: Mapping[str, int]
) -> bool:
    """Whether the counted attempts of a run are numbered from 1 and all in the ledger."""
    name = run.folder.name
    numbers = range(1, counted.get(name, 0) + 1)
    in_ledger, folder = entered.get(name, ()), f"{run.folder}/attempts"
    return bool(numbers) and all(n in in_ledger and lexists(f"{folder}/{n}") for n in numbers)


def entered_attempts(paths: ExperimentPaths) -> dict[str, set[int]]:
    """The numbers of the attempts that are in the ledger, by the name of their run.

    Raises:
        RecordError: The ledger cannot be read.
    """
    return {name: set(attempts) for name, attempts in _account(paths).runs.items()}


def _account(paths: ExperimentPaths) -> ExpectedRecords:
    ledger = read_ledger(paths)
    return ExpectedRecords.of(ledger.entries if ledger else ())


@dataclass(slots=True)
class LedgerWriter:
    """Writes attempts to the ledger for the command that drives the experiment.

    The command holds the experiment's lock. Entries that cannot be written, for example on a full
    disk, are written by a later command: an error of the ledger never ends a run.
    """

    paths: ExperimentPaths
    _entered: dict[str, set[int]] | None = None

    def enter_late(self) -> None:
        """Write the attempts that ended, scores, and runs that were removed, without a command."""
        with suppress(OSError, RlexpError):
            entered = self._entered = entered_attempts(self.paths)
            runs = {run.folder.name: run for run in self.paths.runs()}
            for name in [name for name in entered if name not in runs]:
                append_entry(self.paths, RemovedRun(run=name, late=True))
                del entered[name]
            for run, attempt in unsealed_attempts(runs.values(), entered):
                self._enter(run, attempt, entered, late=True)
            # Only runs of a stream have one. It belongs to an attempt that was entered before it.
            if scored := [run for run in runs.values() if run.scoring.exists()]:
                self.enter_scorings(unsealed_scorings(scored, _account(self.paths)))

    def enter_scorings(self, runs: Iterable[RunPaths]) -> None:
        """Write the scores that the trusted code has given to runs of a stream."""
        with suppress(OSError, RlexpError):
            for run in runs:
                sha256 = sum_of_file(run.scoring)
                if sha256 is not None:
                    append_entry(self.paths, SealedScoring(run=run.folder.name, sha256=sha256))

    def enter(self, run: RunPaths, number: int | None) -> None:
        """Write an attempt that has just ended, and earlier attempts that it ends.

        With `number=None`, write the ended attempts that are not in the ledger yet.
        """
        with suppress(OSError, RlexpError):
            if self._entered is None:
                self._entered = entered_attempts(self.paths)
            for attempt in ended_attempts(run):
                this = attempt.paths.number == number
                if this or attempt.paths.number not in self._entered.get(run.folder.name, ()):
                    # The events of a parent are an attempt that no process has made.
                    late = not this and not _is_inherited(attempt)
                    self._enter(run, attempt, self._entered, late=late)

    def _enter(
        self, run: RunPaths, attempt: StoredAttempt, entered: dict[str, set[int]], *, late: bool
    ) -> None:
        ending, number = ending_of(attempt), attempt.paths.number
        with suppress(RlexpError):
            entry = SealedAttempt(
                run=run.folder.name,
                id=read_spec(run).id,
                attempt=number,
                ending=ending,
                files=file_sums(run, attempt.paths, completed=ending == Ending.COMPLETED),
                late=late,
            )
            append_entry(self.paths, entry)
            entered.setdefault(run.folder.name, set()).add(number)
