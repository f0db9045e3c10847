"""Files of schedules: hyperparameters that change at given environment steps.

`algorithm.learning_rate={schedule: file.yaml}` is replaced by the steps and values that the file holds
for this key. A run is therefore defined by the values, and its records need no file.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlexp.config.config_files import check_yaml, parse_mapping
from rlexp.errors import ConfigError

SCHEDULE = "schedule"
"""Key of a mapping that names a file, and of the version in a file."""
VERSION = 1
"""Version of the format of files."""
KEYS = {SCHEDULE, "steps", "values"}
GROUP = "algorithm"
"""The part of a configuration whose settings a schedule may change."""
CALLBACK = "callback"
VALUES = "values"
"""The setting of a callback that holds schedules by the name of their hyperparameter."""


def with_schedules(settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """A configuration in which the content of schedule files stands in the place of their names.

    Args:
        settings: The configuration.
        folder: The folder that relative names begin at.

    Raises:
        ConfigError: A file does not exist, or holds no valid schedule of the setting.
    """
    part, callbacks = settings.get(GROUP), settings.get(CALLBACK)
    if isinstance(part, Mapping):
        settings = {**settings, GROUP: _with_read(part, folder)}
    if isinstance(callbacks, Mapping):
        read = {name: _with_read_values(each, folder) for name, each in callbacks.items()}
        settings = {**settings, CALLBACK: read}
    return settings


def _with_read(values: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Settings of an algorithm with the content of the files that they name."""
    return {
        name: _read_entry(f"{GROUP}.{name}", value, folder)
        if isinstance(value, Mapping) and SCHEDULE in value
        else value
        for name, value in values.items()
    }


def _with_read_values(callback: Any, folder: Path) -> Any:
    """A callback whose schedules of hyperparameters have the content of the files that they name."""
    values = callback.get(VALUES) if isinstance(callback, Mapping) else None
    if not isinstance(values, Mapping):
        return callback
    return {**callback, VALUES: _with_read(values, folder)}


def schedule_text(steps: Sequence[int], values: Mapping[str, Sequence[float]]) -> str:
    """The text of a schedule file.

    Args:
        steps: The environment steps at which values begin, the first of them 0.
        values: One value for each step, by the key of the setting (`algorithm.gamma`).
    """
    import yaml

    content = {SCHEDULE: VERSION, "steps": list(steps)}
    lines = yaml.safe_dump(content, sort_keys=False, default_flow_style=None)
    table = {"values": {key: list(row) for key, row in values.items()}}
    return str(lines) + str(yaml.safe_dump(table, sort_keys=False, default_flow_style=None))


def _read_entry(key: str, value: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The schedule of one setting, as its algorithm takes it."""
    name = value[SCHEDULE]
    if set(value) != {SCHEDULE} or not isinstance(name, str) or not name:
        raise ConfigError(
            f"{key} names a schedule and nothing else: type '{key}={{schedule: FILE.yaml}}'",
            code="wrong_type",
            key=key,
        )
    path = folder / Path(name).expanduser()
    try:
        return _schedule_of(key, _content(path, name))
    except ConfigError as error:
        raise ConfigError(f"{key}: {error}", code=error.code, key=key) from error


def _content(path: Path, name: str) -> dict[str, Any]:
    """The mapping in a file, whose keys and version are right."""
    if not path.is_file():
        raise ConfigError(f"there is no file {name}: write its path from the workspace on")
    check_yaml(path)
    content = parse_mapping(path.read_text(encoding="utf-8"), path)
    if set(content) != KEYS or not isinstance(content["values"], Mapping):
        raise ConfigError(
            f"{name} is no schedule: it needs 'schedule: {VERSION}', 'steps: [0, …]' and 'values:' "
            "with a list for each setting"
        )
    if content[SCHEDULE] != VERSION:
        raise ConfigError(
            f"{name} has version {content[SCHEDULE]!r} of schedules, and this rlexp reads version "
            f"{VERSION}: install the rlexp that wrote it, or write 'schedule: {VERSION}'"
        )
    return content


def _schedule_of(key: str, content: Mapping[str, Any]) -> dict[str, Any]:
    steps, values = content["steps"], content["values"].get(key)
    if values is None:
        keys = [str(name) for name in content["values"]]
        raise ConfigError(
            f"the schedule has no values for it; it has those of {', '.join(keys) or 'nothing'}"
        )
    if not isinstance(steps, list) or not isinstance(values, list):
        raise ConfigError("the steps and values of a schedule are lists: write [0, 10000]")
    return {"shape": "steps", "steps": steps, "values": values}
