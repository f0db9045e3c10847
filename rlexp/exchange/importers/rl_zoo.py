"""Importer of rl-baselines3-zoo's log folders `ALGO/ENV_N/`, including their configuration."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from rlexp.errors import ConfigError
from rlexp.exchange.importers import sb3_evaluations, sb3_monitor
from rlexp.exchange.importers.imported_study import (
    ENVIRONMENT,
    ImportedRun,
    ImportedStudy,
    ImportOptions,
    ReturnKind,
    malformed_error,
    until_not_finite,
)
from rlexp.exchange.importers.naming import RunFacts, RunIdentity, RunNaming
from rlexp.exchange.importers.parse_values import (
    details_as_text,
    parse_name,
    parse_whole_number,
    shortened_repr,
)
from rlexp.exchange.importers.sources import LoadedFile, Parse, SourceFile, unused_files

FOLDER = re.compile(r"(?P<task>.+)_(?P<number>\d+)", re.ASCII)
"""The zoo's names of run folders."""
SAMPLED = re.compile(r"NoFrameskip|^ALE[/-]|MiniGrid")
"""Tasks on which the zoo evaluates with sampled actions."""
OF_NO_CONFIGURATION = ("n_timesteps",)
"""Settings that belong to the budget."""


@dataclass(frozen=True, slots=True)
class Folder:
    """The files of one run."""

    name: str
    algorithm: str
    task: str
    files: tuple[SourceFile, ...]

    def file(self, path: str) -> SourceFile | None:
        """The file with this path inside the folder; None if it is missing."""
        return next((f for f in self.files if f.name == f"{self.name}/{path}"), None)

    @property
    def config(self) -> SourceFile | None:
        """The file with the hyperparameters that were used."""
        return self.file(f"{self.task}/config.yml")

    @property
    def arguments(self) -> SourceFile | None:
        """The file with the arguments of the command."""
        return self.file(f"{self.task}/args.yml")

    @property
    def monitors(self) -> list[SourceFile]:
        """Monitor files of the training environments."""
        direct = [f for f in self.files if f.folder == self.name]
        return [f for f in direct if f.last.endswith(sb3_monitor.ENDING)]


def fits(files: Sequence[SourceFile]) -> bool:
    """Whether there is a run folder of the zoo."""
    return bool(_folders(files))


def read_rl_zoo(
    files: Sequence[SourceFile], options: ImportOptions, parse: Parse
) -> ImportedStudy:
    """Read runs: evaluations if a folder has them, else training episodes.

    Raises:
        MalformedError: A file has another form than the zoo's.
    """
    used: list[SourceFile] = []
    runs: list[ImportedRun] = []
    naming = RunNaming(options)
    for folder in _folders(files):
        config, config_files = _yaml(folder.config, parse)
        arguments, argument_files = _yaml(folder.arguments, parse)
        used += [f for f in (folder.config, folder.arguments) if f is not None]
        identity = naming.identify(_facts(folder, config, arguments))
        if identity is None:
            used += folder.files
            continue
        read, run = _results(folder, identity, options)
        used += read
        runs.append(_described(run, config, arguments, [*config_files, *argument_files], folder))
    naming.check()
    left_out = (*naming.left_out(), *unused_files(files, used))
    return ImportedStudy(kind="rl-zoo", runs=tuple(runs), left_out=left_out)


def _facts(folder: Folder, config: Mapping[str, Any], arguments: Mapping[str, Any]) -> RunFacts:
    seed = arguments.get("seed")
    return RunFacts(
        name=folder.name,
        source=folder.name,
        paths=(folder.name,),
        parameters=details_as_text({**arguments, **config}),
        label=_word(arguments, "algo", folder) or folder.algorithm,
        task=_word(arguments, "env", folder) or folder.task,
        seed=None
        if seed is None
        else parse_whole_number(seed, _name_of(folder.arguments), "seed", "seed"),
    )


def _folders(files: Sequence[SourceFile]) -> list[Folder]:
    """Folders with a name of the zoo's form that contain its files."""
    inside: dict[PurePosixPath, list[SourceFile]] = {}
    for file in files:
        for parent in PurePosixPath(file.name).parents:
            inside.setdefault(parent, []).append(file)
    result = []
    for parent, members in inside.items():
        if match := FOLDER.fullmatch(parent.name):
            folder = Folder(str(parent), parent.parent.name, match["task"], tuple(members))
            result += [folder] if folder.config or folder.arguments else []
    return result


def _results(
    folder: Folder, identity: RunIdentity, options: ImportOptions
) -> tuple[list[SourceFile], ImportedRun]:
    file = folder.file(sb3_evaluations.NAME)
    if file is None:
        if not folder.monitors:
            what = f"it contains neither {sb3_evaluations.NAME} nor {sb3_monitor.ENDING}"
            raise malformed_error(folder.name, "", what)
        named = replace(options, task=identity.task)
        recording = sb3_monitor.read_recording(folder.name, folder.monitors, named)
        return folder.monitors, sb3_monitor.imported_run(recording, identity)
    loaded = file.load()
    points = sb3_evaluations.read_points(loaded, options.unit or ENVIRONMENT)
    kept, trouble = until_not_finite(points)
    run = ImportedRun(
        name=folder.name,
        label=identity.label,
        task=identity.task,
        seed=identity.seed,
        points=kept,
        returns=ReturnKind.EVALUATIONS,
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
    return replace(
        run,
        steps=_steps(config, arguments, folder),
        settings={k: v for k, v in config.items() if k not in OF_NO_CONFIGURATION},
        details={**run.details, "arguments": details_as_text(arguments)},
        files=(*run.files, *(loaded.sum for loaded in read)),
    )


def _steps(config: Mapping[str, Any], arguments: Mapping[str, Any], folder: Folder) -> int | None:
    argument = arguments.get("n_timesteps")
    if isinstance(argument, int) and not isinstance(argument, bool) and argument > 0:
        return argument
    setting = config.get("n_timesteps")
    if setting is None:
        return None
    return parse_whole_number(setting, _name_of(folder.config), "n_timesteps", "n_timesteps")


def _word(arguments: Mapping[str, Any], key: str, folder: Folder) -> str | None:
    value = arguments.get(key)
    return None if value is None else parse_name(value, _name_of(folder.arguments), key, key)


def _name_of(file: SourceFile | None) -> str:
    return file.name if file else ""


def _yaml(file: SourceFile | None, parse: Parse) -> tuple[Mapping[str, Any], list[LoadedFile]]:
    """The mapping in a file, and the loaded file; both empty if there is no file."""
    if file is None:
        return {}, []
    loaded = file.load()
    try:
        content = parse(file.path)
    except ConfigError as error:
        what = str(error).replace(str(file.path), "it")
        raise malformed_error(file.name, "", what) from error
    if not isinstance(content, Mapping):
        raise malformed_error(
            file.name, "", f"it contains {shortened_repr(content)}, and not a mapping of settings"
        )
    return content, [loaded]
