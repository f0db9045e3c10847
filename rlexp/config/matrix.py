"""Matrices: a yaml of the group `benchmark` that stands for many cells, each a task × an algorithm."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlexp.config.sources import check_yaml, group_options, search_path
from rlexp.config.words import FIXED, OF_THE_ATTEMPT, choice_texts, override_word, parse_words
from rlexp.errors import ConfigError, did_you_mean

GROUP = "benchmark"
SELECTING = ("algorithm", "environment")
"""Groups by which a command narrows a matrix, instead of replacing what its cells choose."""


def expand(words: Sequence[str], folder: Path) -> list[Cell]:
    """The cells that words lead to: one for each of a matrix, else one of just these words.

    Args:
        words: Of a command, in Hydra's override grammar.
        folder: The study's folder, whose `conf/` wins over the packaged one.

    Raises:
        ConfigError: A word cannot be parsed; a matrix is wrong, or is narrowed to nothing.
    """
    parsed = parse_words(words)
    named = [p for p in parsed if p.key_or_group == GROUP and p.is_add()]
    names = {name: matrix_file(name, folder) for name in _names(named)}
    if not any(names.values()):
        return [Cell(tuple(words))]
    if len(named) > 1 or isinstance(named[0].value(), list):
        raise ConfigError(f"several matrices are a choice: +{GROUP}={','.join(names)}")
    rest = [(w, p) for w, p in zip(words, parsed, strict=True) if p is not named[0]]
    every = [c for name, path in names.items() if path for c in read_matrix(name, path, folder)]
    kept = [(w, p) for w, p in rest if not _selects(p)]
    cells = under(
        select(every, _wanted(rest)), [w for w, _ in kept], [p.key_or_group for _, p in kept]
    )
    return [
        cell
        for name, path in names.items()
        for cell in ([c for c in cells if c.matrix == name] if path else [_plain(name, rest)])
    ]


def as_one_cell(words: Sequence[str], folder: Path) -> list[str]:
    """The words of a sweep, which starts from one configuration.

    Raises:
        ConfigError: They lead to several cells of a matrix.
    """
    cells = expand(words, folder)
    if len(cells) > 1:
        raise ConfigError(
            f"a sweep tunes one configuration, and {GROUP}={cells[0].matrix} has {len(cells)} "
            "cells left: choose one with algorithm=… environment=…",
        )
    return list(cells[0].words)


def _plain(name: str, rest: Iterable[tuple[str, Any]]) -> Cell:
    """What is no matrix stands beside one as it is."""
    return Cell((f"+{GROUP}={name}", *(word for word, _ in rest)), ((GROUP, name),))


def _selects(parsed: Any) -> bool:
    changed = not (parsed.is_add() or parsed.is_force_add() or parsed.is_delete())
    return changed and parsed.key_or_group in SELECTING


def _wanted(rest: Iterable[tuple[str, Any]]) -> Mapping[str, list[str]]:
    """Options of algorithms and environments that the command names."""
    return {p.key_or_group: _texts(word, p) for word, p in rest if _selects(p)}


def _names(named: Iterable[Any]) -> list[str]:
    """The options that words name, each once."""
    texts = [text for parsed in named for text in _texts(parsed.input_line, parsed)]
    return list(dict.fromkeys(texts))


def _texts(word: str, parsed: Any) -> list[str]:
    if parsed.is_sweep_override():
        values = [f"{parsed.key_or_group}={text}" for text in choice_texts(word, parsed)]
        return [str(one.value()) for one in parse_words(values)]
    value = parsed.value()
    return [str(item) for item in value] if isinstance(value, list) else [str(value)]


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
