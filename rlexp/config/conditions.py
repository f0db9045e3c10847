"""What is left of a space once words have fixed keys: its parameters and their conditions."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rlexp.config.space import Written, holds, ordered
from rlexp.config.sweep_words import SweepWords, check_searchable
from rlexp.errors import ConfigError
from rlexp.protocol.space import SWITCH

Lookup = Callable[[str], Any]
"""From a key to its value in the default configuration; a ConfigError where there is none."""


@dataclass(frozen=True, slots=True)
class Remaining:
    """Parameters by key, and the keys that are settled: fixed by a word, or taken out."""

    entries: dict[str, Written]
    settled: frozenset[str]


def merge(
    definition: Mapping[str, Written | None], asked: SweepWords, groups: Collection[str]
) -> Remaining:
    """Put the words over the definition; a word with values only keeps the conditions.

    Raises:
        ConfigError: A parameter is the same for every trial, or is taken out and was never there.
    """
    fixed = [key for key in definition if _is_fixed(key, asked.fixed, groups)]
    entries = {key: None if key in fixed else entry for key, entry in definition.items()}
    for key, entry in asked.written.items():
        _check_taken_out(key, entry, definition)
        entries[key] = entry if entry is None else _over(definition.get(key), entry)
    settled = frozenset({*asked.fixed, *(k for k, v in entries.items() if v is None)})
    left = {k: v for k, v in entries.items() if v is not None}
    for key in left:
        check_searchable(key, f"sweep.space.{key}")
    return Remaining(left, settled)


def _check_taken_out(key: str, entry: Written | None, definition: Collection[str]) -> None:
    if entry is None and key not in definition:
        raise ConfigError.unknown(
            f"sweep.space.{key}=null takes out a parameter that the space does not have",
            key,
            definition,
            code="unknown_setting",
            key=f"sweep.space.{key}",
        )


def _over(before: Written | None, entry: Written) -> Written:
    return replace(entry, when=before.when) if before and entry.when is None else entry


def _is_fixed(key: str, fixed: Collection[str], groups: Collection[str]) -> bool:
    """Whether a word gives the key a value, or a mapping that holds it."""
    return any(
        key == word or (word not in groups and key.startswith(f"{word}.")) for word in fixed
    )


def settle(remaining: Remaining, lookup: Lookup) -> dict[str, Written]:
    """Decide conditions on what is not searched: they always hold, or never.

    A parameter that can never be there goes where a word has settled so; else that is a mistake.

    Raises:
        ConfigError: A parameter would never be there.
    """
    entries = dict(remaining.entries)
    gone: set[str] = set()
    for key in ordered({k: e.when or {} for k, e in entries.items()}):
        when = entries[key].when or {}
        if any(
            parent in gone or not _may_hold(key, parent, allowed, remaining, lookup)
            for parent, allowed in when.items()
        ):
            gone.add(key)
            continue
        open_ = {p: a for p, a in when.items() if p in entries or not _known(p, lookup)}
        entries[key] = Written(entries[key].values, open_)
    return {key: entry for key, entry in entries.items() if key not in gone}


def _may_hold(
    key: str, parent: str, allowed: tuple[Any, ...], remaining: Remaining, lookup: Lookup
) -> bool:
    if parent in remaining.entries:
        return True
    try:
        value = lookup(parent)
    except ConfigError as error:
        if parent in remaining.settled and parent.startswith(SWITCH):
            raise ConfigError(
                f"sweep.space.{key} depends on {parent}, which is taken out; "
                f"say {parent}=VALUE, or take {key} out too",
            ) from error
        return True
    if holds(value, allowed) or parent in remaining.settled:
        return holds(value, allowed)
    raise ConfigError(
        f"sweep.space.{key} would never be there: it depends on {parent}, which is not searched "
        f"and is {value}; search {parent} too, or correct the condition",
    )


def _known(key: str, lookup: Lookup) -> bool:
    try:
        lookup(key)
    except ConfigError:
        return False
    return True
