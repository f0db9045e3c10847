"""Monitor files of Stable-Baselines3: every training episode of every environment of a run."""

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from typing import Any

from rlexp.exchange.importers.parse_values import (
    parse_name,
    parse_number,
    parse_whole_number,
    required_name,
    seed_from_name,
    shortened_repr,
)
from rlexp.exchange.importers.sources import LoadedFile, SourceFile, by_folder, unused_files
from rlexp.exchange.importers.study import (
    ENVIRONMENT,
    ImportedRun,
    ImportedStudy,
    Point,
    Returns,
    Unit,
    Wanted,
    malformed_error,
    until_not_finite,
)

ENDING = "monitor.csv"
"""How the library names these files."""
COLUMNS = ["r", "l", "t"]
"""The first columns: return, length, seconds since the file was begun."""


@dataclass(frozen=True, slots=True)
class Monitor:
    """One file: an environment's episodes, each with the steps of that environment at its end."""

    loaded: LoadedFile
    started: float
    task: str | None
    episodes: tuple[Point, ...]


def fits(files: Sequence[SourceFile]) -> bool:
    """Whether there is such a file."""
    return any(_is_monitor(file) for file in files)


def read_monitors(files: Sequence[SourceFile], wanted: Wanted) -> ImportedStudy:
    """Read runs: each folder with monitor files is one, and so is each file that was given itself.

    Raises:
        MalformedError: A file is not as the library writes it.
    """
    used = [file for file in files if _is_monitor(file)]
    runs = [run_of(name, own, wanted) for name, own in by_folder(used).items()]
    return ImportedStudy(
        kind="sb3-monitor", runs=tuple(runs), left_out=tuple(unused_files(files, used))
    )


def run_of(name: str, files: Sequence[SourceFile], wanted: Wanted) -> ImportedRun:
    """The run whose environments wrote these files.

    They step together, so that at the end of an episode the run has taken the steps of that
    environment so far, times the number of environments.

    Raises:
        MalformedError: A file is not as the library writes it, or they are of several tasks.
    """
    monitors = [read_monitor(file.load(), wanted.unit or ENVIRONMENT) for file in files]
    points = list(merge(*(m.episodes for m in monitors), key=lambda p: (p.step, p.time)))
    scaled = tuple(_times(point, len(monitors)) for point in points)
    kept, trouble = until_not_finite(scaled)
    return ImportedRun(
        name=name,
        label=required_name(wanted.label, name, "label"),
        task=_task(name, monitors, wanted),
        seed=seed_from_name(name),
        points=kept,
        returns=Returns.TRAINING,
        files=tuple(m.loaded.sum for m in monitors),
        details={"environments": len(monitors)},
        started=min(m.started for m in monitors),
        trouble=trouble,
    )


def read_monitor(loaded: LoadedFile, unit: Unit = ENVIRONMENT) -> Monitor:
    """Read one file.

    Raises:
        MalformedError: It is not as the library writes it; names the line.
    """
    text = loaded.text()
    if not text.endswith("\n"):
        last = text.count("\n") + 1
        what = "it has no end: its writer was killed there; remove it to import the rest"
        raise malformed_error(loaded.name, f"line {last}", what)
    header, _, table = text.partition("\n")
    plain = _header(header, loaded.name)
    started = parse_number(plain.get("t_start"), loaded.name, "line 1", "t_start")
    task = plain.get("env_id")
    return Monitor(
        loaded=loaded,
        started=started,
        task=None if task in {None, "None"} else parse_name(task, loaded.name, "line 1", "env_id"),
        episodes=tuple(_episodes(table, started, unit, loaded.name)),
    )


def _is_monitor(file: SourceFile) -> bool:
    return file.last.endswith(ENDING)


def _header(line: str, name: str) -> dict[str, Any]:
    try:
        plain = json.loads(line[1:]) if line.startswith("#") and len(line) < 100_000 else None
    except (ValueError, RecursionError):
        plain = None
    if not isinstance(plain, dict):
        raise malformed_error(
            name, "line 1", f'it is {shortened_repr(line)}, and not #{{"t_start": …}}'
        )
    return plain


def _episodes(table: str, started: float, unit: Unit, name: str) -> Iterator[Point]:
    rows = csv.reader(table.splitlines(), strict=True)
    steps = 0
    try:
        _check_columns(next(rows, []), name)
        for number, row in enumerate(rows, start=3):
            where = f"line {number}"
            if len(row) < len(COLUMNS):
                raise malformed_error(name, where, f"it has {len(row)} of the columns r, l, t")
            length = parse_whole_number(row[1], name, where, "l")
            steps += length
            yield Point(
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
            name, "line 2", f"the columns are {shortened_repr(','.join(row))}, and not r,l,t"
        )


def _times(point: Point, count: int) -> Point:
    if count == 1:
        return point
    return Point(
        step=point.step * count, returns=point.returns, lengths=point.lengths, time=point.time
    )


def _task(name: str, monitors: Sequence[Monitor], wanted: Wanted) -> str:
    if wanted.task is not None:
        return wanted.task
    tasks = sorted({m.task for m in monitors if m.task})
    if len(tasks) != 1:
        told = f"its files are of {', '.join(tasks)}" if tasks else "its files name no task"
        raise malformed_error(name, "line 1", f"{told}: give --task, or the folder of one run")
    return tasks[0]
