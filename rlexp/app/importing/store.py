"""Writes imported runs to disk: first in a hidden folder, then renamed into place.

A killed import leaves at most a hidden folder, which the next one removes.
"""

import os
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from errno import EEXIST, ENOTDIR, ENOTEMPTY
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import uuid4

from rlexp.app.reading.imported import recorded_content
from rlexp.errors import RecordError, RlexpError
from rlexp.exchange.importers.imported_study import ENVIRONMENT, EvaluationPoint, ImportOptions
from rlexp.exchange.importers.plan import ImportPlan, PlannedImportRun, PlannedTrial
from rlexp.protocol.experiment import Experiment
from rlexp.records.events import Ending, Evaluated, Event, RunEnded, RunStarted
from rlexp.store.files import read_json, sync
from rlexp.store.journal import write_journal
from rlexp.store.layout import ExperimentPaths, Layout, RunPaths
from rlexp.store.ledger_writer import LedgerWriter
from rlexp.store.locks.lease import hold, is_held
from rlexp.store.runs import new_attempt, read_definition, write_experiment, write_run
from rlexp.store.sweeps import StoredTrial, append_trial

HIDDEN = ".import-"
"""Prefix of the folders in which imports are prepared."""
HOST = "imported"
"""The host that is recorded for imported runs."""


@dataclass(frozen=True, slots=True)
class Written:
    """The names of new runs, and of runs that were imported before."""

    new: tuple[str, ...]
    there: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Origin:
    """Facts about one import that every run of it records."""

    kind: str
    command: Sequence[str]
    options: ImportOptions
    now: float
    folder: str = ""


def new_experiment(
    layout: Layout,
    settled: ImportPlan,
    command: Sequence[str],
    options: ImportOptions,
    *,
    dry: bool,
) -> Written:
    """Write a new experiment into a hidden folder, then rename it.

    Raises:
        RecordError: Another command has created an experiment of this name meanwhile.
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
            for trial in settled.trials:
                append_trial(paths, _stored_trial(trial))
            seals = LedgerWriter(paths)
            for run in settled.runs:
                _write_run(paths.run(run.spec.name), run, _origin(run, command, options))
                seals.enter(paths.run(run.spec.name), 1)
            _rename_into_place(paths.folder, layout.root / name)
    finally:
        shutil.rmtree(hidden, ignore_errors=True)
    return Written(names)


def add_to_experiment(
    there: Experiment,
    paths: ExperimentPaths,
    settled: ImportPlan,
    command: Sequence[str],
    options: ImportOptions,
    *,
    dry: bool,
) -> Written:
    """Add new runs to an imported experiment.

    The experiment's definition is written last: only then are the new runs part of the experiment.

    Args:
        there: The experiment as it was when the runs were read.
        paths: The experiment's folder.
        settled: The experiment as it will be, and the runs that were read.
        command: The command line, for the provenance.
        options: The user's statements about the source.
        dry: Whether to compare only, without writing.

    Raises:
        RecordError: An existing run has other content, or another command has added runs meanwhile.
    """
    new, unchanged = _compared(paths, settled)
    is_current = there.imported == settled.experiment.imported
    written = Written(tuple(r.spec.name for r in new), tuple(r.spec.name for r in unchanged))
    if dry or (not new and is_current):
        return written
    with hold(paths.lock, f"experiment {paths.name}", now=time.time()):
        # The experiment was read before the lock was taken, so it is compared again under the lock.
        if read_definition(paths) != there:
            raise RecordError(
                f"experiment {paths.name} was changed by another command meanwhile: repeat this "
                "command; nothing was imported"
            )
        new, _ = _compared(paths, settled)
        remove_leftovers(paths.folder)
        hidden = ExperimentPaths(paths.folder / f"{HIDDEN}{uuid4().hex[:12]}")
        seals = LedgerWriter(paths)
        try:
            for run in new:
                _write_run(hidden.run(run.spec.name), run, _origin(run, command, options))
            for run in new:
                _rename_into_place(
                    hidden.run(run.spec.name).folder, paths.run(run.spec.name).folder
                )
                seals.enter(paths.run(run.spec.name), 1)
        finally:
            shutil.rmtree(hidden.folder, ignore_errors=True)
        # Runs of a killed import may be in place without an entry in the ledger.
        seals.enter_late()
        write_experiment(paths, settled.experiment)
    return written


def add_run(
    paths: ExperimentPaths, run: PlannedImportRun, command: Sequence[str], folder: Path
) -> None:
    """Write a run that has ended into an experiment whose lock the caller holds.

    Args:
        paths: The experiment's folder.
        run: The run.
        command: The command of the program that made it, for the provenance; empty where unknown.
        folder: The folder in which the command was given.
    """
    name = run.spec.name
    hidden = ExperimentPaths(paths.folder / f"{HIDDEN}{uuid4().hex[:12]}")
    try:
        origin = replace(_origin(run, command, ImportOptions()), folder=str(folder))
        _write_run(hidden.run(name), run, origin)
        _rename_into_place(hidden.run(name).folder, paths.run(name).folder)
    finally:
        shutil.rmtree(hidden.folder, ignore_errors=True)
    LedgerWriter(paths).enter(paths.run(name), 1)


def remove_leftovers(folder: Path) -> None:
    """Remove hidden folders of killed imports; a running import holds its folder's lock."""
    for folder_left in folder.glob(f"{HIDDEN}*"):
        with suppress(OSError):
            if (
                folder_left.is_dir()
                and not folder_left.is_symlink()
                and not is_held(folder_left / ".lock")
            ):
                shutil.rmtree(folder_left)


