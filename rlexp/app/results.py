"""Results of use cases: frozen dataclasses that are written as JSON under a schema of their own."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from os import PathLike, fspath
from typing import Any, ClassVar, Protocol, cast


@dataclass(frozen=True, slots=True)
class Schema:
    """The name and version of a result's JSON.

    The version grows when a field is removed, renamed or means something else; a new field leaves
    it as it is.
    """

    name: str
    version: int = 1


class Result(Protocol):
    """What a use case returns: a frozen dataclass whose fields are documented."""

    schema: ClassVar[Schema]


@dataclass(frozen=True, slots=True, kw_only=True)
class NextCommand:
    """A command that makes sense after this one.

    Attributes:
        why: What it is for, as an infinitive without "to" (`write the report`).
        command: The command as it is typed in a shell.
    """

    why: str
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorDocument:
    """Why a command has no result.

    Attributes:
        code: The kind of error: a stable name.
        message: The error in words, as on standard error.
        key: The setting or argument that is wrong, if it is a single one.
        allowed: What is allowed instead, if that can be listed.
        command: The command to type next, if there is a single one.
    """

    schema: ClassVar[Schema] = Schema("error")

    code: str
    message: str
    key: str | None
    allowed: tuple[str, ...]
    command: str | None


def document(result: Result) -> dict[str, Any]:
    """The result as JSON values, with its schema first."""
    schema = {"name": result.schema.name, "version": result.schema.version}
    return {"schema": schema, **cast(dict[str, Any], to_json(result))}


def to_json(value: Any) -> Any:
    """A value as JSON values: dataclasses as objects, enumerations and paths as text.

    Numbers that JSON lacks (inf, nan) are null.
    """
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if is_dataclass(value):
        return {f.name: to_json(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(to_json(key)): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    return fspath(value) if isinstance(value, PathLike) else value
