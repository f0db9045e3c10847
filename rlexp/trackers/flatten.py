"""Flattening of nested configurations into one level of dotted keys, as services expect."""

from collections.abc import Iterator, Mapping
from typing import Any


def flattened(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Values by dotted key (`algorithm.learning_rate`); list positions become keys too."""
    return dict(_leaves("", configuration))


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _leaves(f"{path}.{key}" if path else str(key), item)
    elif isinstance(value, list | tuple) and value:
        for position, item in enumerate(value):
            yield from _leaves(f"{path}.{position}", item)
    else:
        yield path, value