def _compared(
    paths: ExperimentPaths, settled: ImportPlan
) -> tuple[list[PlannedImportRun], list[PlannedImportRun]]:
    """The new runs, and the runs that exist with the same content."""
    new, unchanged = list[PlannedImportRun](), list[PlannedImportRun]()
    for run in settled.runs:
        existing = paths.run(run.spec.name)
        if not existing.folder.exists():
            new.append(run)
        elif _content(existing) == run.content:
            unchanged.append(run)
        else:
            raise RecordError(
                f"{run.source} was imported before with other content, which is kept: "
                f"use another --seed, --label or --experiment, or remove the old run with 'rlexp rm "
                f"{paths.name}/{run.spec.name} --yes'; nothing was imported"
            )
    return new, unchanged


def _content(run: RunPaths) -> str | None:
    attempts = run.attempts()
    try:
        return recorded_content(read_json(attempts[-1].provenance)) if attempts else None
    except RlexpError:
        return None


def _rename_into_place(folder: Path, target: Path) -> None:
    try:
        # Renaming fails on a folder with content, so that two imports cannot overwrite each other.
        os.rename(folder, target)  # noqa: PTH104
    except OSError as error:
        if error.errno not in {EEXIST, ENOTEMPTY, ENOTDIR}:
            raise
        raise RecordError(
            f"{target} was created by another command meanwhile: repeat this command"
        ) from error
    with suppress(OSError):
        sync(target.parent)


def _origin(run: PlannedImportRun, command: Sequence[str], options: ImportOptions) -> _Origin:
    kind = str(run.configuration.algorithm["imported"]["kind"])
    return _Origin(kind, command, options, time.time())


def _stored_trial(trial: PlannedTrial) -> StoredTrial:
    return StoredTrial(
        number=trial.number,
        parameters=trial.parameters,
        steps=trial.steps,
        configuration=trial.configuration,
    )


def _write_run(paths: RunPaths, run: PlannedImportRun, origin: _Origin) -> None:
    write_run(paths, run.spec)
    attempt = new_attempt(paths, {}, _provenance(run, origin), "")
    write_journal(attempt.journal, _events(run, origin.now))


def _provenance(run: PlannedImportRun, origin: _Origin) -> dict[str, Any]:
    source = run.source
    return {
        "command": list(origin.command),
        **({"folder": origin.folder} if origin.folder else {}),
        "imported": {
            "kind": origin.kind,
            "name": source.name,
            "label": source.label,
            "task": source.task,
            "seed": None if run.numbered else source.seed,
            "returns": str(source.returns),
            "files": [{"name": name, "sha256": digest} for name, digest in source.files],
            "steps": (origin.options.unit or ENVIRONMENT).plain(),
            "asked_steps": source.steps,
            "beyond_budget": run.cut,
            "details": dict(source.details),
            "content": run.content,
            "importer": f"rlexp {version('rlexp')}",
        },
    }


def _events(run: PlannedImportRun, now: float) -> list[Event]:
    """The events of an imported run; their times come from the source, or else from the import."""
    # Times of the source and of the import are not mixed: durations between them mean nothing.
    has_times = run.source.started is not None and all(p.time is not None for p in run.points)
    started = run.source.started if has_times and run.source.started is not None else now
    times = [point.time if has_times and point.time is not None else now for point in run.points]
    evaluated = [_evaluated(p, moment) for p, moment in zip(run.points, times, strict=True)]
    last = evaluated[-1].time if evaluated else started
    failure = run.trouble
    ended = RunEnded(
        time=last,
        step=run.step,
        ending=failure.ending if failure else Ending.COMPLETED,
        seconds=last - started if has_times and last >= started else float("nan"),
        failure=failure.failure if failure else None,
        reason=failure.reason if failure else None,
    )
    return [RunStarted(time=started, attempt=1, pid=0, host=HOST), *evaluated, ended]


def _evaluated(point: EvaluationPoint, moment: float) -> Evaluated:
    return Evaluated(
        time=moment,
        step=point.step,
        returns=point.returns,
        lengths=point.lengths,
        # The other tool recorded no duration.
        seconds=0.0,
        final=point.final,
    )
