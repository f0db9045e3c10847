"""Hyperparameter files of other tools: named entries of settings with their line numbers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlexp.config.config_files import check_yaml, search_path
from rlexp.config.third_party_yaml import read_foreign_yaml
from rlexp.errors import ConfigError

MERGE = "<<"
"""The key of yaml that merges the settings of another entry."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The settings under one name, with the line number of each."""

    name: str
    line: int
    settings: Mapping[str, Any]
    lines: Mapping[str, int]

    def line_of(self, key: str) -> int:
        """The line of a key; the line of the entry if the key is unknown."""
        return self.lines.get(key, self.line)


def read_foreign_entries(path: Path) -> list[Entry]:
    """The entries of a file, which must be a mapping of names to mappings.

    No object is created from a tag.

    Raises:
        ConfigError: The file has another form, or is too large, too deep or full of aliases.
    """
    import yaml

    values = read_foreign_yaml(path)
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
        entries.append(Entry(str(key.value), line, _merged(settings), dict(_lines(node))))
    return entries


def _merged(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of an entry, which win over those of the entries merged into it."""
    others = settings.get(MERGE, [])
    below: dict[str, Any] = {}
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
        if key.value == MERGE:
            yield from _lines(value)
    for key, _ in node.value:
        yield str(key.value), key.start_mark.line + 1


def environment_options(folder: Path) -> dict[str, str]:
    """The option of `environment` for each environment id.

    Args:
        folder: The study's folder, whose `conf/` wins over the packaged one.
    """
    import yaml

    options: dict[str, str] = {}
    for root in search_path(folder):
        for path in sorted(root.glob("environment/*.yaml")):
            check_yaml(path)
            settings = yaml.safe_load(path.read_text(encoding="utf-8"))
            if isinstance(settings, dict) and isinstance(settings.get("id"), str):
                options.setdefault(settings["id"], path.stem)
    return options
