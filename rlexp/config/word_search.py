"""Searches the settings and options of the configuration by a part of a name or of a comment."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from rlexp.config.config_files import (
    DEFINITIONS,
    check_yaml,
    defaults,
    groups,
    is_packaged,
    options,
    search_path,
)
from rlexp.config.first_words import meant_key
from rlexp.config.yaml_parsers import parsed
from rlexp.errors import ConfigError, did_you_mean

FILES = ("config.yaml", "sweep.yaml", "report.yaml")
"""Files of settings outside groups, those of runs first."""
COMPONENTS = "environment.components."
PREFIXES = {
    "tracker": "tracker.",
    "component": COMPONENTS,
    "teacher": COMPONENTS,
    "callback": "callback.",
}
"""Text before the keys in the files of a group, if not the name of the group."""
WITHOUT_SETTINGS = ("benchmark", "metric", "section", DEFINITIONS)
"""Groups whose files hold no settings of their own."""
MEANT = {"seed": "seeds.test", "seeds": "seeds.test"}
"""The keys that a word means first."""
NO_SETTINGS = ("defaults", "_target_")


@dataclass(frozen=True, slots=True)
class SettingEntry:
    """A setting or an option of the configuration.

    Attributes:
        key: The dotted key; of an option, its group.
        default: The default value as JSON, in the default option of its group if that has the
            setting; of an option, its name.
        options: The options of the group that have the setting; empty outside groups.
        meaning: The comment beside the setting or the description of the option.
        is_option: Whether it is an option.
        of_reports: Whether only reports have the setting.
    """

    key: str
    default: Any
    options: tuple[str, ...]
    meaning: str
    is_option: bool = False
    of_reports: bool = False


def list_settings(folder: Path) -> list[SettingEntry]:
    """Every setting, then every option of each group.

    Args:
        folder: The study's folder, whose `conf/` wins over the packaged one.
    """
    return [*_joined(_settings(folder)), *_options(folder)]


def search_settings(word: str, folder: Path) -> list[SettingEntry]:
    """The settings and options whose name or comment contains a word, the best matches first.

    Args:
        word: A part of a name, in rlexp or in another tool, or of a comment.
        folder: The study's folder, whose `conf/` wins over the packaged one.

    Raises:
        ConfigError: Nothing contains the word.
    """
    text = word.lower().strip("-+= ").replace("-", "_").replace(" ", "_")
    every = list_settings(folder)
    ranked = [(rank, entry) for entry in every if (rank := _rank(entry, text)) is not None]
    # Settings of fewer levels are needed more often.
    matching = sorted(
        ranked, key=lambda item: (item[0], item[1].is_option, item[1].key.count("."))
    )
    if not matching:
        names = sorted({entry.key.rpartition(".")[2] for entry in every})
        raise ConfigError(
            f"no setting and no option has {word!r} in its name or comment"
            f"{did_you_mean(text, names)}; to see all groups: rlexp config list",
            code="unknown_setting",
            key=word,
            allowed=names,
            command="rlexp config list",
        )
    return [entry for _, entry in matching]


def _rank(entry: SettingEntry, text: str) -> int | None:
    """How well an entry matches, 0 best; None if it does not."""
    if not text:
        return None
    name = str(entry.default) if entry.is_option else entry.key.rpartition(".")[2]
    checks = (
        not entry.is_option and entry.key in {meant_key(text), MEANT.get(text)},
        text in {name.lower(), entry.key.lower()},
        text in name.lower(),
        not entry.is_option and text in entry.key.lower(),
        text in entry.meaning.lower().replace("-", "_").replace(" ", "_"),
    )
    return next((rank for rank, holds in enumerate(checks) if holds), None)


def _joined(entries: Iterator[SettingEntry]) -> list[SettingEntry]:
    """One entry for each key, with the options that have it; the first default stays."""
    joined: dict[str, SettingEntry] = {}
    for entry in entries:
        first = joined.get(entry.key)
        names = dict.fromkeys((*(first.options if first else ()), *entry.options))
        meaning = (first.meaning if first else "") or entry.meaning
        joined[entry.key] = replace(first or entry, options=tuple(names), meaning=meaning)
    return list(joined.values())


def _settings(folder: Path) -> Iterator[SettingEntry]:
    names = groups(folder)
    for file in FILES:
        path = next((root / file for root in search_path(folder) if (root / file).is_file()), None)
        settings = () if path is None else file_settings(path, "", ())
        for entry in settings:
            # The keys of groups in these files are choices, which `_options` lists.
            if entry.key not in names:
                yield replace(entry, of_reports=file == FILES[-1])
    chosen = {
        group: option
        for file in reversed(FILES)
        for group, option in defaults(folder, file).items()
    }
    for group in names:
        if group not in WITHOUT_SETTINGS:
            every = options(group, folder)
            for option in sorted(every, key=lambda item: item.name != chosen.get(group)):
                prefix = PREFIXES.get(group, f"{group}.")
                yield from file_settings(option.path, prefix, (option.name,))


def _options(folder: Path) -> Iterator[SettingEntry]:
    for group in groups(folder):
        for option in options(group, folder):
            yield SettingEntry(group, option.name, (), option.description, is_option=True)


def file_settings(path: Path, prefix: str, names: tuple[str, ...]) -> Iterator[SettingEntry]:
    """The settings of a yaml file, with the comments beside them."""
    import yaml

    check_yaml(path)
    text = path.read_text(encoding="utf-8")
    root = parsed(partial(yaml.compose, text), packaged=is_packaged(path))
    if isinstance(root, yaml.MappingNode):
        yield from _node_settings(root, prefix, names, text.splitlines())


def _node_settings(
    node: Any, prefix: str, names: tuple[str, ...], lines: Sequence[str]
) -> Iterator[SettingEntry]:
    import yaml

    for key, value in node.value:
        if key.value in NO_SETTINGS:
            continue
        if isinstance(value, yaml.MappingNode) and value.value:
            yield from _node_settings(value, f"{prefix}{key.value}.", names, lines)
            continue
        content = _content(value)
        line = lines[value.end_mark.line] if value.end_mark.line < len(lines) else ""
        meaning = line[value.end_mark.column :].partition("#")[2].strip()
        yield SettingEntry(f"{prefix}{key.value}", content, names, meaning)


def _content(node: Any) -> Any:
    """The value of a node; its text if it cannot be read, such as a tag of another program."""
    import yaml

    text = yaml.serialize(node)
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):
        # One wrong value hides no other setting. The command that uses the file refuses it.
        return text.strip()
