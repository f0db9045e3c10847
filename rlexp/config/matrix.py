"""Matrices: a yaml of the group `benchmark` that stands for many cells, each a task × an algorithm."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlexp.config.sources import check_yaml, group_options, search_path
from rlexp.config.words import FIXED, OF_THE_ATTEMPT, override_word
from rlexp.errors import ConfigError, did_you_mean

TASKS = "tasks"
"""The key by which a yaml is a matrix, and no package of overrides."""
ALGORITHMS = "algorithms"
SECTIONS = ("agent", "algorithm", "environment", "budget", "compute")
"""What a cell may set: all that a configuration has, and an experiment has not."""
REGISTERED = re.compile(r"(?:[\w.]+:)?(?:[\w-]+/)?[\w.-]+-v\d+", re.ASCII)
"""An id of Gymnasium, for tasks that no option of the group `environment` stands for."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Words that are composed together.

    Attributes:
        words: In Hydra's override grammar; those of a command stand last, where they win.
        choices: The task and the algorithm, where a matrix says them.
        matrix: The name of that matrix; nothing where there is none.
    """

    words: tuple[str, ...]
    choices: tuple[tuple[str, str], ...] = ()
    matrix: str | None = None

    @property
    def said(self) -> str:
        """What an error about it begins with; nothing where there is no matrix."""
        if self.matrix is None:
            return ""
        found = dict(self.choices)
        return f"benchmark={self.matrix}, {found['algorithm']} on {found['environment']}: "


def matrix_file(name: str, folder: Path) -> Path | None:
    """The file of an option of `benchmark`, where it is a matrix.

    Raises:
        ConfigError: It cannot be read.
    """
    if ".." in Path(name).parts:
        return None
    places = (place / "benchmark" / f"{name}.yaml" for place in search_path(folder))
    path = next((path for path in places if path.is_file()), None)
    return path if path is not None and TASKS in _read(path) else None


def read_matrix(name: str, path: Path, folder: Path) -> list[Cell]:
    """The cells of a matrix, in the order of its file.

    Raises:
        ConfigError: It names what does not exist, or what a cell cannot set.
    """
    return cells_of(_read(path), name, str(path), folder)


def cells_of(plain: Mapping[str, Any], name: str, where: str, folder: Path) -> list[Cell]:
    """The cells of what the file of a matrix holds.

    Args:
        plain: Its content.
        name: Of the matrix.
        where: What errors begin with.
        folder: The study's folder, whose `conf/` wins over the packaged one.

    Raises:
        ConfigError: It names what does not exist, or what a cell cannot set.
    """
    _known(plain, (TASKS,), where)
    found: list[Cell] = []
    for task, own in _mapping(plain[TASKS], f"{where}: {TASKS}").items():
        at = f"{where}: {TASKS}.{task}"
        shared = _mapping(own, at)
        chosen = _task_words(task, at, folder)
        common = [*chosen, *_words({k: v for k, v in shared.items() if k != ALGORITHMS}, at)]
        algorithms = _mapping(shared.get(ALGORITHMS), f"{at}.{ALGORITHMS}")
        for algorithm, settings in algorithms.items():
            _option("algorithm", algorithm, at, folder)
            words = _words(settings or {}, f"{at}.{ALGORITHMS}.{algorithm}")
            choices = (("environment", task), ("algorithm", algorithm))
            found.append(
                Cell((f"algorithm={algorithm}", *_last_agent([*common, *words])), choices, name)
            )
    return found


def under(cells: Sequence[Cell], words: Sequence[str], keys: Sequence[str]) -> list[Cell]:
    """The cells under the words of a command, which win.

    Args:
        cells: Of a matrix.
        words: Of the command, but for those that select cells.
        keys: The key of each word.
    """
    chosen = "agent" in keys
    return [
        replace(cell, words=(*(_without_agent(cell.words) if chosen else cell.words), *words))
        for cell in cells
    ]


def select(cells: Sequence[Cell], wanted: Mapping[str, Sequence[str]]) -> list[Cell]:
    """The cells of the options that a command names.

    Args:
        cells: Of one matrix or several.
        wanted: Options of `algorithm` and `environment`, each of those that are named.

    Raises:
        ConfigError: An option selects no cell; says which there are.
    """
    found = list(cells)
    for group, options in wanted.items():
        known = list(dict.fromkeys(dict(cell.choices)[group] for cell in cells))
        for option in options:
            if option not in known:
                raise ConfigError.unknown(
                    f"{group}={option} selects no cell of benchmark={_named(cells)}",
                    option,
                    known,
                    code="unknown_option",
                    key=group,
                )
        found = [cell for cell in found if dict(cell.choices)[group] in options]
    for group, options in wanted.items():
        left = {dict(cell.choices)[group] for cell in found}
        for option in options:
            if option not in left:
                raise ConfigError(_apart(cells, group, option, wanted))
    return found


def _apart(
    cells: Sequence[Cell], group: str, option: str, wanted: Mapping[str, Sequence[str]]
) -> str:
    """Why an option of one group has no cell with those that are wanted of the other."""
    (other,) = (g for g in wanted if g != group)
    there = [dict(cell.choices)[other] for cell in cells if dict(cell.choices)[group] == option]
    return (
        f"benchmark={_named(cells)} has no cell of {group}={option} with "
        f"{other}={','.join(wanted[other])} (with {group}={option} it has: {', '.join(there)})"
    )


def _named(cells: Sequence[Cell]) -> str:
    return ",".join(dict.fromkeys(cell.matrix or "" for cell in cells))


def _task_words(task: str, where: str, folder: Path) -> list[str]:
    if task in group_options("environment", folder):
        return [f"environment={task}"]
    if not REGISTERED.fullmatch(task):
        _option("environment", task, where, folder)
    return ["environment=gymnasium", override_word("environment.id", task)]


def _option(group: str, option: str, where: str, folder: Path) -> None:
    known = group_options(group, folder)
    if option not in known:
        also = ", nor is it an id of Gymnasium (Name-v1)" if group == "environment" else ""
        raise ConfigError(
            f"{where}: there is no {group}={option}{also}{did_you_mean(option, known)}; "
            f"see: rlexp config list {group}",
            code="unknown_option",
            key=group,
            allowed=known,
            command=f"rlexp config list {group}",
        )


def _words(plain: Any, where: str) -> Iterator[str]:
    """Settings of a cell as words: of a section each setting by itself."""
    for key, value in _mapping(plain, where, empty=True).items():
        head = key.partition(".")[0]
        _known({head: None}, SECTIONS, where)
        if "." not in key and isinstance(value, Mapping):
            for name, inner in value.items():
                yield _word(f"{key}.{name}", inner, where)
        elif "." in key or key == "agent":
            yield _word(key, value, where)
        else:
            raise ConfigError(f"{where}.{key}: give its settings, as a mapping")


def _word(key: str, value: Any, where: str) -> str:
    if key in OF_THE_ATTEMPT:
        raise ConfigError(f"{where}: {key} changes no number of a run: leave it to the command")
    try:
        return override_word(key, value)
    except ConfigError as error:
        raise error.rephrased(f"{where}: {error}") from error


def _last_agent(words: Sequence[str]) -> list[str]:
    """The words with one choice of the agent at most, the last one."""
    chosen = [word for word in words if word.startswith("agent=")]
    return [word for word in words if word not in chosen[:-1]]


def _without_agent(words: Sequence[str]) -> tuple[str, ...]:
    """The words but for those about an agent that a command replaces."""
    return tuple(word for word in words if re.split(r"[.=]", word.lstrip("+"))[0] != "agent")


def _known(plain: Mapping[str, Any], allowed: Sequence[str], where: str) -> None:
    for key in plain:
        if key in FIXED:
            raise ConfigError(
                f"{where}: {key} belongs to the whole experiment, not to a cell: "
                "leave it to the command",
            )
        if key not in allowed:
            raise ConfigError.unknown(
                f"{where}: unknown key {key!r}", key, allowed, code="unknown_setting", key=key
            )


def _mapping(plain: Any, where: str, *, empty: bool = False) -> dict[str, Any]:
    if not isinstance(plain, Mapping) or not (plain or empty):
        raise ConfigError(f"{where} must be a mapping with one entry or more")
    return {str(key): value for key, value in plain.items()}


def _read(path: Path) -> dict[str, Any]:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    check_yaml(path)
    try:
        plain = OmegaConf.to_container(OmegaConf.load(path), resolve=False)
    except (OmegaConfBaseException, OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {' '.join(str(error).split())}") from error
    return {str(k): v for k, v in plain.items()} if isinstance(plain, dict) else {}
