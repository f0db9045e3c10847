"""Imported runs on disk: prepared where nobody looks, and then put in place by renaming."""

import os
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from errno import EEXIST, ENOTDIR, ENOTEMPTY
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import uuid4

from rlexp.app.reading.imported import recorded_content
from rlexp.errors import RecordError, RlexpError
from rlexp.exchange.importers.settled import Settled, SettledRun
from rlexp.exchange.importers.study import ENVIRONMENT, Point, Wanted
from rlexp.protocol.experiment import Experiment
from rlexp.records.events import Ending, Evaluated, Event, RunEnded, RunStarted
from rlexp.store.files import read_json, sync
from rlexp.store.journal import write_journal
from rlexp.store.layout import ExperimentPaths, Layout, RunPaths
from rlexp.store.lease import hold, is_held
from rlexp.store.runs import new_attempt, read_definition, write_experiment, write_run
from rlexp.store.sealing import Seals

HIDDEN = ".import-"
"""What begins the name of a folder in which an import is prepared."""
HOST = "imported"
"""Where an imported run is said to have been made."""


@dataclass(frozen=True, slots=True)
class Written:
    """The names of runs that are new, and of those that were there before."""

    new: tuple[str, ...]
    there: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Origin:
    """What is said of every run of one import."""

    kind: str
    command: Sequence[str]
    wanted: Wanted
    now: float


def new_experiment(
    layout: Layout, settled: Settled, command: Sequence[str], wanted: Wanted, *, dry: bool
) -> Written:
    """Write an experiment whole, then give it its name.

    Raises:
        RecordError: Another command has given the name to something meanwhile.
    """
    names = tuple(run.spec.name for run in settled.runs)
    if dry:
        return Written(names)
    name = settled.experiment.name
    hidden = layout.root / f"{HIDDEN}{uuid4().hex[:12]}"
    paths = ExperimentPaths(hidden / name)
    try:
        with hold(hidden / ".lock", "an import", now=time.time()):
            write_experiment(paths, settled.experiment)
            seals = Seals(paths)
            for run in settled.runs:
                _write_run(paths.run(run.spec.name), run, _origin(run, command, wanted))
                seals.enter(paths.run(run.spec.name), 1)
            _name(paths.folder, layout.root / name)
    finally:
        shutil.rmtree(hidden, ignore_errors=True)
    return Written(names)


def add_to_experiment(
    there: Experiment,
    paths: ExperimentPaths,
    settled: Settled,
    command: Sequence[str],
    wanted: Wanted,
    *,
    dry: bool,
) -> Written:
    """Add runs that are new to an imported experiment.

    What is added becomes a part of it when its definition names it: that is written last.

    Args:
        there: The experiment as it was when the runs were settled.
        paths: Its place.
        settled: The experiment as it will be, and the runs that were read.
        command: What asks for it.
        wanted: What the user says of the source.
        dry: Whether to write nothing.

    Raises:
        RecordError: A run that is there has other content, or another command has added runs
            meanwhile.
    """
    new, same = _compared(paths, settled)
    known = there.imported == settled.experiment.imported
    written = Written(tuple(r.spec.name for r in new), tuple(r.spec.name for r in same))
    if dry or (not new and known):
        return written
    with hold(paths.lock, f"experiment {paths.name}", now=time.time()):
        if read_definition(paths) != there:
            raise RecordError(
                f"experiment {paths.name} was added to by another command meanwhile: repeat this "
                "one; nothing was imported"
            )
        new, _ = _compared(paths, settled)
        remove_leftovers(paths.folder)
        hidden = ExperimentPaths(paths.folder / f"{HIDDEN}{uuid4().hex[:12]}")
        seals = Seals(paths)
        try:
            for run in new:
                _write_run(hidden.run(run.spec.name), run, _origin(run, command, wanted))
            for run in new:
                _name(hidden.run(run.spec.name).folder, paths.run(run.spec.name).folder)
                seals.enter(paths.run(run.spec.name), 1)
        finally:
            shutil.rmtree(hidden.folder, ignore_errors=True)
        seals.enter_late()
        write_experiment(paths, settled.experiment)
    return written


