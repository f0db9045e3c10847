"""`rlexp config import`: converts hyperparameters of rl-baselines3-zoo to a benchmark."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from rlexp.app.execution.checks.compatibility import check_compatibility
from rlexp.app.execution.request import configuration_of
from rlexp.app.results import NextCommand, Schema
from rlexp.app.workspace import Workspace
from rlexp.config.compose import compose, compose_cells
from rlexp.config.config_files import group_options
from rlexp.config.matrix import (
    ALGORITHMS,
    GYMNASIUM_ID,
    TASKS,
    MatrixCell,
    benchmark_file,
    cells_of,
)
from rlexp.config.third_party_yaml import (
    HyperparameterEntry,
    environment_options,
    read_third_party_entries,
)
from rlexp.config.validate import PlugIns, validate
from rlexp.config.yaml_text import matrix_text, nested_sections
from rlexp.errors import ConfigError, did_you_mean
from rlexp.exchange.importers.zoo_settings import ALGORITHMS as RENAMED
from rlexp.exchange.importers.zoo_settings import translate_zoo_settings
from rlexp.exchange.importers.zoo_tasks import (
    ATARI,
    BROUGHT_BY_ATARI,
    MatchedTasks,
    match_tasks,
)
from rlexp.protocol.experiment import Configuration
from rlexp.store.files import publish
from rlexp.text import join_first_names

SETTING = re.compile(r"\balgorithm\.(\w+)")
"""Finds the setting that an error message of the configuration is about."""
OF_NO_TASK = ("default",)
"""Entries of the zoo that apply to every environment."""
MOST = 8
"""Longest list of problems in an error message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HyperparametersRequest:
    """The entries to import, and the name of the benchmark.

    Attributes:
        path: A YAML file of rl-baselines3-zoo.
        algorithm: The algorithm of the hyperparameters; None takes the name of the file.
        name: The name of the benchmark; with None, nothing is written.
        tasks: The entries to import; empty imports all.
        left_out: Entries that are not imported.
    """

    path: str
    algorithm: str | None = None
    name: str | None = None
    tasks: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusableEntry:
    """An entry that was imported, but cannot be trained on this machine.

    Attributes:
        entry: The name of the entry.
        reason: Why it cannot be trained.
    """

    entry: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedHyperparameters:
    """A benchmark with the hyperparameters of rl-baselines3-zoo.

    Attributes:
        name: The name of the benchmark; null if no name was given.
        file: The file that was written; null if no name was given.
        algorithm: The algorithm of the hyperparameters.
        tasks: The entries that were imported.
        cells: Number of tasks of the benchmark; an entry may stand for several.
        left_out: Entries for every task, and `atari` where it cannot be converted; these were left
            out automatically.
        notes: Where a task differs from that of the zoo.
        unusable: Imported entries that cannot be trained on this machine, and why.
        text: The benchmark as YAML.
        next: Suggested next commands.
    """

    schema: ClassVar[Schema] = Schema("imported-hyperparameters")

    name: str | None
    file: Path | None
    algorithm: str
    tasks: tuple[str, ...]
    cells: int
    left_out: tuple[str, ...]
    notes: tuple[str, ...]
    unusable: tuple[UnusableEntry, ...]
    text: str
    next: tuple[NextCommand, ...]


def import_hyperparameters(
    request: HyperparametersRequest, workspace: Workspace
) -> ImportedHyperparameters:
    """Convert every entry, validate every configuration, and then write the benchmark.

    Raises:
        ConfigError: The file, an entry or the algorithm does not exist, or an entry cannot be
            converted; nothing was written.
    """
    target = _target(request.name, workspace.folder)
    path = Path(request.path)
    if not path.is_file():
        raise ConfigError(f"there is no file {path}; name a file such as hyperparams/ppo.yml")
    algorithm = _algorithm(request.algorithm or path.stem, workspace.folder)
    every = read_third_party_entries(path)
    translation = _translated(_selected(every, request, path), algorithm, path, request, workspace)
    text = _text(translation, algorithm, path)
    if target is not None:
        target.parent.mkdir(parents=True, exist_ok=True)
        publish(target, text.encode())
    return ImportedHyperparameters(
        name=request.name,
        file=target,
        algorithm=algorithm,
        tasks=tuple(translation.entries),
        cells=len(translation.tasks),
        left_out=(*_left_out(every, request), *translation.left_out),
        notes=tuple(translation.notes),
        unusable=tuple(translation.unusable),
        text=text,
        next=tuple(_next(request.name)),
    )


