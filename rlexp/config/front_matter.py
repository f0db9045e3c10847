"""The head of a Markdown page, as YAML."""

from collections.abc import Mapping
from math import inf
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

    for root in search_path(folder):
        for path in sorted(root.glob("environment/*.yaml")):
            try:
                text = path.read_text(encoding="utf-8")
                # Most files are of other tasks, and parsing all of them takes a second.
                if task not in text:
                    continue
                check_yaml(path)
                settings = yaml.safe_load(text)
            except (ConfigError, yaml.YAMLError, OSError, ValueError):
                continue
            if isinstance(settings, dict) and settings.get("id") == task:
                reference = settings.get("reference")
                return reference if isinstance(reference, dict) else {}
    return {}


def matrix_text(content: Mapping[str, Any], comments: str) -> str:
    """The yaml that is read as this content.

    Args:
        content: JSON values.
        comments: Lines that it begins with; without line breaks of their own they stay comments.
    """
    import yaml

    head = "".join(f"# {line}\n" for line in comments.splitlines())
    return head + str(yaml.safe_dump(dict(content), sort_keys=False, width=99))


def front_matter(content: Mapping[str, Any]) -> str:
    """A mapping as YAML between two lines of dashes, as model cards begin.

    Every text stands in quotes, and in ASCII: without them, readers of YAML 1.1 and of 1.2 would
    take some (`no`, `1e3`) for different things.
    """
    import yaml

    class Quoting(yaml.SafeDumper):  # type: ignore[misc]
        """Of texts in quotes."""

    def quoted(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')

    Quoting.add_representer(str, quoted)
    text = yaml.dump(dict(content), Dumper=Quoting, sort_keys=False, width=inf)
    return f"---\n{text}---\n"
