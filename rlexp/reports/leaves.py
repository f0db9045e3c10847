"""The leaves of nested settings: every value that is set, under its path."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rlexp.protocol.identity import PLUG_IN, TARGET, full_name

LONGEST_VALUE = 60
"""Characters of a value that are told."""


def leaves(plain: Any, path: str) -> Iterator[tuple[str, str]]:
    """The leaves of nested settings that are set, with their paths, in order of the keys.

    The name of a plug-in stands under the path of its settings.
    """
    if isinstance(plain, Mapping):
        if PLUG_IN in plain:
            yield path, full_name(plain[PLUG_IN])
        for key in sorted(set(plain) - {TARGET, PLUG_IN}):
            yield from leaves(plain[key], f"{path}.{key}")
    elif plain is not None:
        yield path, said(plain)


def said(value: Any) -> str:
    """A value in a sentence: a text as it is, anything else as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"
