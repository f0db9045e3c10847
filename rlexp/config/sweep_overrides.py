"""The words of a sweep, sorted: what Hydra reads, what is searched, and what is held fixed."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlexp.config.options import DEFINITIONS
from rlexp.config.sources import check_yaml, group_options, groups, search_path
from rlexp.config.space import Written, read_entries
from rlexp.config.words import (
    FIXED,
    OF_SWEEPS,
    check_word,
    parse_words,
    split_word,
    with_free_form,
)
from rlexp.errors import ConfigError
from rlexp.protocol.space import SWITCH

SPACE = "sweep.space."
NAME = re.compile("[A-Za-z0-9_.-]+")
"""What Hydra reads as one word."""
OF_THE_TASK = ("environment.id", "environment.name", "environment.imports")


@dataclass(frozen=True, slots=True)
class SweepWords:
    """What the words of a command ask of a sweep; of two about one key, the last counts.

    Attributes:
        plain: Those that Hydra reads.
        written: Parameters that they name, by key; nothing where one is taken out.
        fixed: What they set to one value, which is then not searched.
    """

    plain: list[str] = field(default_factory=list)
    written: dict[str, Written | None] = field(default_factory=dict)
    fixed: dict[str, Any] = field(default_factory=dict)

    def search(self, entries: Mapping[str, Written | None]) -> None:
        """Take note of parameters."""
        for key, entry in entries.items():
            self.fixed.pop(key, None)
            self.written[key] = entry

    def hold(self, key: str, value: Any) -> None:
        """Take note of one value."""
        self.written.pop(key, None)
        self.fixed[key] = value


def sort_words(words: Sequence[str], folder: Path) -> SweepWords:
    """Sort the words of a sweep.

    Raises:
        ConfigError: One cannot be read, or asks to search what is the same for every trial.
    """
    known = set(groups(folder))
    found = SweepWords()
    told = with_free_form(words)
    for word, parsed in zip(told, parse_words(told), strict=True):
        key = parsed.key_or_group
        if f"{key}.".startswith(SPACE):
            found.search(_of_space(word, parsed))
        elif parsed.is_sweep_override():
            check_word(word, parsed, known)
            check_searchable(key, word)
            found.search({key: Written(split_word(word)[1])})
        elif key.startswith(SWITCH):
            found.hold(key, parsed.value())
        else:
            _check_fixed(word, parsed, known)
            found.plain.append(word)
            found.hold(key, parsed.value())
    return found


def check_searchable(key: str, where: str) -> None:
    """Refuse to search what is the same for every trial.

    Args:
        key: Of the parameter.
        where: What the error begins with.

    Raises:
        ConfigError: It belongs to the sweep, or to the task.
    """
    first = key.split(".", maxsplit=1)[0]
    if first in (*FIXED, *OF_SWEEPS, "budget"):
        raise ConfigError(
            f"{where}: {key} is the same for every trial and takes one value; "
            "start one sweep for each",
        )
    if key in {"environment", *OF_THE_TASK} or key.startswith("environment.reference"):
        raise ConfigError(
            f"{where}: scores on different tasks cannot be compared, so {key} takes one value; "
            "start one sweep for each",
        )


def check_name(name: str, folder: Path) -> None:
    """Refuse the name of a definition that does not exist, or cannot be read.

    Raises:
        ConfigError: Says which there are, or what is wrong with its file.
    """
    known = group_options(DEFINITIONS, folder)
    if name in known:
        _check_file(name, folder)
        return
    raise ConfigError.unknown(
        f"there is no sweep {name!r}",
        name,
        known,
        code="unknown_option",
        key=DEFINITIONS,
        after=f"; write your own as {DEFINITIONS}/NAME.yaml",
        command=f"rlexp config list {DEFINITIONS}",
    )


def _check_file(name: str, folder: Path) -> None:
    if not NAME.fullmatch(name):
        raise ConfigError(
            f"{DEFINITIONS}/{name}.yaml: rename it, with nothing but the letters a to z, digits, "
            "_ . and - in its name",
        )
    places = (place / DEFINITIONS / f"{name}.yaml" for place in search_path(folder))
    check_yaml(next(path for path in places if path.is_file()))


def _of_space(word: str, parsed: Any) -> dict[str, Written | None]:
    key = parsed.key_or_group.removeprefix(SPACE)
    if f"{key}." == SPACE:
        if parsed.is_delete() or parsed.is_sweep_override() or parsed.value() in (None, {}, ""):
            raise ConfigError(f"{word}: take parameters out one by one: sweep.space.KEY=null")
        return read_entries(parsed.value())
    if parsed.is_delete():
        return {key: None}
    if parsed.is_sweep_override():
        return {key: Written(split_word(parsed.input_line)[1])}
    read = read_entries({key: parsed.value()})
    plain = isinstance(parsed.value(), str | list)
    return {k: Written(e.values) if e and plain else e for k, e in read.items()}


def _check_fixed(word: str, parsed: Any, known: Collection[str]) -> None:
    key = parsed.key_or_group
    if key == "phase":
        raise ConfigError(f"{word}: a sweep goes through every phase; leave phase out")
    if key == DEFINITIONS:
        raise ConfigError(f"{word}: the definition stands first: rlexp sweep {parsed.value()} …")
    check_word(word, parsed, known)
