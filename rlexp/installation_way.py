"""The command that adds an optional package, for the way in which rlexp was installed."""

import os
import shlex
import sys
import tomllib
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def install_command(extra: str, prefix: Path | None = None, *, pip: bool | None = None) -> str:
    """The command that installs rlexp with one more extra, to be pasted into a shell.

    Args:
        extra: The name of the extra (`wandb`).
        prefix: The folder of the Python environment; default: of this process.
        pip: Whether the environment has pip; default: of this process.
    """
    folder = Path(sys.prefix) if prefix is None else prefix
    if (receipt := folder / "uv-receipt.toml").is_file():
        return shlex.join(["uv", "tool", "install", *_tool_requirements(receipt, extra)])
    requirement = f"'rlexp[{extra}]'"
    if (folder / "pipx_metadata.json").is_file():
        # `pipx install` would leave out what was injected before.
        return f"pipx runpip {shlex.quote(folder.name)} install {requirement}"
    has_pip = find_spec("pip") is not None if pip is None else pip
    if not has_pip and _made_by_uv(folder):
        return f"uv pip install --python {shlex.quote(_shown(folder))} {requirement}"
    return f"pip install {requirement}"


def _shown(folder: Path) -> str:
    """The folder, relative to the current one where that is shorter."""
    return os.path.relpath(folder) if folder.is_relative_to(Path.cwd()) else str(folder)


def _made_by_uv(folder: Path) -> bool:
    try:
        lines = (folder / "pyvenv.cfg").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return False
    return any(line.partition("=")[0].strip() == "uv" for line in lines)


def _tool_requirements(receipt: Path, extra: str) -> Iterator[str]:
    """Words for `uv tool install`, which forgets every extra and package that is not repeated."""
    extras, others = {extra}, []
    for requirement in _requirements(receipt):
        if requirement.get("name") == "rlexp":
            extras |= set(map(str, requirement.get("extras", [])))
        else:
            others.append(str(requirement.get("name")))
    yield f"rlexp[{','.join(sorted(extras))}]"
    for name in others:
        yield from ("--with", name)


def _requirements(receipt: Path) -> list[Mapping[str, Any]]:
    try:
        document = tomllib.loads(receipt.read_text(encoding="utf-8"))
        requirements = document["tool"]["requirements"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    entries = requirements if isinstance(requirements, list) else []
    return [entry for entry in entries if isinstance(entry, Mapping)]
