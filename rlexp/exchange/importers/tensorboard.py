"""Folders of TensorBoard event files, each a run; those of CleanRL say what they are of."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath

from rlexp.exchange.importers.cells import named, seed_in, shown
from rlexp.exchange.importers.event_files import Scalar, read_scalars
from rlexp.exchange.importers.series import chosen_series, group_by_step
from rlexp.exchange.importers.sources import SourceFile, by_folder, others
from rlexp.exchange.importers.study import (
    ImportedRun,
    ImportedStudy,
    Unit,
    Wanted,
    malformed,
    until_broken,
)

NAMESPACES = ("ALE", "dm_control", "phys2d", "tabular")
"""Folders that are a part of a task's id, which has a slash."""


@dataclass(frozen=True, slots=True)
class Named:
    """What the name of a folder of CleanRL says: `ENV__EXP__SEED__TIME`."""

    task: str | None = None
    label: str | None = None
    seed: int | None = None


def fits(files: Sequence[SourceFile]) -> bool:
    """Whether there is such a file."""
    return any(_is_events(file) for file in files)


def read_tensorboard(files: Sequence[SourceFile], wanted: Wanted) -> ImportedStudy:
    """Read runs: each folder with event files is one.

    Raises:
        MalformedError: A file is damaged, or nothing says what a run is.
        ConfigError: Nothing says what a step is.
    """
    unit = wanted.required_unit("tensorboard")
    used = [file for file in files if _is_events(file)]
    runs = [_run(name, own, wanted, unit) for name, own in by_folder(used).items()]
    return ImportedStudy(kind="tensorboard", runs=tuple(runs), left_out=tuple(others(files, used)))


def _is_events(file: SourceFile) -> bool:
    return "tfevents" in file.last


def _run(name: str, files: Sequence[SourceFile], wanted: Wanted, unit: Unit) -> ImportedRun:
    of_folder = named_by(name)
    loaded = [file.load() for file in files]
    series: dict[str, list[Scalar]] = {}
    for one in loaded:
        for scalar in read_scalars(one):
            series.setdefault(scalar.tag, []).append(scalar)
    tag, returns, of_lengths = chosen_series(name, list(series), wanted)
    found = series[tag]
    _check_order(name, tag, found)
    lengths = series.get(of_lengths or "", [])
    points, trouble = until_broken(
        group_by_step(
            [(unit.convert(s.step), s.value, s.time) for s in found],
            [unit.convert(round(n)) for n in _aligned(found, lengths)],
        )
    )
    return ImportedRun(
        name=name,
        label=named(wanted.label or of_folder.label, name, "label"),
        task=named(wanted.task or of_folder.task, name, "task"),
        seed=of_folder.seed if of_folder.seed is not None else seed_in(name),
        points=points,
        returns=returns,
        files=tuple(one.sum for one in loaded),
        details={"tag": tag},
        started=min(s.time for own in series.values() for s in own),
        trouble=trouble,
    )


def named_by(name: str) -> Named:
    """What a folder's name says, if it is one of CleanRL."""
    path = PurePosixPath(name)
    pieces = path.name.rsplit("__", 3)
    if len(pieces) != 4 or not all(pieces) or not pieces[2].isdecimal() or len(pieces[2]) > 12:
        return Named()
    task = f"{path.parent.name}/{pieces[0]}" if path.parent.name in NAMESPACES else pieces[0]
    return Named(task, pieces[1], int(pieces[2]))


def _check_order(name: str, tag: str, found: Sequence[Scalar]) -> None:
    for scalar in found:
        if not 0 <= scalar.step <= 1 << 53:
            raise malformed(name, tag, f"step {shown(scalar.step)} is no number of steps")
    for before, after in pairwise(found):
        if after.step < before.step:
            what = (
                f"step {after.step:,} follows {before.step:,}: two runs wrote to the folder, or "
                "one that was begun anew; give the file of one as PATH"
            )
            raise malformed(name, tag, what)


def _aligned(found: Sequence[Scalar], lengths: Sequence[Scalar]) -> Iterator[float]:
    """Lengths that belong to the returns, one to one; none where they do not."""
    same = [s.step for s in found] == [s.step for s in lengths]
    if same and all(0 <= s.value < 1e12 for s in lengths):
        yield from (s.value for s in lengths)
