"""Attempts that ended are entered in the ledger, each once, with the sums of their files."""

from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from os.path import lexists

from rlexp.errors import RlexpError
from rlexp.records.events import Ending, RunEnded
from rlexp.records.ledger import (
    OF_THE_ATTEMPT,
    OF_THE_RUN,
    Account,
    RemovedRun,
    SealedAttempt,
)
from rlexp.store.layout import AttemptPaths, ExperimentPaths, RunPaths
from rlexp.store.lease import hold, is_held
from rlexp.store.ledger import append_entry, read_ledger, sum_of_file
from rlexp.store.runs import StoredAttempt, read_attempts, read_spec

LOST = "lost"
"""The ending of an attempt that nobody saw end."""


def over(run: RunPaths) -> list[StoredAttempt]:
    """The attempts of a run that nothing will change any more.

    An attempt without an end is over once a later one has ended: the process of the first may
    still be dying before.

    Raises:
        RecordError: A journal cannot be read.
    """
    attempts = read_attempts(run)
    last = max((a.paths.number for a in attempts if ending_of(a) != LOST), default=0)
    if last and is_held(run.lease):
        return [a for a in attempts if ending_of(a) != LOST]
    return [a for a in attempts if a.paths.number <= last]


def ending_of(attempt: StoredAttempt) -> str:
    """How an attempt ended, as far as anyone said."""
    last = attempt.events[-1] if attempt.events else None
    return str(last.ending) if isinstance(last, RunEnded) else LOST


def sums(run: RunPaths, attempt: AttemptPaths, *, completed: bool) -> dict[str, str]:
    """The sha256 of an attempt's files, and of those of its run, that are there to be entered."""
    own = OF_THE_RUN if completed else OF_THE_RUN[:1]
    names = [*own, *(f"attempts/{attempt.number}/{name}" for name in OF_THE_ATTEMPT)]
    found = {name: sum_of_file(run.folder / name) for name in names}
    return {name: text for name, text in found.items() if text is not None}


def unsealed(
    runs: Iterable[RunPaths], known: Mapping[str, Container[int]]
) -> Iterator[tuple[RunPaths, StoredAttempt]]:
    """Attempts that are over and not known by their run's name and number.

    Runs that cannot be read are left out.
    """
    for run in runs:
        own = known.get(run.folder.name, ())
        with suppress(RlexpError):
            if any(attempt.number not in own for attempt in run.attempts()):
                yield from ((run, a) for a in over(run) if a.paths.number not in own)


def seal_unsealed(
    paths: ExperimentPaths, *, now: float, counted: Mapping[str, int] | None = None
) -> None:
    """Enter what is not in the ledger yet, where there is nothing to drive.

    Where another command drives the experiment, or nothing can be written, it is left for later.

    Args:
        paths: The experiment.
        now: The time, in seconds since 1970.
        counted: How many attempts runs have, of those that were looked at just now.
    """
    with suppress(OSError, RlexpError):
        known, seen = known_attempts(paths), counted or {}
        runs = (r for r in paths.runs() if not _is_entered(r, known, seen))
        if any(unsealed(runs, known)):
            with hold(paths.lock, f"experiment {paths.name}", now=now):
                Seals(paths).enter_late()


def _is_entered(
    run: RunPaths, known: Mapping[str, Container[int]], counted: Mapping[str, int]
) -> bool:
    """Whether all attempts that were counted are the first ones, and in the ledger."""
    name = run.folder.name
    numbers = range(1, counted.get(name, 0) + 1)
    own, folder = known.get(name, ()), f"{run.folder}/attempts"
    return bool(numbers) and all(n in own and lexists(f"{folder}/{n}") for n in numbers)


def known_attempts(paths: ExperimentPaths) -> dict[str, set[int]]:
    """The numbers of the attempts that are in the ledger, by the name of their run.

    Raises:
        RecordError: The ledger cannot be read.
    """
    ledger = read_ledger(paths)
    account = Account.of(ledger.entries if ledger else ())
    return {name: set(attempts) for name, attempts in account.runs.items()}


@dataclass(slots=True)
class Seals:
    """Enters attempts for the command that drives the experiment, whose lock is held.

    What cannot be entered, on a full disk say, is entered by a later command.
    """

    paths: ExperimentPaths
    _known: dict[str, set[int]] | None = None

    def enter_late(self) -> None:
        """Enter what ended, or was removed, while no command saw it."""
        with suppress(OSError, RlexpError):
            known = self._known = known_attempts(self.paths)
            there = {run.folder.name: run for run in self.paths.runs()}
            for name in [name for name in known if name not in there]:
                append_entry(self.paths, RemovedRun(run=name, late=True))
                del known[name]
            for run, attempt in unsealed(there.values(), known):
                self._enter(run, attempt, known, late=True)

    def enter(self, run: RunPaths, number: int) -> None:
        """Enter an attempt that has just ended, and those before it that are over by that."""
        with suppress(OSError, RlexpError):
            if self._known is None:
                self._known = known_attempts(self.paths)
            for attempt in over(run):
                late = attempt.paths.number != number
                if not late or attempt.paths.number not in self._known.get(run.folder.name, ()):
                    self._enter(run, attempt, self._known, late=late)

    def _enter(
        self, run: RunPaths, attempt: StoredAttempt, known: dict[str, set[int]], *, late: bool
    ) -> None:
        ending, number = ending_of(attempt), attempt.paths.number
        with suppress(RlexpError):
            entry = SealedAttempt(
                run=run.folder.name,
                id=read_spec(run).id,
                attempt=number,
                ending=ending,
                files=sums(run, attempt.paths, completed=ending == Ending.COMPLETED),
                late=late,
            )
            append_entry(self.paths, entry)
            known.setdefault(run.folder.name, set()).add(number)
