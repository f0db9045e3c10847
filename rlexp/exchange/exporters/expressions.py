"""Values as Python source: data by their representation, code only where it is ours."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from rlexp.errors import RecordError


@dataclass(frozen=True, slots=True)
class Expression:
    """Source that this package wrote, none that a record holds."""

    source: str


def expression(value: Any) -> str:  # noqa: PLR0911
    """Source of a value, in ASCII.

    Args:
        value: JSON values, tuples of them, or an `Expression`.

    Raises:
        RecordError: It is something else, or a number that is none.
    """
    match value:
        case Expression():
            return value.source
        case None | bool() | int():
            return repr(value)
        case float() if isfinite(value):
            return repr(float(value))
        case str():
            return ascii(str(value))
        case Mapping():
            pairs = (f"{str(k)!a}: {expression(v)}" for k, v in value.items())
            return f"{{{', '.join(pairs)}}}"
        case list():
            return f"[{', '.join(map(expression, value))}]"
        case tuple():
            return f"({', '.join(map(expression, value))}{',' if len(value) == 1 else ''})"
        case _:
            kind = type(value).__name__
            raise RecordError(f"a value of kind {kind} cannot be written into a script")


def lines_of(name: str, value: Any) -> list[str]:
    """An assignment, a list or mapping of which has an entry on each line."""
    match value:
        case list() if value:
            return [f"{name} = [", *(f"    {expression(v)}," for v in value), "]"]
        case Mapping() if value:
            pairs = (f"    {str(k)!a}: {expression(v)}," for k, v in value.items())
            return [f"{name} = {{", *pairs, "}"]
        case _:
            return [f"{name} = {expression(value)}"]
