"""The arguments of a tool: their JSON Schema and their validation, from one dataclass."""

from inspect import cleandoc
from typing import Any

from pydantic import TypeAdapter

from rlexp.config.json_schema import ATTRIBUTES, attributes


def arguments_schema(kind: type) -> dict[str, Any]:
    """The JSON Schema of the arguments: only the fields of a dataclass, each with its description."""
    schema = TypeAdapter(kind).json_schema(mode="validation")
    descriptions = attributes(kind)
    properties = {
        name: {"description": descriptions[name], **_without_title(content)}
        for name, content in schema.get("properties", {}).items()
    }
    required = schema.get("required", [])
    return {
        "type": "object",
        "properties": properties,
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


def description(kind: type) -> str:
    """The docstring of a class without the descriptions of its fields, on one line."""
    return " ".join(ATTRIBUTES.sub("", cleandoc(kind.__doc__ or "") + "\n").split())


def _without_title(content: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in content.items() if key != "title"}
