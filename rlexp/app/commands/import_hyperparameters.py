"""`rlexp config import`: hyperparameters of rl-baselines3-zoo as a matrix of our own."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from rlexp.app.results import NextCommand, Schema
from rlexp.app.workspace import Workspace
from rlexp.config.compose import compose
from rlexp.config.foreign_entries import Entry, environment_options, read_foreign_entries
from rlexp.config.front_matter import matrix_text
from rlexp.config.matrix import ALGORITHMS, REGISTERED, TASKS, cells_of
from rlexp.config.sources import group_options
from rlexp.config.validate import validate
from rlexp.errors import ConfigError, did_you_mean
from rlexp.exchange.importers.zoo_settings import ALGORITHMS as RENAMED
from rlexp.exchange.importers.zoo_settings import translate
from rlexp.store.files import publish
from rlexp.text import shortened

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,99}", re.ASCII)
SETTING = re.compile(r"\balgorithm\.(\w+)")
"""Which key of an entry an error is about."""
OF_NO_TASK = ("default", "atari")
"""Entries of the zoo for whatever else there is."""
MOST = 8
"""Problems that are named one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HyperparametersRequest:
    """What to import, and as what.

    Attributes:
        path: A yaml file of rl-baselines3-zoo.
        algorithm: The algorithm of the hyperparameters; without one, the name of the file says it.
        name: The name of the benchmark; without one, nothing is written.
        tasks: The entries to import; all of them where none is named.
        left_out: Entries that are not imported.
    """

    path: str
    algorithm: str | None = None
    name: str | None = None
    tasks: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedHyperparameters:
    """A benchmark with the hyperparameters of rl-baselines3-zoo.

    Attributes:
        name: Its name, if it was written.
        file: The file that was written; nothing where no name was given.
        algorithm: The algorithm that the hyperparameters are of.
        tasks: The entries that were imported.
        left_out: Entries for no particular task, which were left out although nobody asked for it.
        text: The benchmark as yaml.
        next: The commands that make sense now.
    """

    schema: ClassVar[Schema] = Schema("imported-hyperparameters")

    name: str | None
    file: Path | None
    algorithm: str
    tasks: tuple[str, ...]
    left_out: tuple[str, ...]
    text: str
    next: tuple[NextCommand, ...]


