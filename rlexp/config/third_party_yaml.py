"""Yaml files that other tools wrote, read without running any code that their tags name."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlexp.config.config_files import check_yaml, parse_mapping, search_path
from rlexp.errors import ConfigError

MERGE = "<<"
"""The key of yaml that merges the settings of another entry."""


@dataclass(frozen=True, slots=True)
class HyperparameterEntry:
    """The settings under one name, with the line number of each."""

    name: str
    line: int
    settings: Mapping[str, Any]
    lines: Mapping[str, int]

    def line_of(self, key: str) -> int:
        """The line of a key; the line of the entry if the key is unknown."""
        return self.lines.get(key, self.line)


def read_third_party_entries(path: Path) -> list[HyperparameterEntry]:
    """The entries of a file, which must be a mapping of names to mappings.

    No object is created from a tag.

    Raises:
        ConfigError: The file has another form, or is too large, too deep or full of aliases.
    """
    import yaml

    # First, because it checks the limits of the file; `compose` alone has none.
    values = read_third_party_yaml(path)
    root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    if not isinstance(values, Mapping) or not isinstance(root, yaml.MappingNode) or not values:
        raise ConfigError(f"{path} has no entries: give a file of hyperparameters")
    entries = []
    for key, node in root.value:
        line, settings = key.start_mark.line + 1, values[str(key.value)]
        if not isinstance(settings, Mapping):
            raise ConfigError(
                f"{path}, line {line}: {key.value} must be a mapping of settings to values"
            )
        entries.append(
            HyperparameterEntry(str(key.value), line, _merged(settings), dict(_lines(node)))
        )
    return entries


def _merged(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of an entry, which win over those of the entries merged into it."""
    others = settings.get(MERGE, [])
    below: dict[str, Any] = {}
    # In yaml, the first of several merged entries wins, so it is applied last.
    for other in reversed(others if isinstance(others, list) else [others]):
        below |= _merged(other) if isinstance(other, Mapping) else {MERGE: other}
    return {**below, **{key: value for key, value in settings.items() if key != MERGE}}


def _lines(node: Any) -> Iterator[tuple[str, int]]:
    import yaml

    if isinstance(node, yaml.SequenceNode):
        for item in reversed(node.value):
            yield from _lines(item)
    if not isinstance(node, yaml.MappingNode):
        return
    for key, value in node.value:
        # Merged lines first: in the dictionary of the caller, the entry's own lines replace them.
        if key.value == MERGE:
            yield from _lines(value)
    for key, _ in node.value:
        yield str(key.value), key.start_mark.line + 1


def environment_options(folder: Path) -> dict[str, str]:
    """The option of `environment` for each environment id.

    Args:
        folder: The study's folder, whose `conf/` wins over the packaged one.
    """
    options: dict[str, str] = {}
    for root in search_path(folder):
        for path in sorted(root.glob("environment/*.yaml")):
            check_yaml(path)
            settings = parse_mapping(path.read_text(encoding="utf-8"), path)
            if isinstance(settings.get("id"), str):
                # The study's folder stands first in the path, so its option stays.
                options.setdefault(settings["id"], path.stem)
    return options


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


def read_third_party_yaml(path: Path) -> Any:
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
    # NaN fails every comparison, so the negated comparison finds it as well.
    is_number = isinstance(value, int | float)
    return str(node.value) if is_number and not -MAX_NUMBER <= value <= MAX_NUMBER else value
