"""`rlexp config schema`: shows the JSON documents of commands and their fields."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlexp.cli.options import Json, console_for, render_result

if TYPE_CHECKING:
    from rlexp.app.commands.setup.schemas import DocumentSchemas
    from rlexp.console import Console

DEEPEST = 8
"""Most levels of nested fields that are listed; a JSON Schema may refer to itself."""


@dataclass(frozen=True, slots=True)
class FieldRow:
    """A field of a document.

    Attributes:
        field: Its path: `summary.cells[].iqm.low`; `[]` is an item, `{}` a value.
        type: Its type (`number or null`).
        description: Its meaning.
    """

    field: str
    type: str
    description: str


def config_schema(
    context: typer.Context,
    command: Annotated[
        list[str] | None,
        typer.Argument(help="A command (run, config list), or the name of a schema."),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the JSON documents of commands, or the fields of one.

    With --json, print the JSON Schemas.
    """
    from rlexp.app.commands.setup.schemas import list_schemas

    of = _module_of(context.find_root().command, command) if command else None
    schemas = list_schemas(of)
    render = show_fields if command else show_schemas
    render_result(schemas, console_for(as_json=as_json), render)


def _module_of(root: Any, names: list[str]) -> str:
    """The last part of the module of a command; the joined names where there is no such command."""
    command = root
    for word in names:
        # Only groups have `commands`; after an unknown word the lookup continues on None.
        command = getattr(command, "commands", {}).get(word)
    callback = getattr(command, "callback", None)
    return " ".join(names) if callback is None else str(callback.__module__).rpartition(".")[2]


def show_schemas(schemas: "DocumentSchemas", console: "Console") -> None:
    """Show the schemas as a table."""
    rows = [
        {"schema": row.name, "version": row.version, "description": row.description}
        for row in schemas.rows
    ]
    console.table(rows, ["schema", "version", "description"])
    console.line(
        "To see the fields of a document, or with --json its JSON Schema: rlexp config schema NAME"
    )


def show_fields(schemas: "DocumentSchemas", console: "Console") -> None:
    """Show a table of fields for each schema."""
    for position, schema in enumerate(schemas.rows):
        if position:
            console.line()
        console.line(f"{schema.name}, version {schema.version}: {schema.description}")
        rows = [
            {"field": row.field, "type": row.type, "description": row.description}
            for row in field_rows(schema.json_schema)
        ]
        console.table(rows, ["field", "type", "description"])


def field_rows(schema: Mapping[str, Any]) -> Iterator[FieldRow]:
    """The fields of a document; nested fields follow the field that holds them."""
    yield from _rows(schema, "", schema.get("$defs", {}), 0)


def _rows(
    schema: Mapping[str, Any], path: str, definitions: Mapping[str, Any], depth: int
) -> Iterator[FieldRow]:
    if depth > DEEPEST:
        return
    for name, content in schema.get("properties", {}).items():
        field = f"{path}.{name}" if path else name
        description = str(content.get("description", ""))
        yield FieldRow(field, type_in_words(content, definitions), description)
        for inner_path, inner in _inside(content, field, definitions):
            yield from _rows(inner, inner_path, definitions, depth + 1)


def _inside(
    content: Mapping[str, Any], path: str, definitions: Mapping[str, Any]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The schemas of the objects inside a value, each with its path."""
    resolved = _resolved(content, definitions)
    for choice in resolved.get("anyOf", ()):
        yield from _inside(choice, path, definitions)
    if isinstance(items := resolved.get("items"), Mapping):
        yield from _inside(items, f"{path}[]", definitions)
    if isinstance(values := resolved.get("additionalProperties"), Mapping):
        yield from _inside(values, f"{path}.{{}}", definitions)
    if "properties" in resolved:
        yield path, resolved


def type_in_words(content: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """A type as text (`array of object`, `number or null`)."""
    resolved = _resolved(content, definitions)
    if "const" in resolved:
        return json.dumps(resolved["const"])
    if "enum" in resolved:
        return " or ".join(map(json.dumps, resolved["enum"]))
    if "anyOf" in resolved:
        types = (type_in_words(choice, definitions) for choice in resolved["anyOf"])
        return " or ".join(dict.fromkeys(types))
    kind = resolved.get("type", "any")
    if kind == "array" and isinstance(resolved.get("items"), Mapping):
        return f"array of {type_in_words(resolved['items'], definitions)}"
    if kind == "object" and isinstance(resolved.get("additionalProperties"), Mapping):
        return f"object of {type_in_words(resolved['additionalProperties'], definitions)}"
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _resolved(content: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema that a `$ref` names, or the content itself."""
    reference = content.get("$ref")
    return definitions[str(reference).rpartition("/")[2]] if reference else content