def import_hyperparameters(
    request: HyperparametersRequest, workspace: Workspace
) -> ImportedHyperparameters:
    """Translate every entry, check every cell, and only then write the benchmark.

    Raises:
        ConfigError: Something is not there, or cannot be translated; nothing is written then.
    """
    target = _target(request.name, workspace.folder)
    path = Path(request.path)
    if not path.is_file():
        raise ConfigError(f"there is no file {path}; name one such as hyperparams/ppo.yml")
    algorithm = _algorithm(request.algorithm or path.stem, workspace.folder)
    every = read_foreign_entries(path)
    entries = _selected(every, request, path)
    text = _text(_translated(entries, algorithm, path, workspace), algorithm, path)
    if target is not None:
        target.parent.mkdir(parents=True, exist_ok=True)
        publish(target, text.encode())
    return ImportedHyperparameters(
        name=request.name,
        file=target,
        algorithm=algorithm,
        tasks=tuple(entry.name for entry in entries),
        left_out=tuple(_left_out(every, request)),
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
    if not NAME.fullmatch(name):
        raise ConfigError(f"--name {name!r} is no name: use letters, digits, _ and -")
    target = folder / "conf" / "benchmark" / f"{name}.yaml"
    if target.exists() or target.is_symlink():
        raise ConfigError(f"{target} is there already, and nothing is overwritten: remove it")
    return target


def _algorithm(word: str, folder: Path) -> str:
    name, known = RENAMED.get(word, word), group_options("algorithm", folder)
    if name not in known:
        raise ConfigError(
            f"there is no algorithm={name}{did_you_mean(name, known)} "
            f"(there are: {', '.join(known)}); say which these are of with --algorithm",
        )
    return name


def _selected(
    entries: Sequence[Entry], request: HyperparametersRequest, path: Path
) -> list[Entry]:
    """The entries to import."""
    names = [entry.name for entry in entries]
    for name in (*request.tasks, *request.left_out):
        if name not in names:
            raise ConfigError.unknown(f"{path} has no entry {name!r}", name, names)
    chosen = request.tasks or [name for name in names if name not in OF_NO_TASK]
    selected = [e for e in entries if e.name in chosen and e.name not in request.left_out]
    if not selected:
        raise ConfigError(f"nothing of {path} is left to import; name entries with --task")
    return selected


def _left_out(entries: Sequence[Entry], request: HyperparametersRequest) -> Iterator[str]:
    """Entries for no particular task that the request does not mention."""
    if not request.tasks:
        names = (entry.name for entry in entries)
        yield from (n for n in names if n in OF_NO_TASK and n not in request.left_out)


def _translated(
    entries: Sequence[Entry], algorithm: str, path: Path, workspace: Workspace
) -> dict[str, Any]:
    """The content of a matrix, every cell of which composes and is valid."""
    (base,) = compose([f"algorithm={algorithm}"], workspace.folder)
    known = [key for key in base.plain["algorithm"] if key != "_target_"]
    options = environment_options(workspace.folder)
    troubles: dict[str, list[str]] = {}
    tasks: dict[str, Any] = {}
    for entry in entries:
        settings, refused = translate(entry.settings, known)
        plain = {TASKS: {options.get(entry.name, entry.name): _task(settings, algorithm)}}
        problems = [f"line {entry.line_of(key)}, {key}: {why}" for key, why in refused.items()]
        if entry.name not in options and not REGISTERED.fullmatch(entry.name):
            problems = [f"line {entry.line}: it is no id of Gymnasium, and stands for no one task"]
        problems += [] if problems else _mistakes(plain, entry, workspace)
        if problems:
            troubles.setdefault("; ".join(problems), []).append(entry.name)
        tasks |= plain[TASKS]
    if troubles:
        raise ConfigError(_refusal(troubles, path))
    return {TASKS: tasks}


def _mistakes(plain: Mapping[str, Any], entry: Entry, workspace: Workspace) -> list[str]:
    """What the configuration itself refuses of a translated entry."""
    at = f"line {entry.line}"
    try:
        for cell in cells_of(plain, entry.name, at, workspace.folder):
            for one in compose(cell.overrides, workspace.folder):
                validate(one.plain, workspace.allowed)
    except ConfigError as error:
        said = str(error).removeprefix(f"{at}: ")
        key = SETTING.search(said)
        return [f"line {entry.line_of(key[1]) if key else entry.line}: {said}"]
    return []


def _refusal(troubles: Mapping[str, Sequence[str]], path: Path) -> str:
    reasons = [f"{shortened(names, 2)} ({text})" for text, names in troubles.items()]
    more = f" and {len(reasons) - MOST} more" if len(reasons) > MOST else ""
    names = [name for entries in troubles.values() for name in entries]
    out = shlex.join(word for name in names for word in ("--leave-out", name))
    return (
        f"{path} cannot be translated whole, and nothing is written: {', '.join(reasons[:MOST])}"
        f"{more}; leave them out with {out}, or name others with --task"
    )


def _task(settings: Mapping[str, Any], algorithm: str) -> dict[str, Any]:
    shared = {k: v for k, v in settings.items() if k.startswith("budget.")}
    own = {k: v for k, v in settings.items() if k not in shared}
    return {**_nested(shared), ALGORITHMS: {algorithm: _nested(own)}}


def _nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted keys as sections; those of an agent that is chosen, too, stay dotted."""
    found: dict[str, Any] = {}
    for key, value in settings.items():
        head, *path = key.split(".")
        if not path or (head == "agent" and "agent" in settings):
            found[key] = value
            continue
        node = found.setdefault(head, {})
        for part in path[:-1]:
            node = node.setdefault(part, {})
        node[path[-1]] = value
    return found


def _text(plain: Mapping[str, Any], algorithm: str, path: Path) -> str:
    name = "".join(c if c.isprintable() else "?" for c in path.name)
    return matrix_text(
        plain,
        f"{algorithm} with the hyperparameters of rl-baselines3-zoo, {name}.\n"
        "Steps are the zoo's: to compare with another algorithm, give both the same with "
        "budget.steps=…",
    )
