"""Finds the options of groups that lead to recorded plug-ins."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from rlexp.config.config_files import check_yaml, group_options, parse_mapping, search_path

REQUIRED = "???"
"""The value of a setting without a default, which every command must give."""


def options_of_target(group: str, target: str, name: str, folder: Path) -> list[str]:
    """The options of a group whose file names a class, those called `name` first.

    Args:
        group: The configuration group.
        target: The Python path of the class.
        name: The name of the plug-in, which is usually the name of its option.
        folder: The study's folder, whose `conf/` wins over the packaged one.
    """
    matching = [
        option
        for option in group_options(group, folder)
        if read_option(group, option, folder).get("_target_") == target
    ]
    return sorted(matching, key=lambda option: (option != name, option))


def environments_of_id(task: str, folder: Path) -> list[str]:
    """The options of `environment` whose file has this id, the shortest name first."""
    matching = [
        option
        for option in group_options("environment", folder)
        if read_option("environment", option, folder).get("id") == task
    ]
    return sorted(matching, key=lambda option: (len(option), option))


def options_of_component(name: str, target: str, folder: Path) -> list[tuple[str, str]]:
    """The groups and options that add a component of a class under a name."""
    return [
        (group, option)
        for group in ("component", "teacher")
        for option in options_of_named(group, name, target, folder)
    ]


def options_of_named(group: str, name: str, target: str, folder: Path) -> list[str]:
    """The options of a group that add a plug-in of a class under a name."""
    return [
        option
        for option in group_options(group, folder)
        if _target_at(read_option(group, option, folder).get(name)) == target
    ]


def command_that_trains(experiment: str, folder: Path) -> str | None:
    """The command in the comments of a benchmark that trains an experiment of this name, or None."""
    line = re.compile(rf"^# (rlexp run .*\bexperiment={re.escape(experiment)})$", re.MULTILINE)
    for root in search_path(folder):
        for path in sorted((root / "benchmark").glob("*.yaml")):
            if command := line.search(path.read_text(encoding="utf-8")):
                return command[1]
    return None


def required_keys(group: str, option: str, folder: Path) -> list[str]:
    """The dotted keys inside an option that have no default."""
    return list(_required(read_option(group, option, folder), ""))


def read_option(group: str, option: str, folder: Path) -> Mapping[str, Any]:
    """The content of an option's file, without that of its defaults list; empty if it has none.

    Raises:
        ConfigError: The file is not yaml, or exceeds a limit of size or depth.
    """
    for root in search_path(folder):
        path = root / group / f"{option}.yaml"
        if path.is_file():
            check_yaml(path)
            return _parsed(path.read_text(encoding="utf-8"), path)
    return {}


@cache
def _parsed(text: str, path: Path) -> Mapping[str, Any]:
    return parse_mapping(text, path)


def _target_at(settings: Any) -> Any:
    return settings.get("_target_") if isinstance(settings, Mapping) else None


def _required(settings: Mapping[str, Any], path: str) -> Iterator[str]:
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _required(value, f"{path}{key}.")
        elif value == REQUIRED:
            yield f"{path}{key}"
