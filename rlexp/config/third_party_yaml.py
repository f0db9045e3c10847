"""Yaml files that other tools wrote, read without running any code that their tags name."""

from pathlib import Path
from typing import Any

from rlexp.config.config_files import check_yaml
from rlexp.errors import ConfigError

PYTHON = "tag:yaml.org,2002:python/"
"""The beginning of tags that ask a Python loader to create objects."""
ORDERED = f"{PYTHON}object/apply:collections.OrderedDict"
"""The tag of an ordered dictionary, which is written as a list of pairs."""
MAX_NUMBER = 1e300
"""Larger numbers, infinity and NaN are kept as text, because JSON cannot express them."""
SCALAR_TAGS = frozenset(f"tag:yaml.org,2002:{name}" for name in ("int", "float", "bool", "null"))
"""Tags of scalars that are not text."""

CONSTRUCTOR_ERRORS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Errors of PyYAML's constructors for a tag that does not fit its text (`!!bool maybe`)."""


def read_foreign_yaml(path: Path) -> Any:
    """The content of a yaml file as JSON values.

    No object is created from a tag: a Python ordered dictionary becomes a mapping, and any other
    Python object becomes the name of its tag with its arguments.

    Raises:
        ConfigError: The file is not yaml, or is too large, too deep or full of aliases.
    """
    import yaml

    check_yaml(path)
    root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    try:
        return None if root is None else _to_json(root)
    except (*CONSTRUCTOR_ERRORS, yaml.YAMLError) as error:
        raise ConfigError(
            f"{path} holds an invalid value: {' '.join(str(error).split())}"
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
                f"the ordered dictionary at line {node.start_mark.line + 1} is not a list of pairs"
            )
        mapping[_key(pair.value[0])] = _to_json(pair.value[1])
    return mapping


def _key(node: Any) -> str:
    import yaml

    if not isinstance(node, yaml.ScalarNode):
        raise TypeError(f"the key at line {node.start_mark.line + 1} is not a text")
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
