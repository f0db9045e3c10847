"""JSON Schema of a dataclass, as pydantic makes it, with what its docstrings say of its fields.

Dialect: https://json-schema.org/draft/2020-12/schema
"""

import re
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

DIALECT = "https://json-schema.org/draft/2020-12/schema"
ATTRIBUTES = re.compile(r"^Attributes:\n((?:[ ]+.*\n?|\n)+)", re.MULTILINE)
"""The section of a docstring that describes fields; its indentation is cleaned."""
ATTRIBUTE = re.compile(r"^    (\w+): +((?:.*\n?)(?:^     +.*\n?)*)", re.MULTILINE)
"""A field of that section, with lines that continue its description."""
NULL = {"type": "null"}


def json_schema(kind: type, name: str, version: int) -> dict[str, Any]:
    """The JSON Schema of what is written of a dataclass.

    Every field is required. Further fields are allowed, because a later release may add some.
    A floating-point number may be null, because JSON has neither infinity nor NaN.

    Args:
        kind: A dataclass, whose docstring describes its fields under `Attributes:`.
        name: The name that its document carries under `schema`.
        version: The version that its document carries under `schema`.
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
    """Describes dataclasses by their docstrings, and numbers as they are written."""

    def dataclass_schema(self, schema: Any) -> dict[str, Any]:
        """A dataclass: every field is there, and described."""
        described = super().dataclass_schema(schema)
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
        """A number, or null where JSON cannot hold it."""
        return {**super().float_schema(schema), "type": ["number", "null"]}

    def nullable_schema(self, schema: Any) -> dict[str, Any]:
        """What is null or else follows a schema; numbers are null already."""
        inner = self.generate_inner(schema["schema"])
        return inner if "null" in inner.get("type", ()) else {"anyOf": [inner, dict(NULL)]}
