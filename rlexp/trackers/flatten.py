"""A configuration as services take it: one level, dotted keys."""

from collections.abc import Iterator, Mapping
from typing import Any


def flattened(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Values by dotted key (`algorithm.learning_rate`); positions in lists are keys, too."""
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
