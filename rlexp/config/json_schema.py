"""JSON Schema of a dataclass, made by pydantic, with descriptions from the docstring.

Dialect: https://json-schema.org/draft/2020-12/schema
"""

import re
from dataclasses import fields
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

DIALECT = "https://json-schema.org/draft/2020-12/schema"
ATTRIBUTES = re.compile(r"^Attributes:\n((?:[ ]+.*\n?|\n)+)", re.MULTILINE)
"""The section `Attributes:` of a docstring whose indentation is removed."""
ATTRIBUTE = re.compile(r"^    (\w+): +((?:.*\n?)(?:^     +.*\n?)*)", re.MULTILINE)
"""A field in the section `Attributes:`, with the continuation lines of its description."""
NULL = {"type": "null"}


def json_schema(kind: type, name: str, version: int) -> dict[str, Any]:
    """The JSON Schema of the document that is written from a dataclass.

    Every field is required. Further fields are allowed, because a later release may add some.
    A floating-point number may be null, because JSON has neither infinity nor NaN.

    Args:
        kind: A dataclass, whose docstring describes its fields under `Attributes:`.
        name: The name of the schema, which the document holds under `schema`.
        version: The version of the schema, which the document holds under `schema`.
    """
    described = TypeAdapter(kind).json_schema(
        mode="serialization", schema_generator=_DocumentedSchema, ref_template="#/$defs/{model}"
    )
    properties = {"schema": _schema_of(name, version), **described.pop("properties")}
    return {
        "$schema": DIALECT,
        **described,
        "title": name,
        "properties": properties,
        "required": list(properties),
    }


def summary(kind: type) -> str:
    """The first line of a class's docstring."""
    return (kind.__doc__ or "").strip().partition("\n")[0]


def attributes(kind: type) -> dict[str, str]:
    """The descriptions of the fields of a class, from its docstring and those of its bases."""
    from inspect import cleandoc

    descriptions: dict[str, str] = {}
    # A class stands before its bases in `__mro__`: in reverse, its own descriptions win.
    for base in reversed(kind.__mro__):
        section = ATTRIBUTES.search(cleandoc(base.__doc__ or "") + "\n")
        fields = ATTRIBUTE.findall(section[1]) if section else []
        descriptions |= {name: " ".join(text.split()) for name, text in fields}
    return descriptions


def _schema_of(name: str, version: int) -> dict[str, Any]:
    """The part of a document that names its schema."""
    properties = {
        "name": {"const": name, "type": "string"},
        "version": {"const": version, "type": "integer"},
    }
    return {
        "type": "object",
        "description": "The name and version of this schema.",
        "properties": properties,
        "required": list(properties),
    }


class _DocumentedSchema(GenerateJsonSchema):
    """A schema generator that takes descriptions from docstrings and allows null for floats."""

    def dataclass_schema(self, schema: Any) -> dict[str, Any]:
        """The schema of a dataclass: every field is required and described."""
        described = super().dataclass_schema(schema)
        # Documents leave out what comparisons leave out.
        hidden = [f.name for f in fields(schema["cls"]) if not f.compare]
        for name in hidden:
            del described["properties"][name]
        described["description"] = summary(schema["cls"])
        described["required"] = list(described.get("properties", {}))
        descriptions = attributes(schema["cls"])
        for name, content in described.get("properties", {}).items():
            content.pop("title", None)
            content.pop("default", None)
            if name in descriptions:
                content["description"] = descriptions[name]
        return described

    def float_schema(self, schema: Any) -> dict[str, Any]:
        """The schema of a float: a number, or null for infinity and NaN."""
        return {**super().float_schema(schema), "type": ["number", "null"]}

    def nullable_schema(self, schema: Any) -> dict[str, Any]:
        """The schema of an optional value."""
        # The schema of a float allows null already.
        inner = self.generate_inner(schema["schema"])
        return inner if "null" in inner.get("type", ()) else {"anyOf": [inner, dict(NULL)]}