def _next(name: str | None) -> Iterator[NextCommand]:
    if name is not None:
        yield NextCommand(why="see it", command=f"rlexp config show +benchmark={name}")
        yield NextCommand(why="run it", command=f"rlexp run +benchmark={name} --dry-run")


def _target(name: str | None, folder: Path) -> Path | None:
    if name is None:
        return None
    target = benchmark_file(name, folder, "--name")
    if target.exists() or target.is_symlink():
        raise ConfigError(f"{target} already exists: remove it, or choose another --name")
    return target


def _algorithm(word: str, folder: Path) -> str:
    name, existing = RENAMED.get(word, word), group_options("algorithm", folder)
    if name not in existing:
        raise ConfigError(
            f"there is no algorithm={name}{did_you_mean(name, existing)} "
            f"(there are: {', '.join(existing)}); name the algorithm of the file with --algorithm",
        )
    return name


def _selected(
    entries: Sequence[HyperparameterEntry], request: HyperparametersRequest, path: Path
) -> list[HyperparameterEntry]:
    """The requested entries, in the order of the file.

    Raises:
        ConfigError: An entry does not exist, or none is left.
    """
    names = [entry.name for entry in entries]
    for name in (*request.tasks, *request.left_out):
        if name not in names:
            raise ConfigError.unknown(f"{path} has no entry {name!r}", name, names)
    chosen = request.tasks or [name for name in names if name not in OF_NO_TASK]
    selected = [e for e in entries if e.name in chosen and e.name not in request.left_out]
    if not selected:
        raise ConfigError(f"no entry of {path} is left to import; name entries with --task")
    return selected


def _left_out(
    entries: Sequence[HyperparameterEntry], request: HyperparametersRequest
) -> Iterator[str]:
    """Entries for no single task that the request does not name."""
    if not request.tasks:
        names = (entry.name for entry in entries)
        yield from (n for n in names if n in OF_NO_TASK and n not in request.left_out)


@dataclass(slots=True)
class Translation:
    """The cells of a benchmark, and what to say about the entries that they come from.

    Attributes:
        tasks: The settings of each task.
        entries: The entries that were converted.
        left_out: Entries that nobody named and that cannot be converted.
        notes: Where a task differs from that of the zoo.
        unusable: Entries that cannot be trained on this machine.
    """

    tasks: dict[str, Any] = field(default_factory=dict)
    entries: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unusable: list[UnusableEntry] = field(default_factory=list)


def _translated(
    entries: Sequence[HyperparameterEntry],
    algorithm: str,
    path: Path,
    request: HyperparametersRequest,
    workspace: Workspace,
) -> Translation:
    """The benchmark matrix; each of its configurations was composed and validated.

    Raises:
        ConfigError: An entry cannot be converted; the message lists all problems.
    """
    (base,) = compose([f"algorithm={algorithm}"], workspace.folder)
    available = [key for key in base.plain["algorithm"] if key != "_target_"]
    options = environment_options(workspace.folder)
    troubles: dict[str, list[str]] = {}
    result = Translation()
    for entry in entries:
        matched = match_tasks(entry.name, options)
        settings, problems = _settings(entry, available)
        matrix = {TASKS: {task: _task(settings, algorithm) for task in matched.tasks}}
        problems += [f"line {entry.line}: {why}" for why in _misplaced(entry, matched, result)]
        # Composing an entry with a known problem would report the same problem in other words.
        checked = CheckedEntry(problems) if problems else _check(matrix, entry, workspace)
        if checked.problems and entry.name == ATARI and ATARI not in request.tasks:
            result.left_out.append(ATARI)
            continue
        if checked.problems:
            troubles.setdefault("; ".join(checked.problems), []).append(entry.name)
        result.tasks |= matrix[TASKS]
        result.entries.append(entry.name)
        result.notes += [matched.note] if matched.note else []
        if checked.unusable:
            result.unusable.append(UnusableEntry(entry=entry.name, reason=checked.unusable))
    if troubles:
        raise ConfigError(_refusal(troubles, path))
    if not result.tasks:
        raise ConfigError(f"no entry of {path} is left to import; name entries with --task")
    return result


