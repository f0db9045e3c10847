"""Values in files of rl-baselines3-zoo, each taken for what it is meant to be, or refused."""

import re
from collections.abc import Mapping
from math import isfinite
from typing import Any

from rlexp.exchange.importers.literals import Named, read_literal

NUMBER = re.compile(r"[+-]?(\d[\d_]*\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
PYTHON = frozenset({"python", "value"})
"""The keys of what stands for an object that a tag of Python asks for."""


class Untranslatable(ValueError):  # noqa: N818
    """A value means something that a configuration cannot say; says what."""


def plain(value: Any) -> Any:
    """A value of the algorithm: a number, `auto` and the like, or a list or mapping of such."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, Mapping) and set(value) != PYTHON:
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, str):
        if NUMBER.fullmatch(value):
            return number(value)
        if re.fullmatch(r"[A-Za-z]\w*(\.\d+)?", value, re.ASCII):
            return value
        if value.startswith(("dict(", "{", "[", "(")):
            return plain(read_literal(value))
    raise Untranslatable(f"{said(value)} is no plain value")


def mapping(value: Any) -> dict[str, Any]:
    """A mapping, or a text that is one in Python."""
    found = read_literal(value) if isinstance(value, str) else value
    if not isinstance(found, Mapping) or set(found) == PYTHON:
        raise Untranslatable(f"{said(value)} is no mapping")
    return dict(found)


def layers(value: Any) -> list[int]:
    """Units of layers."""
    if not isinstance(value, list):
        raise Untranslatable(f"{said(value)} is no list of layers")
    return [whole(units) for units in value]


def number(value: Any) -> float:
    """A finite number, or a text that is one."""
    text = isinstance(value, str) and NUMBER.fullmatch(value)
    if not (text or isinstance(value, int | float)) or isinstance(value, bool):
        raise Untranslatable(f"{said(value)} is no number")
    found = float(value)
    if not isfinite(found):
        raise Untranslatable(f"{said(value)} is no finite number")
    return found


def whole(value: Any) -> int:
    """A whole number, which may be written with an exponent."""
    found = number(value)
    if not found.is_integer():
        raise Untranslatable(f"{said(value)} is no whole number")
    return int(found)


def said(value: Any) -> str:
    """A value as errors show it."""
    if isinstance(value, Named):
        return value.name
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
