"""`rlexp config schema`: the JSON Schema of every document that commands write."""

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
        name: The name that documents carry under `schema`.
        version: The version that they carry.
        description: What such a document is.
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
        rows: One for each kind of document, by name.
    """

    schema: ClassVar[Schema] = Schema("json-schemas")

    rows: tuple[DocumentSchema, ...]


def list_schemas(of: str | None = None) -> DocumentSchemas:
    """The schemas of all documents, of one of them, or of those that a command writes.

    Args:
        of: The name of a schema, or of a module of `rlexp.app.commands` (`run`).

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
    """Every class of results, by the name of its schema.

    These are the dataclasses with a `schema` in modules of `rlexp.app.commands`, and those in
    `rlexp.app.plans` and `rlexp.app.results`.
    """
    modules = [plans, results, *_modules()]
    kinds = {kind.schema.name: kind for module in modules for kind in _kinds(module)}
    return [kinds[name] for name in sorted(kinds)]


def _of_module(name: str) -> list[Any]:
    """The results in a module, and in those whose names begin with its name (`compare_…`)."""
    modules = (m for m in _modules() if f"{_last(m)}_".startswith(f"{name}_"))
    return list(dict.fromkeys(kind for module in modules for kind in _kinds(module)))


def _modules() -> Iterator[ModuleType]:
    for module in pkgutil.iter_modules(commands.__path__):
        yield importlib.import_module(f"{commands.__name__}.{module.name}")


def _last(module: ModuleType) -> str:
    return module.__name__.rpartition(".")[2]


def _kinds(module: ModuleType) -> Iterator[Any]:
    for kind in vars(module).values():
        documented = isinstance(kind, type) and is_dataclass(kind)
        if documented and isinstance(getattr(kind, "schema", None), Schema):
            yield kind
