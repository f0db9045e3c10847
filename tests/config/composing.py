"""Compositions, and the words of tests about them."""

from pathlib import Path
from typing import Any

import pytest

from rlexp.config.compose import compose
from rlexp.config.sources import packaged_root
from rlexp.errors import ConfigError

MINE = "defaults: [gymnasium, _self_]\nid: Acrobot-v1\nname: mine\n"
GROUPS = sorted(place.name for place in (packaged_root() / "conf").iterdir() if place.is_dir())


def one(folder: Path, *words: str) -> dict[str, Any]:
    """The only configuration that the words lead to."""
    (composed,) = compose(words, folder)
    return composed.plain


def at(plain: Any, key: str) -> Any:
    """The value at a dotted key."""
    for part in key.split("."):
        plain = plain[part]
    return plain


def grid(folder: Path, *words: str) -> list[tuple[tuple[str, str], ...]]:
    """The choices of every configuration."""
    return [composed.choices for composed in compose(words, folder)]


def refusal(folder: Path, *words: str) -> str:
    """Why the words are refused, which is one line."""
    with pytest.raises(ConfigError) as caught:
        compose(words, folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)
