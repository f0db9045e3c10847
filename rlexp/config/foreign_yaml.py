"""Yaml that another tool wrote: its values, with whatever names code left as text."""

from pathlib import Path
from typing import Any

from rlexp.config.sources import check_yaml
from rlexp.errors import ConfigError

PYTHON = "tag:yaml.org,2002:python/"
"""What begins the tags that ask a loader of Python to make objects."""
ORDERED = f"{PYTHON}object/apply:collections.OrderedDict"
"""A mapping, written as the pairs that it was made of."""
MAX_NUMBER = 1e300
"""Numbers beyond it, and those that are none, are kept as text: JSON has no place for them."""
SCALAR_TAGS = frozenset(f"tag:yaml.org,2002:{name}" for name in ("int", "float", "bool", "null"))
"""Tags whose scalars are more than text."""

CONSTRUCTOR_ERRORS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What the library's constructors raise where a tag does not fit a text (`!!bool maybe`)."""


def read_foreign_yaml(path: Path) -> Any:
    """The JSON values that a file holds.

    Nothing is made of tags: an ordered dictionary of Python is read as a mapping, anything else
    that a tag names stands there as the text of its name, with its arguments beside it.

    Raises:
        ConfigError: It is no yaml, or too large, too deep or full of aliases.
    """
    import yaml

    check_yaml(path)
    root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    try:
        return None if root is None else _to_json(root)
    except (*CONSTRUCTOR_ERRORS, yaml.YAMLError) as error:
        raise ConfigError(
            f"{path} holds what is no value: {' '.join(str(error).split())}"
        ) from error


def _to_json(node: Any) -> Any:
    import yaml

    if isinstance(node, yaml.ScalarNode):
        return _scalar(node)
    if isinstance(node, yaml.MappingNode):
        value: Any = {_key(key): _to_json(item) for key, item in node.value}
    elif node.tag == ORDERED:
        return _ordered_mapping(node)
    else:
        value = [_to_json(item) for item in node.value]
    if not node.tag.startswith(PYTHON) or node.tag == f"{PYTHON}tuple":
        return value
    return {"python": node.tag.removeprefix(PYTHON), "value": value}


def _ordered_mapping(node: Any) -> dict[str, Any]:
    """The mapping of `[[[key, value], …]]`."""
    import yaml

    pairs = node.value[0].value if node.value else []
    mapping: dict[str, Any] = {}
    for pair in pairs:
        if not isinstance(pair, yaml.SequenceNode) or len(pair.value) != 2:
            raise ValueError(
                f"an ordered dictionary at line {node.start_mark.line + 1} has no pairs"
            )
        mapping[_key(pair.value[0])] = _to_json(pair.value[1])
    return mapping


def _key(node: Any) -> str:
    import yaml

    if not isinstance(node, yaml.ScalarNode):
        raise TypeError(f"a key at line {node.start_mark.line + 1} is no name")
    return str(node.value)


def _scalar(node: Any) -> Any:
    import yaml

    if node.tag.startswith(PYTHON):
        name = str(node.tag.removeprefix(PYTHON))
        return f"{name} {node.value}" if node.value else name
    if node.tag not in SCALAR_TAGS:
        return str(node.value)
    value = yaml.constructor.SafeConstructor().construct_object(node)
    is_number = isinstance(value, int | float)
    return str(node.value) if is_number and not -MAX_NUMBER <= value <= MAX_NUMBER else value
