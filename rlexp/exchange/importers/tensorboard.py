"""Importer of TensorBoard event files: each folder is a run.

The names of CleanRL's folders contain the label, the task and the seed.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath

from rlexp.exchange.importers.event_file import Scalar, read_records
from rlexp.exchange.importers.imported_study import (
    ImportedRun,
    ImportedStudy,
    ImportOptions,
    malformed_error,
    until_not_finite,
)
from rlexp.exchange.importers.naming import RunFacts, RunNaming
from rlexp.exchange.importers.parse_values import (
    details_as_text,
    seed_from_name,
    shortened_repr,
)
from rlexp.exchange.importers.series import choose_series, group_by_step
from rlexp.exchange.importers.sources import SourceFile, by_folder, unused_files

TABLE = "hyperparameters/text_summary"
"""The tag of the text with the hyperparameters of a CleanRL run."""
TABLE_ROW = re.compile(r"\|(?P<name>[^|]+)\|(?P<value>.*)\|")
NAMESPACES = ("ALE", "dm_control", "phys2d", "tabular")
"""Namespaces of task ids with a slash, which are folders on disk."""


@dataclass(frozen=True, slots=True)
class FolderName:
    """The parts of a CleanRL folder name: `ENV__EXP__SEED__TIME`."""

    task: str | None = None
    label: str | None = None
    seed: int | None = None


def fits(files: Sequence[SourceFile]) -> bool:
    """Whether there is an event file."""
    return any(_is_events(file) for file in files)


def read_tensorboard(files: Sequence[SourceFile], options: ImportOptions) -> ImportedStudy:
    """Read runs, one from each folder with event files.

    Raises:
        MalformedError: A file is damaged, or the label or task of a run is unknown.
        ConfigError: The user does not give the unit of steps.
    """
    used = [file for file in files if _is_events(file)]
    naming = RunNaming(options)
    runs = [
        run
        for name, members in by_folder(used).items()
        if (run := _run(name, members, options, naming)) is not None
    ]
    naming.check()
    left_out = (*naming.left_out(), *unused_files(files, used))
    return ImportedStudy(kind="tensorboard", runs=tuple(runs), left_out=left_out)


def _is_events(file: SourceFile) -> bool:
    return "tfevents" in file.last


def _run(
    name: str, files: Sequence[SourceFile], options: ImportOptions, naming: RunNaming
) -> ImportedRun | None:
    """The run of a folder; None if the conditions leave it out."""
    loaded_files = [file.load() for file in files]
    scalars, parameters = list[Scalar](), dict[str, str]()
    for file in loaded_files:
        records = read_records(file)
        scalars += records.scalars
        parameters.update(hyperparameters(records.texts))
    identity = naming.identify(_facts(name, files, parameters))
    if identity is None:
        return None
    series_of: dict[str, list[Scalar]] = {}
    for scalar in scalars:
        series_of.setdefault(scalar.tag, []).append(scalar)
    series = choose_series(name, list(series_of), options)
    unit = options.required_unit("tensorboard")
    returned = series_of[series.name]
    _check_order(name, series.name, returned)
    lengths = series_of.get(series.lengths or "", [])
    points, trouble = until_not_finite(
        group_by_step(
            [(unit.convert(s.step), s.value, s.time) for s in returned],
            [unit.convert(round(n)) for n in _aligned(returned, lengths)],
        )
    )
    parameter_details = {"told": details_as_text(parameters)} if parameters else {}
    return ImportedRun(
        name=name,
        label=identity.label,
        task=identity.task,
        seed=identity.seed,
        points=points,
        returns=series.returns,
        files=tuple(file.sum for file in loaded_files),
        settings=identity.settings,
        details={"tag": series.name, **parameter_details},
        started=min(s.time for s in scalars),
        trouble=trouble,
        parameters=parameters,
        metric=series.metric,
    )


def _facts(name: str, files: Sequence[SourceFile], parameters: Mapping[str, str]) -> RunFacts:
    of_folder = parse_folder_name(name)
    return RunFacts(
        name=name,
        source=name,
        paths=(name, files[0].name),
        parameters=parameters,
        label=of_folder.label,
        task=of_folder.task,
        seed=of_folder.seed if of_folder.seed is not None else seed_from_name(name),
    )


def hyperparameters(texts: Mapping[str, str]) -> dict[str, str]:
    """The hyperparameters that CleanRL writes as a table of Markdown; empty without one."""
    rows = [TABLE_ROW.fullmatch(line.strip()) for line in texts.get(TABLE, "").splitlines()]
    # The first two rows are the heading and the line below it.
    return {row["name"]: row["value"] for row in rows[2:] if row is not None}


def parse_folder_name(name: str) -> FolderName:
    """The parts of a folder's name; all are None if it is not a name of CleanRL."""
    path = PurePosixPath(name)
    # Split from the right: a task's id may contain two underscores.
    pieces = path.name.rsplit("__", 3)
    if len(pieces) != 4 or not all(pieces) or not pieces[2].isdecimal() or len(pieces[2]) > 12:
        return FolderName()
    task = f"{path.parent.name}/{pieces[0]}" if path.parent.name in NAMESPACES else pieces[0]
    return FolderName(task, pieces[1], int(pieces[2]))


def _check_order(name: str, tag: str, scalars: Sequence[Scalar]) -> None:
    for scalar in scalars:
        if not 0 <= scalar.step <= 1 << 53:
            raise malformed_error(
                name, tag, f"step {shortened_repr(scalar.step)} is not a valid number of steps"
            )
    for before, after in pairwise(scalars):
        if after.step < before.step:
            what = (
                f"step {after.step:,} follows {before.step:,}: two runs wrote to the folder, or "
                "one run was started again; give the file of one run as PATH"
            )
            raise malformed_error(name, tag, what)


def _aligned(returned: Sequence[Scalar], lengths: Sequence[Scalar]) -> Iterator[float]:
    """Lengths of the returns' episodes in the same order; none if the steps do not match."""
    same = [s.step for s in returned] == [s.step for s in lengths]
    if same and all(0 <= s.value < 1e12 for s in lengths):
        yield from (s.value for s in lengths)