def _settings(
    entry: HyperparameterEntry, available: Sequence[str]
) -> tuple[dict[str, Any], list[str]]:
    """The translated settings of an entry, and the problems of those that cannot be."""
    brought = BROUGHT_BY_ATARI if entry.name == ATARI else ()
    given = {key: value for key, value in entry.settings.items() if key not in brought}
    settings, refused = translate_zoo_settings(given, available)
    return settings, [f"line {entry.line_of(key)}, {key}: {why}" for key, why in refused.items()]


def _misplaced(
    entry: HyperparameterEntry, matched: MatchedTasks, result: Translation
) -> Iterator[str]:
    """Why the tasks of an entry cannot be cells of the benchmark."""
    if matched.tasks == (entry.name,) and not GYMNASIUM_ID.fullmatch(entry.name):
        yield "it is not a Gymnasium id, so it names no single task"
    for task in matched.tasks:
        if task in result.tasks:
            yield f"an earlier entry is already the task {task}"
    if not matched.tasks:
        yield "no option of environment is such a task"


@dataclass(frozen=True, slots=True)
class CheckedEntry:
    """What the check of a converted entry has shown.

    Attributes:
        problems: Why the entry cannot be converted.
        unusable: Why the entry cannot be trained on this machine; None if it can.
    """

    problems: list[str]
    unusable: str | None = None


def _check(
    matrix: Mapping[str, Any], entry: HyperparameterEntry, workspace: Workspace
) -> CheckedEntry:
    """Compose and validate a converted entry, and make the environment of its first task."""
    at = f"line {entry.line}"
    unusable: list[str | None] = []
    try:
        for cell in cells_of(matrix, entry.name, at, workspace.folder):
            for composed in compose_cells([MatrixCell(cell.overrides)], workspace.folder):
                root, parts = validate(composed.plain, workspace.allowed)
                # The Atari tasks differ in their game only, and importing torch takes seconds.
                if not unusable:
                    configuration = configuration_of(composed, root, parts)
                    unusable.append(_why_unusable(configuration, parts, entry.name, workspace))
    except ConfigError as error:
        said = str(error).removeprefix(f"{at}: ")
        key = SETTING.search(said)
        return CheckedEntry([f"line {entry.line_of(key[1]) if key else entry.line}: {said}"])
    return CheckedEntry([], unusable[0] if unusable else None)


def _why_unusable(
    configuration: Configuration, parts: PlugIns, name: str, workspace: Workspace
) -> str | None:
    """Why a configuration cannot be trained on this machine; None if it can."""
    # The file may come from anybody: its module is not imported here.
    if ":" in name:
        return f"it names the module {name.partition(':')[0]}, which was not imported to check it"
    try:
        check_compatibility([configuration], workspace, {}, {configuration.fingerprint: parts})
    except ConfigError as error:
        return str(error)
    return None


def _refusal(troubles: Mapping[str, Sequence[str]], path: Path) -> str:
    reasons = [f"{join_first_names(names, 2)} ({text})" for text, names in troubles.items()]
    more = f" and {len(reasons) - MOST} more" if len(reasons) > MOST else ""
    names = [name for entries in troubles.values() for name in entries]
    out = shlex.join(word for name in names for word in ("--leave-out", name))
    return (
        f"nothing was written, because entries of {path} cannot be converted: "
        f"{', '.join(reasons[:MOST])}{more}; leave them out with {out}, or name others with --task"
    )


def _task(settings: Mapping[str, Any], algorithm: str) -> dict[str, Any]:
    shared = {k: v for k, v in settings.items() if k.startswith("budget.")}
    algorithm_settings = {k: v for k, v in settings.items() if k not in shared}
    return {**_nested(shared), ALGORITHMS: {algorithm: _nested(algorithm_settings)}}


def _nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted keys as nested sections.

    Settings of an agent stay dotted if the entry also chooses an agent: the key `agent` cannot
    hold both a choice and a section.
    """
    dotted = {k: v for k, v in settings.items() if "agent" in settings and k.startswith("agent.")}
    return {**nested_sections({k: v for k, v in settings.items() if k not in dotted}), **dotted}


def _text(translation: Translation, algorithm: str, path: Path) -> str:
    # A line feed in the file's name would end the YAML comment that quotes it.
    name = "".join(c if c.isprintable() else "?" for c in path.name)
    notes = "".join(f"\n{note}." for note in translation.notes)
    return matrix_text(
        {TASKS: translation.tasks},
        f"{algorithm} with the hyperparameters of rl-baselines3-zoo, {name}.\n"
        "Steps are those of the zoo: to compare with another algorithm, give both the same "
        f"budget.steps=…{notes}",
    )
