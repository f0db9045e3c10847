"""A matrix as the text of its file."""

from collections.abc import Mapping
from typing import Any


def matrix_text(plain: Mapping[str, Any], comments: str) -> str:
    """The yaml that is read as this content.

    Args:
        plain: JSON values.
        comments: Lines that it begins with; without line breaks of their own they stay comments.
    """
    import yaml

    head = "".join(f"# {line}\n" for line in comments.splitlines())
    return head + str(yaml.safe_dump(dict(plain), sort_keys=False, width=99))
