"""Log folders of rl-baselines3-zoo: `ALGO/ENV_N/`, with what it was configured with beside it."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from rlexp.errors import ConfigError
from rlexp.exchange.importers import sb3_evaluations, sb3_monitor
from rlexp.exchange.importers.parse_values import (
    details_as_text,
    parse_name,
    parse_whole_number,
    shortened_repr,
)
from rlexp.exchange.importers.sources import LoadedFile, SourceFile, unused_files
from rlexp.exchange.importers.study import (
    ENVIRONMENT,
    ImportedRun,
    ImportedStudy,
    Returns,
    Wanted,
    malformed_error,
    until_not_finite,
)

FOLDER = re.compile(r"(?P<task>.+)_(?P<number>\d+)", re.ASCII)
"""How the zoo names the folder of a run."""
SAMPLED = re.compile(r"NoFrameskip|^ALE[/-]|MiniGrid")
"""Tasks on which the zoo evaluates with sampled actions."""
OF_NO_CONFIGURATION = ("n_timesteps",)
"""Settings that are told elsewhere."""

Parse = Callable[[Path], Any]
"""Reads a yaml file into JSON values, and makes no object of it."""


@dataclass(frozen=True, slots=True)
class Folder:
    """The files of one run."""

    name: str
    algorithm: str
    task: str
    files: tuple[SourceFile, ...]

    def one(self, ending: str) -> SourceFile | None:
        """The file with this path inside the folder, if it is there."""
        found = [f for f in self.files if f.name == f"{self.name}/{ending}"]
        return found[0] if found else None

    @property
    def config(self) -> SourceFile | None:
        """Hyperparameters as they were used."""
        return self.one(f"{self.task}/config.yml")

    @property
    def arguments(self) -> SourceFile | None:
        """Arguments of the command."""
        return self.one(f"{self.task}/args.yml")

    @property
    def monitors(self) -> list[SourceFile]:
        """Files of the training environments."""
        own = [f for f in self.files if f.folder == self.name]
        return [f for f in own if f.last.endswith(sb3_monitor.ENDING)]


def fits(files: Sequence[SourceFile]) -> bool:
    """Whether there is such a folder."""
    return bool(_folders(files))


def read_rl_zoo(files: Sequence[SourceFile], wanted: Wanted, parse: Parse) -> ImportedStudy:
    """Read runs: evaluations where a folder has them, else episodes of training.

    Raises:
        MalformedError: A file is not as the zoo writes it.
    """
    used: list[SourceFile] = []
    runs: list[ImportedRun] = []
    for folder in _folders(files):
        config, own = _yaml(folder.config, parse)
        arguments, more = _yaml(folder.arguments, parse)
        told = replace(
            wanted,
            label=wanted.label or _word(arguments, "algo", folder) or folder.algorithm,
            task=wanted.task or _word(arguments, "env", folder) or folder.task,
        )
        read, run = _results(folder, told)
        used += [*read, *(f for f in (folder.config, folder.arguments) if f is not None)]
        runs.append(_described(run, config, arguments, [*own, *more], folder))
    return ImportedStudy(
        kind="rl-zoo", runs=tuple(runs), left_out=tuple(unused_files(files, used))
    )


def _folders(files: Sequence[SourceFile]) -> list[Folder]:
    """Folders that are named as the zoo names them and hold what it writes."""
    inside: dict[PurePosixPath, list[SourceFile]] = {}
    for file in files:
        for place in PurePosixPath(file.name).parents:
            inside.setdefault(place, []).append(file)
    found = []
    for place, own in inside.items():
        if named := FOLDER.fullmatch(place.name):
            folder = Folder(str(place), place.parent.name, named["task"], tuple(own))
            found += [folder] if folder.config or folder.arguments else []
    return found


def _results(folder: Folder, told: Wanted) -> tuple[list[SourceFile], ImportedRun]:
    file = folder.one(sb3_evaluations.NAME)
    if file is None:
        if not folder.monitors:
            what = f"it holds neither {sb3_evaluations.NAME} nor {sb3_monitor.ENDING}"
            raise malformed_error(folder.name, "", what)
        return folder.monitors, sb3_monitor.run_of(folder.name, folder.monitors, told)
    loaded = file.load()
    points = sb3_evaluations.read_points(loaded, told.unit or ENVIRONMENT)
    kept, trouble = until_not_finite(points)
    run = ImportedRun(
        name=folder.name,
        label=parse_name(told.label, folder.name, "", "label"),
        task=parse_name(told.task, folder.name, "", "task"),
        seed=None,
        points=kept,
        returns=Returns.EVALUATIONS,
        files=(loaded.sum,),
        deterministic=SAMPLED.search(folder.task) is None,
        trouble=trouble,
    )
    return [file], run


def _described(
    run: ImportedRun,
    config: Mapping[str, Any],
    arguments: Mapping[str, Any],
    read: Sequence[LoadedFile],
    folder: Folder,
) -> ImportedRun:
    seed = arguments.get("seed")
    return replace(
        run,
        seed=None
        if seed is None
        else parse_whole_number(seed, _named(folder.arguments), "seed", "seed"),
        steps=_steps(config, arguments, folder),
        settings={k: v for k, v in config.items() if k not in OF_NO_CONFIGURATION},
        details={**run.details, "arguments": details_as_text(arguments)},
        files=(*run.files, *(loaded.sum for loaded in read)),
    )


def _steps(config: Mapping[str, Any], arguments: Mapping[str, Any], folder: Folder) -> int | None:
    asked = arguments.get("n_timesteps")
    if isinstance(asked, int) and not isinstance(asked, bool) and asked > 0:
        return asked
    planned = config.get("n_timesteps")
    if planned is None:
        return None
    return parse_whole_number(planned, _named(folder.config), "n_timesteps", "n_timesteps")


def _word(arguments: Mapping[str, Any], key: str, folder: Folder) -> str | None:
    value = arguments.get(key)
    return None if value is None else parse_name(value, _named(folder.arguments), key, key)


def _named(file: SourceFile | None) -> str:
    return file.name if file else ""


def _yaml(file: SourceFile | None, parse: Parse) -> tuple[Mapping[str, Any], list[LoadedFile]]:
    """A mapping from a file, and the file; both empty where there is none."""
    if file is None:
        return {}, []
    loaded = file.load()
    try:
        plain = parse(file.path)
    except ConfigError as error:
        what = str(error).replace(str(file.path), "it")
        raise malformed_error(file.name, "", what) from error
    if not isinstance(plain, Mapping):
        raise malformed_error(file.name, "", f"it holds {shortened_repr(plain)}, and not settings")
    return plain, [loaded]
