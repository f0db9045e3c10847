"""The leaves of nested settings: every value that is set, under its path."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

LONGEST_VALUE = 60
"""Characters of a value that are told."""


def leaves(plain: Any, path: str) -> Iterator[tuple[str, str]]:
    """The leaves of nested settings that are set, with their paths, in order of the keys."""
    if isinstance(plain, Mapping):
        for key in sorted(plain):
            yield from leaves(plain[key], f"{path}.{key}")
    elif plain is not None:
        yield path, said(plain)


def said(value: Any) -> str:
    """A value in a sentence: a text as it is, anything else as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"
