"""Plain data as YAML that no text of which can leave its quotes; also the head of a model card."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from rlexp.errors import RecordError

_KEY = re.compile(r"[A-Za-z]+(?:[_-][A-Za-z]+)*")
_OTHER_THAN_TEXT = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
"""Words that some reader of YAML takes for something else than text."""


def front_matter(plain: Mapping[str, Any]) -> str:
    """A mapping with short keys as YAML between two lines of dashes, as model cards begin."""
    return "\n".join(["---", *_mapping(plain, ""), "---", ""])


def quoted(text: str) -> str:
    """A text as a double-quoted scalar of YAML, in printable ASCII."""
    return f'"{"".join(map(_character, text))}"'


def _character(character: str) -> str:
    code = ord(character)
    if character in '"\\':
        return f"\\{character}"
    if 0x20 <= code < 0x7F:
        return character
    if 0xD800 <= code < 0xE000:
        return "\\uFFFD"
    return f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"


def _mapping(plain: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, value in plain.items():
        plain_key = _KEY.fullmatch(key) and key.lower() not in _OTHER_THAN_TEXT
        yield from _entry(f"{indent}{key if plain_key else quoted(key)}:", value, indent)


def _entry(begin: str, value: Any, indent: str) -> Iterator[str]:
    match value:
        case Mapping() if value:
            yield begin
            yield from _mapping(value, f"{indent}  ")
        case list() | tuple() if value:
            yield begin
            for item in value:
                yield from _item(item, indent)
        case _:
            yield f"{begin} {_scalar(value)}"


def _item(item: Any, indent: str) -> Iterator[str]:
    if isinstance(item, Mapping) and item:
        first, *others = _mapping(item, f"{indent}  ")
        yield f"{indent}- {first.lstrip()}"
        yield from others
    else:
        yield f"{indent}- {_scalar(item)}"


def _scalar(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            # Without a point, some readers take a number with an exponent for text.
            text = json.dumps(value, allow_nan=False)
            return text if "." in text else text.replace("e", ".0e")
        case str():
            return quoted(value)
        case Mapping():
            return f"{{{', '.join(f'{quoted(k)}: {_scalar(v)}' for k, v in value.items())}}}"
        case list() | tuple():
            return f"[{', '.join(map(_scalar, value))}]"
        case _:
            kind = type(value).__name__
            raise RecordError(f"a value of kind {kind} has no place in a model card")
