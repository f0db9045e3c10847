"""The head of a Markdown page, as YAML."""

from collections.abc import Mapping
from math import inf
from typing import Any


def front_matter(plain: Mapping[str, Any]) -> str:
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
    text = yaml.dump(dict(plain), Dumper=Quoting, sort_keys=False, width=inf)
    return f"---\n{text}---\n"
