"""Yaml that rlexp writes: matrices and the front matter of Markdown pages."""

from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Any

from rlexp.config.config_files import check_yaml, parse_mapping, search_path
from rlexp.errors import ConfigError


def known_reference(task: str, folder: Path) -> dict[str, Any]:
    """The `reference` of the environment with an id; empty if no environment declares one.

    Args:
        task: The id of a Gymnasium environment.
        folder: The study's folder, whose `conf/` wins over the packaged one.
    """
    for root in search_path(folder):
        for path in sorted(root.glob("environment/*.yaml")):
            try:
                text = path.read_text(encoding="utf-8")
                # Parsing all files takes a second; a search in the text skips most of them.
                if task not in text:
                    continue
                check_yaml(path)
                settings = parse_mapping(text, path)
            # A damaged file of another environment must not stop the command.
            except (ConfigError, OSError, ValueError):
                continue
            if settings.get("id") == task:
                reference = settings.get("reference")
                return reference if isinstance(reference, dict) else {}
    return {}


def nested_sections(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Values by dotted key as nested sections (`{"budget.steps": 100}` as `{"budget": {"steps": 100}}`)."""
    nested: dict[str, Any] = {}
    for key, value in settings.items():
        *path, last = key.split(".")
        section = nested
        for part in path:
            section = section.setdefault(part, {})
        section[last] = value
    return nested


def matrix_text(content: Mapping[str, Any], comments: str) -> str:
    """The content of a matrix as yaml, below comments.

    Args:
        content: JSON values.
        comments: The text of the comments, one line each.
    """
    import yaml

    head = "".join(f"# {line}\n" for line in comments.splitlines())
    return head + str(yaml.safe_dump(dict(content), sort_keys=False, width=99))


def front_matter(content: Mapping[str, Any]) -> str:
    """A mapping as YAML between two lines of dashes, the front matter of a model card.

    Every text is quoted and in ASCII, because YAML 1.1 and YAML 1.2 read some unquoted texts
    (`no`, `1e3`) differently.
    """
    import yaml

    class Quoting(yaml.SafeDumper):  # type: ignore[misc]
        """A dumper that quotes every text."""

    def quoted(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')

    Quoting.add_representer(str, quoted)
    # Without a limit of width, PyYAML would break long texts into several lines.
    text = yaml.dump(dict(content), Dumper=Quoting, sort_keys=False, width=inf)
    return f"---\n{text}---\n"
