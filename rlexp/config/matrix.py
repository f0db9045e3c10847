"""Benchmark matrices: yaml files of the group `benchmark` with one cell per task and algorithm."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlexp.config.config_files import check_yaml, group_options, is_packaged, search_path
from rlexp.config.overrides import (
    ATTEMPT_KEYS,
    EXPERIMENT_KEYS,
    choice_texts,
    format_override,
    parse_overrides,
)
from rlexp.config.yaml_parsers import packaged_configuration
from rlexp.errors import ConfigError, did_you_mean
from rlexp.protocol.spec import SETTABLE

GROUP = "benchmark"
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,99}", re.ASCII)
"""Name of a new option."""
SELECTING = ("algorithm", "environment")
"""Groups whose overrides select cells of a matrix; other overrides change every cell."""

TASKS = "tasks"
"""A yaml of the group `benchmark` with this key is a matrix; without it, a set of overrides."""
ALGORITHMS = "algorithms"
GYMNASIUM_ID = re.compile(r"(?:[\w.]+:)?(?:[\w-]+/)?[\w.-]+-v\d+", re.ASCII)
"""Id of a Gymnasium environment, for tasks that are not options of the group `environment`."""


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """Overrides that are composed into one configuration.

    Attributes:
        overrides: In Hydra's override grammar. Overrides of the command come last, so they win.
        choices: The task and the algorithm of the cell; empty outside a matrix.
        matrix: The name of the matrix; None outside a matrix.
    """

    overrides: tuple[str, ...]
    choices: tuple[tuple[str, str], ...] = ()
    matrix: str | None = None

    def plain(self) -> dict[str, Any]:
        """The cell as JSON values."""
        choices = [list(choice) for choice in self.choices]
        return {"overrides": list(self.overrides), "choices": choices, "matrix": self.matrix}

    @classmethod
    def from_plain(cls, document: Mapping[str, Any]) -> "MatrixCell":
        """The cell that `plain` made the JSON values of."""
        choices = tuple((key, value) for key, value in document["choices"])
        return cls(tuple(document["overrides"]), choices, document["matrix"])

    @property
    def error_prefix(self) -> str:
        """The first words of an error about the cell; empty outside a matrix."""
        if self.matrix is None:
            return ""
        choices = dict(self.choices)
        return f"benchmark={self.matrix}, {choices['algorithm']} on {choices['environment']}: "


def benchmark_file(name: str, folder: Path, option: str) -> Path:
    """The file of a new option of `benchmark` in the study's folder.

    Raises:
        ConfigError: The name, which was typed behind `option`, is not valid.
    """
    if not NAME.fullmatch(name):
        raise ConfigError(f"{option} {name!r} is not a valid name: use letters, digits, _ and -")
    return folder / "conf" / GROUP / f"{name}.yaml"


def matrix_file(name: str, folder: Path) -> Path | None:
    """The file of an option of `benchmark`; None if the option is not a matrix.

    Raises:
        ConfigError: The file cannot be read.
    """
    # Left to the check of the files that Hydra loads, which refuses such a path.
    if ".." in Path(name).parts:
        return None
    paths = (root / "benchmark" / f"{name}.yaml" for root in search_path(folder))
    path = next((path for path in paths if path.is_file()), None)
    return path if path is not None and TASKS in _read(path) else None


def read_matrix(name: str, path: Path, folder: Path) -> list[MatrixCell]:
    """The cells of a matrix, in the order of its file.

    Raises:
        ConfigError: The file names an unknown option, or a key that a cell cannot set.
    """
    return cells_of(_read(path), name, str(path), folder)


def cells_of(content: Mapping[str, Any], name: str, where: str, folder: Path) -> list[MatrixCell]:
    """The cells of a matrix, from the content of its file.

    Args:
        content: The content of the file.
        name: The name of the matrix.
        where: The first words of errors, usually the path of the file.
        folder: The study's folder, whose `conf/` wins over the packaged one.

    Raises:
        ConfigError: The content names an unknown option, or a key that a cell cannot set.
    """
    _check_keys(content, (TASKS,), where)
    cells: list[MatrixCell] = []
    for task, task_settings in _mapping(content[TASKS], f"{where}: {TASKS}").items():
        at = f"{where}: {TASKS}.{task}"
        shared = _mapping(task_settings, at)
        task_overrides = _task_overrides(task, at, folder)
        common = [
            *task_overrides,
            *_settings_overrides({k: v for k, v in shared.items() if k != ALGORITHMS}, at),
        ]
        algorithms = _mapping(shared.get(ALGORITHMS), f"{at}.{ALGORITHMS}")
        for algorithm, settings in algorithms.items():
            _check_option("algorithm", algorithm, at, folder)
            overrides = _settings_overrides(settings or {}, f"{at}.{ALGORITHMS}.{algorithm}")
            choices = (("environment", task), ("algorithm", algorithm))
            # The last override of a key wins: the algorithm's settings follow those of the task.
            cells.append(
                MatrixCell(
                    (f"algorithm={algorithm}", *_last_agent([*common, *overrides])), choices, name
                )
            )
    return cells


def with_overrides(
    cells: Sequence[MatrixCell], overrides: Sequence[str], keys: Sequence[str]
) -> list[MatrixCell]:
    """The cells with the overrides of a command, which win over those of the cells.

    Args:
        cells: Cells of a matrix.
        overrides: Overrides of the command, without those that select cells.
        keys: The key of each override.
    """
    replaces_agent = "agent" in keys
    return [
        replace(
            cell,
            overrides=(
                *(_without_agent(cell.overrides) if replaces_agent else cell.overrides),
                *overrides,
            ),
        )
        for cell in cells
    ]


def select_cells(
    cells: Sequence[MatrixCell], requested: Mapping[str, Sequence[str]]
) -> list[MatrixCell]:
    """The cells of the algorithms and environments that a command names.

    Args:
        cells: Cells of one matrix or several.
        requested: The options that the command names, by group (`algorithm`, `environment`).

    Raises:
        ConfigError: An option selects no cell. The error lists the options of the matrix.
    """
    selected = list(cells)
    for group, options in requested.items():
        existing = list(dict.fromkeys(dict(cell.choices)[group] for cell in cells))
        for option in options:
            if option not in existing:
                raise ConfigError.unknown(
                    f"{group}={option} selects no cell of benchmark={_matrix_names(cells)}",
                    option,
                    existing,
                    code="unknown_option",
                    key=group,
                )
        selected = [cell for cell in selected if dict(cell.choices)[group] in options]
    for group, options in requested.items():
        # Each option alone may have cells although no cell has the requested pair.
        left = {dict(cell.choices)[group] for cell in selected}
        for option in options:
            if option not in left:
                raise ConfigError(_empty_selection_message(cells, group, option, requested))
    return selected


def _empty_selection_message(
    cells: Sequence[MatrixCell], group: str, option: str, requested: Mapping[str, Sequence[str]]
) -> str:
    """An error text: an option of one group has no cell with the requested ones of the other."""
    (other,) = (g for g in requested if g != group)
    there = [dict(cell.choices)[other] for cell in cells if dict(cell.choices)[group] == option]
    return (
        f"benchmark={_matrix_names(cells)} has no cell of {group}={option} with "
        f"{other}={','.join(requested[other])} (with {group}={option} it has: {', '.join(there)})"
    )


def _matrix_names(cells: Sequence[MatrixCell]) -> str:
    return ",".join(dict.fromkeys(cell.matrix or "" for cell in cells))


def _task_overrides(task: str, where: str, folder: Path) -> list[str]:
    if task in group_options("environment", folder):
        return [f"environment={task}"]
    if not GYMNASIUM_ID.fullmatch(task):
        _check_option("environment", task, where, folder)
    return ["environment=gymnasium", format_override("environment.id", task)]


def _check_option(group: str, option: str, where: str, folder: Path) -> None:
    existing = group_options(group, folder)
    if option not in existing:
        also = ", and it is not a Gymnasium id (Name-v1)" if group == "environment" else ""
        raise ConfigError(
            f"{where}: there is no {group}={option}{also}{did_you_mean(option, existing)}; "
            f"see: rlexp config list {group}",
            code="unknown_option",
            key=group,
            allowed=existing,
            command=f"rlexp config list {group}",
        )


def _settings_overrides(settings: Any, where: str) -> Iterator[str]:
    """The settings of a cell as overrides, one for each setting of a section."""
    for key, value in _mapping(settings, where, empty=True).items():
        head = key.partition(".")[0]
        # The sections of an experiment are no part of a cell.
        _check_keys({head: None}, SETTABLE, where)
        if "." not in key and isinstance(value, Mapping):
            for name, inner in value.items():
                yield _setting_override(f"{key}.{name}", inner, where)
        elif "." in key or key == "agent":
            yield _setting_override(key, value, where)
        else:
            raise ConfigError(f"{where}.{key} must be a mapping: write {key}: {{SETTING: VALUE}}")


def _setting_override(key: str, value: Any, where: str) -> str:
    if key in ATTEMPT_KEYS:
        raise ConfigError(
            f"{where}: {key} does not change the results of a run: "
            f"remove it from the matrix and write {key}=… in the command"
        )
    try:
        return format_override(key, value)
    except ConfigError as error:
        raise error.rephrased(f"{where}: {error}") from error


def _last_agent(overrides: Sequence[str]) -> list[str]:
    """The overrides with at most one choice of the agent: the last one."""
    # Hydra refuses two choices of one group.
    agent_choices = [word for word in overrides if word.startswith("agent=")]
    return [word for word in overrides if word not in agent_choices[:-1]]


def _without_agent(overrides: Sequence[str]) -> tuple[str, ...]:
    """The overrides without those of the agent, which the command replaces."""
    return tuple(word for word in overrides if re.split(r"[.=]", word.lstrip("+"))[0] != "agent")


def _check_keys(content: Mapping[str, Any], allowed: Sequence[str], where: str) -> None:
    for key in content:
        if key in EXPERIMENT_KEYS:
            raise ConfigError(
                f"{where}: {key} belongs to the whole experiment, not to a cell: "
                f"remove it from the matrix and write {key}=… in the command",
            )
        if key not in allowed:
            raise ConfigError.unknown(
                f"{where}: unknown key {key!r}", key, allowed, code="unknown_setting", key=key
            )


def _mapping(value: Any, where: str, *, empty: bool = False) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not (value or empty):
        raise ConfigError(f"{where} must be a mapping with one entry or more")
    return {str(name): item for name, item in value.items()}


def _read(path: Path) -> dict[str, Any]:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    check_yaml(path)
    try:
        # A reference (`${…}`) can only be resolved later, in the configuration of a cell.
        packaged = packaged_configuration(path.read_text("utf-8")) if is_packaged(path) else None
        content = OmegaConf.to_container(packaged or OmegaConf.load(path), resolve=False)
    except (OmegaConfBaseException, OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {' '.join(str(error).split())}") from error
    return {str(k): v for k, v in content.items()} if isinstance(content, dict) else {}


def expand(overrides: Sequence[str], folder: Path) -> list[MatrixCell]:
    """The cells of the matrices that overrides name; without a matrix, one cell of the overrides.

    Args:
        overrides: The overrides of a command, in Hydra's grammar.
        folder: The study's folder, whose `conf/` wins over the packaged one.

    Raises:
        ConfigError: An override cannot be parsed, a matrix is invalid, or no cell is selected.
    """
    parsed = parse_overrides(overrides)
    named = [p for p in parsed if p.key_or_group == GROUP and p.is_add()]
    names = {name: matrix_file(name, folder) for name in _option_names(named)}
    if not any(names.values()):
        return [MatrixCell(tuple(overrides))]
    if len(named) > 1 or isinstance(named[0].value(), list):
        raise ConfigError(
            f"several matrices must be written as one choice: +{GROUP}={','.join(names)}"
        )
    rest = [(w, p) for w, p in zip(overrides, parsed, strict=True) if p is not named[0]]
    every = [c for name, path in names.items() if path for c in read_matrix(name, path, folder)]
    kept = [(w, p) for w, p in rest if not _selects_cells(p)]
    cells = with_overrides(
        select_cells(every, _requested_options(rest)),
        [w for w, _ in kept],
        [p.key_or_group for _, p in kept],
    )
    return [
        cell
        for name, path in names.items()
        for cell in (
            [c for c in cells if c.matrix == name] if path else [_package_cell(name, rest)]
        )
    ]


def as_one_cell(overrides: Sequence[str], folder: Path) -> list[str]:
    """The overrides of the single configuration from which a sweep starts.

    Raises:
        ConfigError: The overrides select several cells of a matrix.
    """
    cells = expand(overrides, folder)
    if len(cells) > 1:
        raise ConfigError(
            f"a sweep tunes one configuration, and {GROUP}={cells[0].matrix} has {len(cells)} "
            "cells left: choose one with algorithm=… environment=…",
        )
    return list(cells[0].overrides)


def _package_cell(name: str, rest: Iterable[tuple[str, Any]]) -> MatrixCell:
    """The cell of an option of `benchmark` that is not a matrix, but is named beside one."""
    return MatrixCell((f"+{GROUP}={name}", *(word for word, _ in rest)), ((GROUP, name),))


def _selects_cells(parsed: Any) -> bool:
    changed = not (parsed.is_add() or parsed.is_force_add() or parsed.is_delete())
    return changed and parsed.key_or_group in SELECTING


def _requested_options(rest: Iterable[tuple[str, Any]]) -> Mapping[str, list[str]]:
    """The options of `algorithm` and `environment` that the command names."""
    return {p.key_or_group: _option_texts(word, p) for word, p in rest if _selects_cells(p)}


def _option_names(named: Iterable[Any]) -> list[str]:
    """The options that overrides name, without repetitions."""
    texts = [text for parsed in named for text in _option_texts(parsed.input_line, parsed)]
    return list(dict.fromkeys(texts))


def _option_texts(word: str, parsed: Any) -> list[str]:
    if parsed.is_sweep_override():
        values = [f"{parsed.key_or_group}={text}" for text in choice_texts(word, parsed)]
        # Parsed once more, because the text of a choice still has its quotes.
        return [str(item.value()) for item in parse_overrides(values)]
    value = parsed.value()
    return [str(element) for element in value] if isinstance(value, list) else [str(value)]
