"""Helpers that compose configurations in tests."""

from pathlib import Path
from typing import Any

import pytest

from rlexp.config.compose import compose
from rlexp.config.config_files import packaged_root
from rlexp.errors import ConfigError

MY_ENVIRONMENT = "defaults: [gymnasium, _self_]\nid: Acrobot-v1\nname: mine\n"
GROUPS = sorted(path.name for path in (packaged_root() / "conf").iterdir() if path.is_dir())


def compose_one(folder: Path, *overrides: str) -> dict[str, Any]:
    """The only configuration that these overrides compose."""
    (configuration,) = compose(overrides, folder)
    return configuration.plain


def value_at(settings: Any, key: str) -> Any:
    """The value at a dotted key."""
    for part in key.split("."):
        settings = settings[part]
    return settings


def grid_choices(folder: Path, *overrides: str) -> list[tuple[tuple[str, str], ...]]:
    """The choices of every configuration of a grid."""
    return [configuration.choices for configuration in compose(overrides, folder)]


def refusal(folder: Path, *overrides: str) -> str:
    """The error about invalid overrides, which must be one line."""
    with pytest.raises(ConfigError) as error_info:
        compose(overrides, folder)
    assert "\n" not in str(error_info.value)
    return str(error_info.value)
