"""Where W&B mirrors to, as its own settings say; read here so that nothing has to be imported."""

import re
from collections.abc import Mapping
from configparser import ConfigParser, Error
from dataclasses import dataclass
from pathlib import Path

CLOUD = "https://api.wandb.ai"
MODES = {"run": "online", "shared": "online", "dryrun": "offline"}
"""Other names of its modes."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """What is asked for, whoever said it.

    Attributes:
        mode: `online`, `offline`, `disabled`, or what the environment says instead.
        base_url: The server.
        entity: The user or team; none: the key's own.
    """

    mode: str
    base_url: str
    entity: str | None

    @property
    def address(self) -> str:
        """The server's address without a login."""
        return re.sub(r"(?<=://)[^/@]*@", "", self.base_url)


def resolved(
    environment: Mapping[str, str],
    folder: Path,
    mode: str | None,
    base_url: str | None,
    entity: str | None,
) -> Resolved:
    """What holds: an own setting, else a variable, else what W&B keeps there, then for the user.

    Args:
        environment: Variables.
        folder: The project's.
        mode: An own setting.
        base_url: An own setting.
        entity: An own setting.
    """
    files = _files(environment, folder)

    def found(own: str | None, name: str) -> str | None:
        return own or environment.get(f"WANDB_{name.upper()}") or files.get(name) or None

    named = found(mode, "mode") or "online"
    address = found(base_url, "base_url") or CLOUD
    return Resolved(MODES.get(named, named), address.rstrip("/"), found(entity, "entity"))


def _files(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """What W&B's settings files say, the folder's over the user's."""
    own = Path(environment.get("WANDB_CONFIG_DIR") or "~/.config/wandb").expanduser()
    local = Path(environment.get("WANDB_DIR") or folder)
    near = local / (".wandb" if (local / ".wandb").is_dir() else "wandb")
    found: dict[str, str] = {}
    for path in (own / "settings", near / "settings"):
        parser = ConfigParser(interpolation=None)
        try:
            parser.read_string(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, Error):
            continue
        if parser.has_section("default"):
            found.update(parser.items("default"))
    return found
