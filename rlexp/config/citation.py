"""Reads what a study's `CITATION.cff` says (Citation File Format 1.2.0)."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from rlexp.errors import ConfigError

CITATION_FILE = "CITATION.cff"
LARGEST = 1 << 20


@dataclass(frozen=True, slots=True)
class StudyCitation:
    """A citation file: its title, its authors with their ORCIDs, its license and its day.

    A value that the file does not have is None.
    """

    title: str | None
    authors: tuple[tuple[str, str | None], ...]
    license: str | None
    published: str | None


def read_citation(folder: Path) -> StudyCitation | None:
    """The citation file of a workspace; None where there is none.

    Raises:
        ConfigError: The file cannot be read, or is no citation file.
    """
    path = folder / CITATION_FILE
    if not path.is_file():
        return None
    try:
        content = _content(path)
        authors = content.get("authors") or []
        return StudyCitation(
            title=_text(content.get("title")),
            authors=tuple((_name(author), _text(author.get("orcid"))) for author in authors),
            license=_text(content.get("license")),
            published=_text(content.get("date-released")),
        )
    except (OSError, ValueError, AttributeError, TypeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())[:120]
        raise ConfigError(
            f"{CITATION_FILE} cannot be read: {reason}; mend it, or remove it and name --title and --author"
        ) from error


def _content(path: Path) -> Mapping[str, Any]:
    if path.stat().st_size > LARGEST:
        raise ValueError(f"it has more than {LARGEST:,} bytes")
    content = yaml.safe_load(path.read_text())
    if not isinstance(content, Mapping) or "cff-version" not in content:
        raise ValueError("it has no cff-version")
    return content


def _name(author: Mapping[str, Any]) -> str:
    if "name" in author:
        return str(author["name"])
    parts = ("given-names", "name-particle", "family-names", "name-suffix")
    return " ".join(str(author[part]) for part in parts if author.get(part))


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
