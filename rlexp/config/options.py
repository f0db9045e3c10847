"""The groups of a configuration and the options of each group."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlexp.config.config_files import check_yaml, group_options, groups, packaged_root, search_path
from rlexp.errors import ConfigError

MAX_LINE_LENGTH = 1000
DEFINITIONS = "sweeps"
"""The folder of sweep definitions, beside `conf/`."""


@dataclass(frozen=True, slots=True)
class Option:
    """A yaml file of a group; `own` is true if the file belongs to the study, not to rlexp."""

    name: str
    description: str
    path: Path
    own: bool


def options(group: str, folder: Path) -> list[Option]:
    """The options of a group, sorted by name; a study's option hides the packaged one.

    Raises:
        ConfigError: The group does not exist.
    """
    existing = listed_groups(folder)
    if group not in existing:
        raise ConfigError.unknown(
            f"there is no group {group!r}",
            group,
            existing,
            code="unknown_group",
            key=group,
            command="rlexp config list",
        )
    paths: dict[str, Path] = {}
    for root in reversed(search_path(folder)):
        paths |= {path.stem: path for path in (root / group).glob("*.yaml")}
    ours = packaged_root()
    return [
        Option(name, _description(path), path, own=not _is_packaged(path, ours))
        for name, path in sorted(paths.items())
    ]


def listed_groups(folder: Path) -> list[str]:
    """The names of all groups, and `sweeps` if there are sweep definitions."""
    return sorted(
        {*groups(folder), *([DEFINITIONS] if group_options(DEFINITIONS, folder) else [])}
    )


def _is_packaged(path: Path, root: Path) -> bool:
    return any(path.is_relative_to(root / folder) for folder in ("conf", DEFINITIONS))


def defaults(folder: Path, file: str = "config.yaml") -> dict[str, str]:
    """The default option of each group, as the defaults list of a file states it."""
    for root in search_path(folder):
        path = root / file
        if path.is_file():
            chosen: dict[str, str] = {}
            for entry in _read(path).get("defaults") or []:
                if isinstance(entry, dict):
                    chosen |= {str(k): _default_text(v) for k, v in entry.items() if v}
            return chosen
    return {}


def _default_text(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _read(path: Path) -> dict[str, Any]:
    import yaml

    check_yaml(path)
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    return content if isinstance(content, dict) else {}


def _description(path: Path) -> str:
    """The first comment of a yaml file, which describes the option; empty without a comment."""
    try:
        with path.open(encoding="utf-8") as file:
            first = file.readline(MAX_LINE_LENGTH)
            if first.startswith("# @package"):
                first = file.readline(MAX_LINE_LENGTH)
    except (OSError, UnicodeDecodeError) as error:
        return f"cannot be read: {error}"
    return first.removeprefix("#").strip() if first.startswith("#") else ""
