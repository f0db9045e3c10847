"""Known scores of tasks, as the configurations of environments declare them."""

from pathlib import Path
from typing import Any

from rlexp.config.sources import check_yaml, search_path
from rlexp.errors import ConfigError


def known_reference(task: str, folder: Path) -> dict[str, Any]:
    """What the environment with this id declares as its reference; nothing where none does.

    Args:
        task: An id of Gymnasium.
        folder: Of the study, whose `conf/` is looked at first.
    """
    import yaml

    for place in search_path(folder):
        for path in sorted(place.glob("environment/*.yaml")):
            try:
                text = path.read_text(encoding="utf-8")
                # Most files are of other tasks, and parsing all of them takes a second.
                if task not in text:
                    continue
                check_yaml(path)
                plain = yaml.safe_load(text)
            except (ConfigError, yaml.YAMLError, OSError, ValueError):
                continue
            if isinstance(plain, dict) and plain.get("id") == task:
                reference = plain.get("reference")
                return reference if isinstance(reference, dict) else {}
    return {}
