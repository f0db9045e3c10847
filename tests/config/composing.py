"""Helpers that compose configurations in tests."""

from pathlib import Path
from typing import Any

import pytest

from rlexp.config.compose import compose
from rlexp.config.config_files import packaged_root
from rlexp.errors import ConfigError

MINE = "defaults: [gymnasium, _self_]\nid: Acrobot-v1\nname: mine\n"
GROUPS = sorted(path.name for path in (packaged_root() / "conf").iterdir() if path.is_dir())


def one(folder: Path, *overrides: str) -> dict[str, Any]:
    """The single configuration that overrides compose."""
    (composed,) = compose(overrides, folder)
    return composed.plain


def at(settings: Any, key: str) -> Any:
    """The value at a dotted key."""
    for part in key.split("."):
        settings = settings[part]
    return settings


def grid(folder: Path, *overrides: str) -> list[tuple[tuple[str, str], ...]]:
    """The choices of every configuration of a grid."""
    return [composed.choices for composed in compose(overrides, folder)]


def refusal(folder: Path, *overrides: str) -> str:
    """The error about invalid overrides, which must be one line."""
    with pytest.raises(ConfigError) as caught:
        compose(overrides, folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)
