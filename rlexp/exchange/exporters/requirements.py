"""The versions of packages that a run was made with, as pip reads them."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")
_VERSION = re.compile(r"([0-9]{1,9}[A-Za-z0-9.!_-]{0,60})(?:\+[A-Za-z0-9.]{1,60})?")


def requirements(names: Iterable[str], recorded: Mapping[str, Any], python: Any) -> str:
    """A line for each package; one whose version was not recorded, or is none, has no version.

    Args:
        names: Of the packages.
        recorded: Versions by name, as a record holds them: whatever is no version is left out.
        python: The version of Python, for a remark.
    """
    known = {_plain(str(name)): version for name, version in recorded.items()}
    lines = [f"# Python {python}"] if _version(python) else []
    for name in sorted({_plain(name) for name in names if _NAME.fullmatch(name)}):
        version = _version(known.get(name))
        lines.append(f"{name}=={version}" if version else name)
    return "".join(f"{line}\n" for line in lines)


def _plain(name: str) -> str:
    """A name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _version(text: Any) -> str | None:
    """A public version; what an index adds to it (`2.8.0+cpu`) is only known to that index."""
    match = _VERSION.fullmatch(text) if isinstance(text, str) else None
    return match[1] if match else None
