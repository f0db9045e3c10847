"""The overrides of a sweep: sorted into those for Hydra, searched parameters and fixed values."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlexp.config.config_files import DEFINITIONS, check_yaml, group_options, groups, search_path
from rlexp.config.overrides import (
    EXPERIMENT_KEYS,
    SWEEP_GROUPS,
    check_override,
    normalise_overrides,
    parse_overrides,
    split_override,
)
from rlexp.config.parameter_entries import ParameterEntry, read_entries
from rlexp.errors import ConfigError
from rlexp.protocol.space import SWITCH

SPACE = "sweep.space."
DEFINITION_NAME = re.compile("[A-Za-z0-9_.-]+")
"""The name of a sweep definition that Hydra's grammar can express without quotes."""
TASK_KEYS = ("environment.id", "environment.name", "environment.imports")


@dataclass(frozen=True, slots=True)
class SweepOverrides:
    """The sorted overrides of a sweep; the last override of a key wins.

    Attributes:
        for_hydra: Overrides that Hydra composes.
        written: Searched parameters by key; None for a removed parameter.
        fixed: Keys with one value, which are not searched.
    """

    for_hydra: list[str] = field(default_factory=list)
    written: dict[str, ParameterEntry | None] = field(default_factory=dict)
    fixed: dict[str, Any] = field(default_factory=dict)

    def search(self, entries: Mapping[str, ParameterEntry | None]) -> None:
        """Add searched parameters."""
        for key, entry in entries.items():
            self.fixed.pop(key, None)
            self.written[key] = entry

    def hold(self, key: str, value: Any) -> None:
        """Add a key with one value."""
        self.written.pop(key, None)
        self.fixed[key] = value


def sort_overrides(overrides: Sequence[str], folder: Path) -> SweepOverrides:
    """Sort the overrides of a sweep.

    Raises:
        ConfigError: An override cannot be parsed, or searches a key that must not vary.
    """
    group_names = set(groups(folder))
    result = SweepOverrides()
    texts = normalise_overrides(overrides)
    for word, parsed in zip(texts, parse_overrides(texts), strict=True):
        key = parsed.key_or_group
        # With a dot at its end, `sweep.space` itself matches, and `sweep.spaces` does not.
        if f"{key}.".startswith(SPACE):
            result.search(_space_entries(word, parsed))
        elif parsed.is_sweep_override():
            check_override(word, parsed, group_names)
            check_searchable(key, word)
            result.search({key: ParameterEntry(split_override(word)[1])})
        # Hydra must not get a switch, which is not a key of a configuration.
        elif key.startswith(SWITCH):
            result.hold(key, parsed.value())
        else:
            _check_fixed(word, parsed, group_names)
            result.for_hydra.append(word)
            result.hold(key, parsed.value())
    return result


def check_searchable(key: str, where: str) -> None:
    """Refuse to search a key that must be the same for every trial.

    Args:
        key: The key of the parameter.
        where: The first words of the error.

    Raises:
        ConfigError: The key belongs to the sweep or to the task.
    """
    first = key.split(".", maxsplit=1)[0]
    if first in (*EXPERIMENT_KEYS, *SWEEP_GROUPS, "budget"):
        raise ConfigError(
            f"{where}: {key} must be the same for every trial: write one value; "
            "for several values, start one sweep for each",
        )
    about_scores = key.startswith(("environment.reference", "environment.measures"))
    if key in {"environment", *TASK_KEYS} or about_scores:
        raise ConfigError(
            f"{where}: {key} takes one value; for one configuration for several tasks, write "
            "environment=FIRST,SECOND on the command line, and for a configuration for each, start one "
            "sweep for each",
        )


def check_name(name: str, folder: Path) -> None:
    """Refuse the name of a sweep definition that does not exist or cannot be read.

    Raises:
        ConfigError: Names the existing definitions, or the mistake in the file.
    """
    existing = group_options(DEFINITIONS, folder)
    if name in existing:
        _check_file(name, folder)
        return
    raise ConfigError.unknown(
        f"there is no sweep {name!r}",
        name,
        existing,
        code="unknown_option",
        key=DEFINITIONS,
        after=f"; write your own as {DEFINITIONS}/NAME.yaml",
        command=f"rlexp config list {DEFINITIONS}",
    )


def _check_file(name: str, folder: Path) -> None:
    if not DEFINITION_NAME.fullmatch(name):
        raise ConfigError(
            f"{DEFINITIONS}/{name}.yaml: rename the file: its name may only have the letters "
            "a to z and A to Z, digits, _ . and -",
        )
    paths = (root / DEFINITIONS / f"{name}.yaml" for root in search_path(folder))
    check_yaml(next(path for path in paths if path.is_file()))


def _space_entries(word: str, parsed: Any) -> dict[str, ParameterEntry | None]:
    key = parsed.key_or_group.removeprefix(SPACE)
    if f"{key}." == SPACE:
        if parsed.is_delete() or parsed.is_sweep_override() or parsed.value() in (None, {}, ""):
            raise ConfigError(
                f"{word}: parameters must be removed one by one: write sweep.space.KEY=null"
            )
        return read_entries(parsed.value())
    if parsed.is_delete():
        return {key: None}
    if parsed.is_sweep_override():
        return {key: ParameterEntry(split_override(parsed.input_line)[1])}
    read = read_entries({key: parsed.value()})
    only_values = isinstance(parsed.value(), str | list)
    return {k: ParameterEntry(e.values) if e and only_values else e for k, e in read.items()}


def _check_fixed(word: str, parsed: Any, group_names: Collection[str]) -> None:
    key = parsed.key_or_group
    if key == "phase":
        raise ConfigError(f"{word}: a sweep runs all phases; remove phase from the command")
    if key == DEFINITIONS:
        raise ConfigError(
            f"{word}: the definition is the first argument: write rlexp sweep {parsed.value()} …"
        )
    check_override(word, parsed, group_names)
