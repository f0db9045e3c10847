"""Everything that is published or appended under `runs/`, each piece by a process of its own."""

import os
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path

from samples import ended, evaluated, spec, started

from rlexp.protocol.seeds import Phase
from rlexp.records.events import Event
from rlexp.records.selection import Finalist, Selection
from rlexp.store.files import publish_json
from rlexp.store.journal import JournalWriter
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.runs import new_attempt, write_run, write_verdict
from rlexp.store.sweeps import StoredTrial, append_trial, write_selection

SPEC = spec(phase=Phase.TUNING)
EVENTS: tuple[Event, ...] = (started(), evaluated(100, 3.0, final=True), ended())
SELECTION = Selection(
    winner=1, finalists=(Finalist(number=1, tuning=(1.0, 2.0), selection=(3.0,)),), rule="best"
)


def trial(number: int) -> StoredTrial:
    """A trial of a sweep."""
    return StoredTrial(number=number, parameters={"x": number}, steps=100, configuration=None)


def run_of(folder: Path) -> RunPaths:
    """The run in the folder of a piece."""
    return RunPaths(folder / SPEC.name)


def prepare(folder: Path) -> None:
    """Write the earlier state: an old definition, a first trial, a planned run with one attempt."""
    folder.mkdir(parents=True)
    paths = ExperimentPaths(folder)
    publish_json(paths.definition, {"name": "old", "filling": "x" * 10_000})
    append_trial(paths, trial(0))
    if folder.name != "spec":
        write_run(run_of(folder), SPEC)
    if folder.name != "attempt":
        new_attempt(run_of(folder), {}, {}, "")


def _definition(folder: Path) -> None:
    publish_json(ExperimentPaths(folder).definition, {"name": "new", "filling": "y" * 20_000})


def _spec(folder: Path) -> None:
    write_run(run_of(folder), SPEC)


def _attempt(folder: Path) -> None:
    new_attempt(run_of(folder), {"timeout": 5}, {"command": ["rlexp"]}, "a patch")


def _journal(folder: Path) -> None:
    with closing(JournalWriter(run_of(folder).attempts()[-1].journal)) as journal:
        for event in EVENTS:
            journal.append(event)


def _verdict(folder: Path) -> None:
    write_verdict(run_of(folder).attempts()[-1], ended())


def _trial(folder: Path) -> None:
    append_trial(ExperimentPaths(folder), trial(1))


def _selection(folder: Path) -> None:
    write_selection(ExperimentPaths(folder), SELECTION)


PIECES: Mapping[str, Callable[[Path], None]] = {
    "definition": _definition,
    "spec": _spec,
    "attempt": _attempt,
    "journal": _journal,
    "verdict": _verdict,
    "trial": _trial,
    "selection": _selection,
}


def write_all(root: Path, names: Iterable[str]) -> dict[str, int]:
    """Write pieces, each in its own process; returns the exit codes: 0, 1 or minus a signal."""
    codes = {}
    for name in names:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                PIECES[name](root / name)
                code = 0
            except OSError:
                traceback.print_exc()
            finally:
                os._exit(code)
        codes[name] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return codes


def report_all(root: str, answers: str) -> None:
    """Write every piece, and report the exit codes in the names of empty files.

    Making empty files needs none of the system calls that may fail.
    """
    for piece, ending in write_all(Path(root), PIECES).items():
        Path(answers, f"{piece}={ending}").touch()
