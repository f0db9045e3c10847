"""Results of use cases: frozen dataclasses, each with a JSON document of a versioned schema."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from importlib import import_module
from os import PathLike, fspath
from typing import Any, ClassVar, Protocol, cast


@dataclass(frozen=True, slots=True)
class Schema:
    """The name and version of the JSON document of a result.

    The version increases when a field is removed, renamed or changes its meaning; it stays when a
    field is added.
    """

    name: str
    version: int = 1


class Result(Protocol):
    """The result of a use case: a frozen dataclass whose docstring describes its fields."""

    schema: ClassVar[Schema]


RENDERER = "rlexp.notebook.results"
"""The module that renders results as HTML. Like a plug-in it is named, because it belongs to an
interface: an import of it would point upwards."""


class Displayed:
    """A result that a notebook displays as what the command of the same name prints."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """The result as HTML; notebooks call this method."""
        html: str = import_module(RENDERER).result_html(self)
        return html


@dataclass(frozen=True, slots=True, kw_only=True)
class NextCommand:
    """A suggested next command.

    Attributes:
        why: Its purpose, as an infinitive without "to" (`write the report`).
        command: The command as typed in a shell.
    """

    why: str
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorDocument:
    """The error of a command that has no result.

    Attributes:
        code: The kind of error: a stable name.
        message: The error message, as on standard error.
        key: The wrong setting or argument; null if there is no single one.
        allowed: The allowed values, if they can be listed.
        command: The command to type next; null if there is no single one.
    """

    schema: ClassVar[Schema] = Schema("error")

    code: str
    message: str
    key: str | None
    allowed: tuple[str, ...]
    command: str | None


def document(result: Result) -> dict[str, Any]:
    """The JSON document of a result: its schema, then its fields."""
    schema = {"name": result.schema.name, "version": result.schema.version}
    return {"schema": schema, **cast(dict[str, Any], to_json(result))}


AS_THEY_ARE = frozenset({str, int, bool, type(None)})
"""Types whose values are JSON values; their subclasses may be something else."""


@cache
def _shown_fields(kind: type) -> tuple[str, ...] | None:
    """The fields of a dataclass that its object in JSON has; None for any other type."""
    return tuple(f.name for f in fields(kind) if f.compare) if is_dataclass(kind) else None


def to_json(value: object) -> Any:  # noqa: PLR0911 (one for each kind of value)
    """Convert a value to JSON values: dataclasses to objects, enumerations and paths to strings.

    A field of a dataclass that comparisons leave out is for use in Python, and is left out.
    Infinity and NaN, which JSON lacks, become null.
    """
    kind: Any = type(value)
    # There may be ten thousand rows of twenty values, most of which stay as they are.
    if kind in AS_THEY_ARE:
        return value
    # Enumerations come first: a StrEnum is a str too, and an IntEnum an int.
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if (names := _shown_fields(kind)) is not None:
        return {name: to_json(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {str(to_json(key)): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    return fspath(value) if isinstance(value, PathLike) else value
