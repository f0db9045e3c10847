"""Differences between two structures of JSON values."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class LeafDifference:
    """A leaf that differs between two structures; a missing value is None."""

    path: str
    first: Any
    second: Any


def leaf_differences(
    first: Any,
    second: Any,
    *,
    ignored: frozenset[str] = frozenset(),
    path: str = "",
) -> list[LeafDifference]:
    """The leaves in which two structures differ; a list is a leaf where the lengths differ.

    Args:
        first: JSON values.
        second: JSON values.
        ignored: Keys whose values are not compared.
        path: Path of the structures within larger ones.
    """
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        pairs = [
            (f"{path}.{key}".lstrip("."), first.get(key), second.get(key))
            for key in dict.fromkeys((*first, *second))
            if key not in ignored
        ]
    elif _is_list(first) and _is_list(second) and len(first) == len(second):
        both = enumerate(zip(first, second, strict=True))
        pairs = [(f"{path}[{i}]", a, b) for i, (a, b) in both]
    else:
        return [] if _text(first) == _text(second) else [LeafDifference(path, first, second)]
    return [d for p, a, b in pairs for d in leaf_differences(a, b, ignored=ignored, path=p)]


def _text(value: Any) -> str:
    """The value as JSON: `1` and `1.0` differ, as they do in a run's identity."""
    return json.dumps(value, sort_keys=True)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)
