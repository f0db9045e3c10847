"""Importer of Stable-Baselines3's monitor files: training episodes of each environment of a run."""

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from typing import Any

from rlexp.exchange.importers.imported_study import (
    ENVIRONMENT,
    EvaluationPoint,
    ImportedRun,
    ImportedStudy,
    ImportOptions,
    ReturnKind,
    StepUnit,
    malformed_error,
    until_not_finite,
)
from rlexp.exchange.importers.naming import RunFacts, RunIdentity, RunNaming
from rlexp.exchange.importers.parse_values import (
    parse_name,
    parse_number,
    parse_whole_number,
    seed_from_name,
    shortened_repr,
)
from rlexp.exchange.importers.sources import LoadedFile, SourceFile, by_folder, unused_files

ENDING = "monitor.csv"
"""The end of the names of monitor files."""
COLUMNS = ["r", "l", "t"]
"""The first columns: return, length, seconds since the start of the file."""


@dataclass(frozen=True, slots=True)
class Monitor:
    """The episodes of one environment; their steps count those of that environment only."""

    loaded: LoadedFile
    started: float
    task: str | None
    episodes: tuple[EvaluationPoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorRecording:
    """The episodes of all environments of a run, with the steps of the run."""

    name: str
    task: str | None
    points: tuple[EvaluationPoint, ...]
    started: float
    files: tuple[tuple[str, str], ...]


def fits(files: Sequence[SourceFile]) -> bool:
    """Whether there is a monitor file."""
    return any(_is_monitor(file) for file in files)


def read_monitors(files: Sequence[SourceFile], options: ImportOptions) -> ImportedStudy:
    """Read runs: one from each folder with monitor files, and one from each file given itself.

    Raises:
        MalformedError: A file has another form than the library's.
    """
    used = [file for file in files if _is_monitor(file)]
    naming = RunNaming(options)
    runs = []
    for name, members in by_folder(used).items():
        recording = read_recording(name, members, options)
        facts = RunFacts(
            name=name,
            source=name,
            paths=(name, members[0].name),
            task=recording.task,
            seed=seed_from_name(name),
            where="line 1",
        )
        if (identity := naming.identify(facts)) is not None:
            runs.append(imported_run(recording, identity))
    naming.check()
    left_out = (*naming.left_out(), *unused_files(files, used))
    return ImportedStudy(kind="sb3-monitor", runs=tuple(runs), left_out=left_out)


def read_recording(
    name: str, files: Sequence[SourceFile], options: ImportOptions
) -> MonitorRecording:
    """What the environments of a run wrote into these files.

    All environments step together. So the run's step at the end of an episode is the step of its
    environment times the number of environments.

    Raises:
        MalformedError: A file has another form, or the files are of several tasks.
    """
    monitors = [read_monitor(file.load(), options.unit or ENVIRONMENT) for file in files]
    # `merge` needs sorted inputs: the steps of one environment only grow.
    points = list(merge(*(m.episodes for m in monitors), key=lambda p: (p.step, p.time)))
    return MonitorRecording(
        name=name,
        task=_task(name, monitors, options),
        points=tuple(_times(point, len(monitors)) for point in points),
        started=min(m.started for m in monitors),
        files=tuple(m.loaded.sum for m in monitors),
    )


def imported_run(recording: MonitorRecording, identity: RunIdentity) -> ImportedRun:
    """The run that wrote some files, with its label, task and seed."""
    kept, trouble = until_not_finite(recording.points)
    return ImportedRun(
        name=recording.name,
        label=identity.label,
        task=identity.task,
        seed=identity.seed,
        points=kept,
        returns=ReturnKind.TRAINING,
        files=recording.files,
        settings=identity.settings,
        details={"environments": len(recording.files)},
        started=recording.started,
        trouble=trouble,
    )


def read_monitor(loaded: LoadedFile, unit: StepUnit = ENVIRONMENT) -> Monitor:
    """Read one file.

    Raises:
        MalformedError: The file has another form; the message names the line.
    """
    text = loaded.text()
    if not text.endswith("\n"):
        last = text.count("\n") + 1
        what = "the line is cut off because its writer was killed; remove it to import the rest"
        raise malformed_error(loaded.name, f"line {last}", what)
    header, _, table = text.partition("\n")
    header_fields = _header(header, loaded.name)
    started = parse_number(header_fields.get("t_start"), loaded.name, "line 1", "t_start")
    task = header_fields.get("env_id")
    return Monitor(
        loaded=loaded,
        started=started,
        # Stable-Baselines3 writes the text None for an environment that was not made by its id.
        task=None if task in {None, "None"} else parse_name(task, loaded.name, "line 1", "env_id"),
        episodes=tuple(_episodes(table, started, unit, loaded.name)),
    )


def _is_monitor(file: SourceFile) -> bool:
    return file.last.endswith(ENDING)


def _header(line: str, name: str) -> dict[str, Any]:
    try:
        content = json.loads(line[1:]) if line.startswith("#") and len(line) < 100_000 else None
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise malformed_error(
            name, "line 1", f'it is {shortened_repr(line)}, but must be #{{"t_start": …}}'
        )
    return content


def _episodes(table: str, started: float, unit: StepUnit, name: str) -> Iterator[EvaluationPoint]:
    rows = csv.reader(table.splitlines(), strict=True)
    steps = 0
    try:
        _check_columns(next(rows, []), name)
        # Line 1 is the JSON header, and line 2 names the columns.
        for number, row in enumerate(rows, start=3):
            where = f"line {number}"
            if len(row) < len(COLUMNS):
                raise malformed_error(
                    name, where, f"it has {len(row)} cells instead of the columns r, l, t"
                )
            length = parse_whole_number(row[1], name, where, "l")
            steps += length
            yield EvaluationPoint(
                step=unit.convert(steps),
                returns=(parse_number(row[0], name, where, "r"),),
                lengths=(unit.convert(length),),
                time=started + parse_number(row[2], name, where, "t"),
            )
    except csv.Error as error:
        raise malformed_error(name, f"line {rows.line_num + 1}", str(error)) from error


def _check_columns(row: Sequence[str], name: str) -> None:
    if row[: len(COLUMNS)] != COLUMNS:
        raise malformed_error(
            name, "line 2", f"the columns are {shortened_repr(','.join(row))}, but must be r,l,t"
        )


def _times(point: EvaluationPoint, count: int) -> EvaluationPoint:
    if count == 1:
        return point
    return EvaluationPoint(
        step=point.step * count, returns=point.returns, lengths=point.lengths, time=point.time
    )


def _task(name: str, monitors: Sequence[Monitor], options: ImportOptions) -> str | None:
    """The task that the files name; None if they name none."""
    tasks = sorted({m.task for m in monitors if m.task})
    if len(tasks) > 1 and options.task is None:
        problem = f"its files are of {', '.join(tasks)}"
        raise malformed_error(name, "line 1", f"{problem}: give --task, or the folder of one run")
    return tasks[0] if tasks else None
