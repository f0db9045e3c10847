"""Errors about keys that a configuration does not have, with the words that are meant."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from rlexp.config.config_files import group_options
from rlexp.config.first_words import meant_key
from rlexp.config.option_lookup import read_option
from rlexp.errors import ConfigError, names_near
from rlexp.text import join_names

OF_NAMED_PARTS = ("callback", "tracker")
"""Groups of which several options can be chosen; each option is a part with its own name."""
COMPONENTS = "environment.components."
"""The place of components and of the teacher in a configuration."""


def unknown_key(
    key: str, config: Any, value: str | None = None, folder: Path | None = None
) -> ConfigError:
    """An error that names the unknown part of a dotted key and the keys that exist beside it.

    Args:
        key: The unknown key.
        config: The configuration that does not have the key.
        value: The value in Hydra's grammar; with it, the error gives the whole word to type.
        folder: The study's folder; with it, the error names options that have the key.
    """
    if folder is not None and value is not None:
        advice = _advice_of_options(key, config, value, folder)
        if advice:
            return ConfigError(f"unknown key {key!r}{advice}", code="unknown_setting", key=key)
        key = _full_key(key, config)
    node, path = config, ""
    for part in key.split("."):
        allowed = [str(k) for k in node] if hasattr(node, "keys") else []
        if part not in allowed:
            if not allowed and path in OF_NAMED_PARTS:
                text = f"{path} has no {part!r}: choose it in the same command, {path}={part}"
            elif not allowed:
                text = f"{path} has no key {part!r}; write +{key}=… to add it"
            else:
                # `_target_` names a class, which nobody sets by hand.
                named = (
                    names_near(part, [name for name in allowed if name != "_target_"]) or "none"
                )
                where = f"{path} has" if path else "there are"
                hint = _hint(key, part, path, config, allowed, value)
                text = f"unknown key {key!r}{hint} ({where}: {named})"
            return ConfigError(text, code="unknown_setting", key=key, allowed=allowed)
        node, path = node[part], f"{path}.{part}".lstrip(".")
    return ConfigError(f"cannot set {key!r} to this value", code="wrong_type", key=key)


def _advice_of_options(key: str, config: Any, value: str, folder: Path) -> str:
    """The words for a key of a component, or of an option that is not chosen; empty for other keys."""
    for group, inner, full in _places(key):
        word = shlex.quote(f"{full}={value}")
        if has_key(config, full):
            return f"; type {word}"
        having = [
            f"{group}={option}"
            for option in group_options(group, folder)
            if has_key(read_option(group, option, folder), inner)
        ]
        if len(having) == 1:
            return f": {having[0]} has it; type {having[0]} {word}"
        if having:
            return f": {join_names(having)} have it; choose one of them in the same command"
    group = key.partition(".")[0]
    if group in {"component", "teacher"} and _full_key(key, config) == key:
        return f": no option of {group} has it; to see the options: rlexp config list {group}"
    return ""


def _full_key(key: str, config: Any) -> str:
    """The full key of a setting of a component or of a teacher that is chosen; else the key itself."""
    chosen = (full for *_, full in _places(key) if has_key(config, full.rpartition(".")[0]))
    return next(chosen, key)


def _places(key: str) -> Iterator[tuple[str, str, str]]:
    """Where files of options may have a key: the group, the key in the file, and the key in full."""
    first, _, rest = key.partition(".")
    inner = key.removeprefix(COMPONENTS)
    if first in {"dataset", "replay"}:
        yield first, rest, key
    elif first == "component":
        yield first, rest, f"{COMPONENTS}{rest}"
    elif first == "teacher":
        yield first, key, f"{COMPONENTS}{key}"
    elif "." in inner and inner != key:
        yield "component", inner, key
        yield "teacher", inner, key


def _hint(
    unknown: str, part: str, path: str, config: Any, allowed: Sequence[str], value: str | None
) -> str:
    """The words to type instead of a key with an unknown part; empty if no key is near."""
    # The parts after the unknown one may be right: `seed.test` means `seeds.test`.
    after = unknown.removeprefix(f"{path}.{part}".lstrip("."))
    meant = meant_key(part)
    nested = nested_keys(config, part)
    if meant is not None and has_key(config, meant):
        key, certain = meant, True
    elif nested:
        key, certain = nested[0], True
    else:
        close = get_close_matches(part, allowed, n=1)
        key, certain = f"{path}.{close[0]}".lstrip(".") if close else "", False
    if not key:
        return ""
    if has_key(config, f"{key}{after}"):
        key = f"{key}{after}"
    elif certain and after:
        # `teacher.other=1` is no value for the whole teacher.
        key, certain, value = f"{key}{after}", False, None
    if certain and value is not None:
        return f"; type {shlex.quote(f'{key}={value}')}"
    word = key if value is None else f"{key}={value}"
    return f"; did you mean '{word}'?"


def has_key(config: Any, key: str) -> bool:
    """Whether a configuration has a dotted key."""
    node = config
    for part in key.split("."):
        if not hasattr(node, "keys") or part not in node:
            return False
        node = node[part]
    return True


def nested_keys(config: Any, name: str) -> list[str]:
    """Dotted keys of a configuration whose last part is `name`, the shortest first."""
    from omegaconf import DictConfig

    # Values are not resolved, because a value that must be given (`???`) raises an error.
    entries: Iterable[tuple[Any, Any]] = ()
    if isinstance(config, DictConfig):
        entries = config.items_ex(resolve=False)
    elif hasattr(config, "items"):
        entries = config.items()
    keys = []
    for key, value in entries:
        keys += [str(key)] * (key == name)
        keys += [f"{key}.{nested}" for nested in nested_keys(value, name)]
    return sorted(keys, key=lambda key: key.count("."))