def remove_leftovers(folder: Path) -> None:
    """Remove what imports left that were killed; one that is under way holds its lock."""
    for left in folder.glob(f"{HIDDEN}*"):
        with suppress(OSError):
            if left.is_dir() and not left.is_symlink() and not is_held(left / ".lock"):
                shutil.rmtree(left)


def _compared(
    paths: ExperimentPaths, settled: Settled
) -> tuple[list[SettledRun], list[SettledRun]]:
    """The runs that are new, and those that are there with the same content."""
    new, same = list[SettledRun](), list[SettledRun]()
    for run in settled.runs:
        there = paths.run(run.spec.name)
        if not there.folder.exists():
            new.append(run)
        elif _content(there) == run.content:
            same.append(run)
        else:
            raise RecordError(
                f"{run.source} was imported before with other content, which stays as it is: "
                f"another --seed, --label or --experiment tells it apart, and 'rlexp rm "
                f"{paths.name}/{run.spec.name} --yes' makes room for it; nothing was imported"
            )
    return new, same


def _content(run: RunPaths) -> str | None:
    attempts = run.attempts()
    try:
        return recorded_content(read_json(attempts[-1].provenance)) if attempts else None
    except RlexpError:
        return None


def _name(folder: Path, target: Path) -> None:
    try:
        os.rename(folder, target)  # noqa: PTH104
    except OSError as error:
        if error.errno not in {EEXIST, ENOTEMPTY, ENOTDIR}:
            raise
        raise RecordError(
            f"{target} was made by another command meanwhile: repeat this one"
        ) from error
    with suppress(OSError):
        sync(target.parent)


def _origin(run: SettledRun, command: Sequence[str], wanted: Wanted) -> _Origin:
    kind = str(run.configuration.algorithm["imported"]["kind"])
    return _Origin(kind, command, wanted, time.time())


def _write_run(paths: RunPaths, run: SettledRun, origin: _Origin) -> None:
    write_run(paths, run.spec)
    attempt = new_attempt(paths, {}, _provenance(run, origin), "")
    write_journal(attempt.journal, _events(run, origin.now))


def _provenance(run: SettledRun, origin: _Origin) -> dict[str, Any]:
    source = run.source
    return {
        "command": list(origin.command),
        "imported": {
            "kind": origin.kind,
            "name": source.name,
            "label": source.label,
            "task": source.task,
            "seed": None if run.numbered else source.seed,
            "returns": str(source.returns),
            "files": [{"name": name, "sha256": own} for name, own in source.files],
            "steps": (origin.wanted.unit or ENVIRONMENT).plain(),
            "asked_steps": source.steps,
            "beyond_budget": run.cut,
            "details": dict(source.details),
            "content": run.content,
            "importer": f"rlexp {version('rlexp')}",
        },
    }


def _events(run: SettledRun, now: float) -> list[Event]:
    """The journal: times as the source tells them, or else that of the import."""
    known = run.source.started is not None and all(p.time is not None for p in run.points)
    started = run.source.started if known and run.source.started is not None else now
    times = [point.time if known and point.time is not None else now for point in run.points]
    evaluated = [_evaluated(p, moment) for p, moment in zip(run.points, times, strict=True)]
    last = evaluated[-1].time if evaluated else started
    trouble = run.trouble
    ended = RunEnded(
        time=last,
        step=run.step,
        ending=trouble.ending if trouble else Ending.COMPLETED,
        seconds=last - started if known and last >= started else float("nan"),
        failure=trouble.failure if trouble else None,
        reason=trouble.reason if trouble else None,
    )
    return [RunStarted(time=started, attempt=1, pid=0, host=HOST), *evaluated, ended]


def _evaluated(point: Point, moment: float) -> Evaluated:
    return Evaluated(
        time=moment,
        step=point.step,
        returns=point.returns,
        lengths=point.lengths,
        seconds=0.0,
        final=point.final,
    )
