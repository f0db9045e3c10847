"""`rlexp config import`: hyperparameters of rl-baselines3-zoo as a matrix of our own."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlexp.app.workspace import Workspace
from rlexp.config.compose import compose
from rlexp.config.foreign_entries import Entry, environment_options, read_foreign_entries
from rlexp.config.matrix import ALGORITHMS, REGISTERED, TASKS, cells_of
from rlexp.config.matrix_text import matrix_text
from rlexp.config.sources import group_options
from rlexp.config.validate import validate
from rlexp.console import Console
from rlexp.errors import ConfigError
from rlexp.exchange.importers.zoo_settings import ALGORITHMS as RENAMED
from rlexp.exchange.importers.zoo_settings import translate
from rlexp.reports.sentences import shortened
from rlexp.store.files import publish

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,99}", re.ASCII)
SETTING = re.compile(r"\balgorithm\.(\w+)")
"""Which key of an entry an error is about."""
OF_NO_TASK = ("default", "atari")
"""Entries of the zoo for whatever else there is."""
MOST = 8
"""Troubles that are told one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is imported, and as what.

    Attributes:
        path: A yaml file of the zoo.
        algorithm: Which they are of; without one, the file's name says it.
        name: Of the matrix; without one, it is printed.
        tasks: The entries that are wanted; all of them, where none is named.
        left_out: Entries that are not.
    """

    path: str
    algorithm: str | None
    name: str | None
    tasks: tuple[str, ...]
    left_out: tuple[str, ...]


def import_hyperparameters(asked: Asked, workspace: Workspace, console: Console) -> int:
    """Translate every entry, check every cell, and only then write or print; returns 0.

    Raises:
        ConfigError: Something is not there, or cannot be translated; nothing is written then.
    """
    target = _target(asked.name, workspace.folder)
    path = Path(asked.path)
    if not path.is_file():
        raise ConfigError(f"there is no file {path}; name one such as hyperparams/ppo.yml")
    algorithm = _algorithm(asked.algorithm or path.stem, workspace.folder)
    entries = _selected(read_foreign_entries(path), asked, path, console)
    text = _text(_translated(entries, algorithm, path, workspace), algorithm, path)
    if target is None:
        console.text(text)
        return 0
    target.parent.mkdir(parents=True, exist_ok=True)
    publish(target, text.encode())
    said = f"{len(entries)} {'task' if len(entries) == 1 else 'tasks'}"
    console.line(f"wrote {target}: {algorithm} on {said}")
    console.line(f"To see it: rlexp config show +benchmark={asked.name}")
    console.line(f"To run it: rlexp run +benchmark={asked.name} --dry-run")
    return 0


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
        raise ConfigError.unknown(
            f"there is no algorithm={name}",
            name,
            known,
            code="unknown_option",
            key="--algorithm",
            after="; say which these are of with --algorithm",
        )
    return name


def _selected(entries: Sequence[Entry], asked: Asked, path: Path, console: Console) -> list[Entry]:
    known = [entry.name for entry in entries]
    for name in (*asked.tasks, *asked.left_out):
        if name not in known:
            raise ConfigError.unknown(f"{path} has no entry {name!r}", name, known)
    of_tasks = [name for name in known if name not in OF_NO_TASK]
    found = [
        e for e in entries if e.name in (asked.tasks or of_tasks) and e.name not in asked.left_out
    ]
    if not found:
        raise ConfigError(f"nothing of {path} is left to import; name entries with --task")
    if not asked.tasks and (out := [n for n in known if n not in {*of_tasks, *asked.left_out}]):
        console.note(f"Left out, as of no one task: {', '.join(out)}")
    return found


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
        own = [f"line {entry.line_of(key)}, {key}: {why}" for key, why in refused.items()]
        if entry.name not in options and not REGISTERED.fullmatch(entry.name):
            own = [f"line {entry.line}: it is no id of Gymnasium, and stands for no one task"]
        own += [] if own else _mistakes(plain, entry, workspace)
        if own:
            troubles.setdefault("; ".join(own), []).append(entry.name)
        tasks |= plain[TASKS]
    if troubles:
        raise ConfigError(_told(troubles, path))
    return {TASKS: tasks}


def _mistakes(plain: Mapping[str, Any], entry: Entry, workspace: Workspace) -> list[str]:
    """What the configuration itself refuses of a translated entry."""
    at = f"line {entry.line}"
    try:
        for cell in cells_of(plain, entry.name, at, workspace.folder):
            for one in compose(cell.words, workspace.folder):
                validate(one.plain, workspace.allowed)
    except ConfigError as error:
        said = str(error).removeprefix(f"{at}: ")
        key = SETTING.search(said)
        return [f"line {entry.line_of(key[1]) if key else entry.line}: {said}"]
    return []


def _told(troubles: Mapping[str, Sequence[str]], path: Path) -> str:
    told = [f"{shortened(names, 2)} ({text})" for text, names in troubles.items()]
    more = f" and {len(told) - MOST} more" if len(told) > MOST else ""
    names = [name for own in troubles.values() for name in own]
    out = shlex.join(word for name in names for word in ("--leave-out", name))
    return (
        f"{path} cannot be translated whole, and nothing is written: {', '.join(told[:MOST])}"
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
