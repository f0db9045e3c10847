"""`rlexp config schema`: the JSON Schemas of all documents that commands write."""

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from types import ModuleType
from typing import Any, ClassVar

from rlexp.app import commands, plans, results
from rlexp.app.results import Schema
from rlexp.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentSchema:
    """The schema of one kind of document.

    Attributes:
        name: The name in the field `schema` of a document.
        version: The version in the field `schema` of a document.
        description: The meaning of the document.
        json_schema: The JSON Schema (dialect 2020-12).
    """

    name: str
    version: int
    description: str
    json_schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentSchemas:
    """The schemas of documents that commands write with `--json`.

    Attributes:
        rows: The schemas, sorted by name.
    """

    schema: ClassVar[Schema] = Schema("json-schemas")

    rows: tuple[DocumentSchema, ...]


def list_schemas(of: str | None = None) -> DocumentSchemas:
    """The schemas of all documents, of one document, or of the documents of a command.

    Args:
        of: The name of a schema, or of a module of `rlexp.app.commands` (`run`); None lists all.

    Raises:
        ConfigError: There is no such schema and no such module.
    """
    from rlexp.config.json_schema import json_schema, summary

    kinds = {kind.schema.name: kind for kind in result_types()}
    chosen = [kinds[of]] if of in kinds else [*_of_module(of)] if of else [*kinds.values()]
    if not chosen:
        raise ConfigError.unknown(f"there is no schema {of!r}", str(of), list(kinds), key="schema")
    rows = (
        DocumentSchema(
            name=kind.schema.name,
            version=kind.schema.version,
            description=summary(kind),
            json_schema=json_schema(kind, kind.schema.name, kind.schema.version),
        )
        for kind in sorted(chosen, key=lambda kind: str(kind.schema.name))
    )
    return DocumentSchemas(rows=tuple(rows))


def result_types() -> list[Any]:
    """The result classes, sorted by the name of their schema.

    A result class is a dataclass with an attribute `schema` in a module of `rlexp.app.commands`, in
    `rlexp.app.plans` or in `rlexp.app.results`.
    """
    modules = [plans, results, *_modules()]
    kinds = {kind.schema.name: kind for module in modules for kind in _kinds(module)}
    return [kinds[name] for name in sorted(kinds)]


def _of_module(name: str) -> list[Any]:
    """The result classes of a module, and of modules that extend it (`compare_adaptive`)."""
    modules = (m for m in _modules() if f"{_last(m)}_".startswith(f"{name}_"))
    return list(dict.fromkeys(kind for module in modules for kind in _kinds(module)))


def _modules() -> Iterator[ModuleType]:
    # Modules are discovered, so that a new command needs no entry in a list.
    for module in pkgutil.walk_packages(commands.__path__, f"{commands.__name__}."):
        yield importlib.import_module(module.name)


def _last(module: ModuleType) -> str:
    return module.__name__.rpartition(".")[2]


def _kinds(module: ModuleType) -> Iterator[Any]:
    for kind in vars(module).values():
        documented = isinstance(kind, type) and is_dataclass(kind)
        if documented and isinstance(getattr(kind, "schema", None), Schema):
            yield kind
