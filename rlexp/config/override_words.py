"""Settings as Python values, and the override words in Hydra's grammar that mean the same.

A list is one value, and a tuple is several values: the choices of a grid or of a search space.
"""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from enum import Enum
from inspect import signature
from math import isfinite
from typing import Any

from rlexp.config.first_words import SAMPLED, meant_key
from rlexp.config.overrides import format_override, is_bare
from rlexp.config.sweep_overrides import SPACE
from rlexp.errors import ConfigError

KEY = re.compile(r"\+{0,2}[A-Za-z_][\w./@-]*", re.ASCII)
"""A key of a setting, such as `algorithm.gamma`."""
SEARCHED = re.compile(
    r"(choice|range|interval|tag|int|float|bool|str|sort|shuffle|glob)\s*\(.*\)", re.DOTALL
)
"""A text that is a domain of a search space."""
UNNAMED = ("benchmark",)
"""Groups without a default option, whose override needs a `+`."""
RENAMED = {"folder": "workspace"}
"""Keywords of earlier versions, and their present names."""
MISSING = "???"
"""The text that stands for a missing value in a configuration."""
ALLOWED = (
    "text, a number, True, False, None, a path, a list or a mapping of these; "
    "a tuple is for several values"
)

Setting = str | Mapping[str, Any]
"""A word as on the command line, or values by key."""


def override_words(settings: Iterable[Setting], *, searching: bool = False) -> tuple[str, ...]:
    """The words that mean the same as these settings, in their order.

    A word stays as it is. In a mapping, a key has dots (`"budget.steps"`), or is a section whose
    value is a mapping of the keys inside (`"budget": {"steps": 1000}`).

    Args:
        settings: Words and mappings.
        searching: Whether a text such as `"interval(0, 1)"` is a range to search.

    Raises:
        ConfigError: A key or a value cannot stand in a configuration.
    """
    words: list[str] = []
    for setting in settings:
        if isinstance(setting, str):
            words.append(setting)
        elif isinstance(setting, Mapping):
            words += (_word(key, value, searching) for key, value in _dotted(setting))
        else:
            raise ConfigError(
                f"a setting of the type {type(setting).__name__} is not allowed: write a string "
                "as on the command line, 'budget.steps=20000', or a mapping, "
                "{'budget.steps': 20_000}"
            )
    return tuple(words)


def check_keywords(function: Callable[..., Any], keywords: Mapping[str, Any]) -> None:
    """Refuse keywords that are meant for a function itself, but are misspelt.

    Raises:
        ConfigError: A keyword is no key of a configuration and is near to one of the function.
    """
    parameters = signature(function).parameters.values()
    options = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    for name in keywords:
        near = RENAMED.get(name) or next(iter(get_close_matches(name, options, 1, 0.75)), None)
        if near is not None and meant_key(name) is None:
            raise ConfigError(
                f"{function.__name__}() has no keyword {name!r}; did you mean {near!r}?",
                code="unknown_setting",
                key=name,
                allowed=options,
            )


def _dotted(settings: Mapping[str, Any], section: str = "") -> Iterator[tuple[str, Any]]:
    """The values by dotted key; a mapping below a section is a value, except a search space."""
    for name, value in settings.items():
        if not isinstance(name, str) or not KEY.fullmatch(name):
            raise ConfigError(
                f"{name!r} is no key of a configuration: write a name such as 'algorithm.gamma'; "
                "words with other signs are strings: '~component'"
            )
        key = f"{section}{name}"
        is_section = "." not in key or f"{key}." == SPACE
        if is_section and isinstance(value, Mapping) and value:
            yield from _dotted(value, f"{key}.")
        else:
            yield key, value


def _word(key: str, value: Any, searching: bool) -> str:
    signed = f"+{key}" if key in UNNAMED else key
    values = value if isinstance(value, tuple) else (value,)
    if not values:
        raise ConfigError(f"{key}: an empty tuple has no value; for an empty list, write []")
    if (
        searching
        and isinstance(value, str)
        and (SEARCHED.fullmatch(value) or SAMPLED.match(value))
    ):
        return f"{key}={value}"
    words = [_single_word(signed, _plain(key, single)) for single in values]
    # All words begin with the same key, so that of the others only the values are taken.
    return ",".join([words[0], *(word[words[0].index("=") + 1 :] for word in words[1:])])


def _single_word(key: str, value: Any) -> str:
    if isinstance(value, str) and is_bare(value):
        return f"{key}={value}"
    return format_override(key, value)


def _plain(key: str, value: Any) -> Any:  # noqa: PLR0911
    """A value made of JSON values, in which `${` is text.

    Raises:
        ConfigError: The value, or one inside it, is of another type or not finite.
    """
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic):
        return _plain(key, value.item())
    match value:
        case Enum():
            return _plain(key, value.value)
        case None | bool() | int():
            return value
        case float():
            return _finite(key, value)
        case str() | os.PathLike():
            return _text(key, os.fspath(value))
        case list():
            return [_plain(key, item) for item in value]
        case Mapping():
            return {_inner_key(key, name): _plain(key, item) for name, item in value.items()}
    raise ConfigError(_refusal(key, value), code="wrong_type", key=key)


def _inner_key(key: str, name: Any) -> str:
    # The number 1 and the text "1" would become the same key.
    if isinstance(name, str):
        return name
    raise ConfigError(f"{key}: the key {name!r} in a mapping must be text", key=key)


def _finite(key: str, value: float) -> float:
    if isfinite(value):
        return float(value)
    raise ConfigError(
        f"{key}: {value} cannot stand in a configuration: write a finite number, or None",
        code="wrong_type",
        key=key,
    )


def _text(key: str, text: Any) -> str:
    """A text, in which OmegaConf will see no reference to another key."""
    if not isinstance(text, str) or text == MISSING:
        raise ConfigError(_refusal(key, text), code="wrong_type", key=key)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        reason = f"{key}: {text!a} is no text: it holds half of a surrogate pair"
        raise ConfigError(reason, code="wrong_type", key=key) from error
    # Backslashes before the sign are doubled, because the last one would escape it.
    return re.sub(r"(\\*)\$\{", r"\1\1\\${", str(text))


def _refusal(key: str, value: Any) -> str:
    if isinstance(value, tuple):
        return f"{key}: a tuple cannot stand inside another value: write a list, as in [64, 64]"
    if isinstance(value, str):
        return f"{key}: {value!r} stands for a missing value: write another text"
    kind = type(value).__name__
    instead = "value.tolist()" if kind == "ndarray" else ALLOWED
    return f"{key}: a value of the type {kind} is not allowed: write {instead}"
