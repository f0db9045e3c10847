"""The default configuration, and helpers that change it in tests."""

from pathlib import Path
from typing import Any

import pytest

from rlexp.config.compose import compose
from rlexp.config.validate import validate
from rlexp.errors import ConfigError

(DEFAULT,) = compose([], Path(__file__).parent)


def apply_changes(settings: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The settings after changes at dotted keys; `...` removes a key."""
    for key, value in changes.items():
        node = settings
        *path, last = key.split(".")
        for part in path:
            node = node[part]
        if value is ...:
            del node[last]
        else:
            node[last] = value
    return settings


def refusal(settings: dict[str, Any], **changes: Any) -> str:
    """The error about the changed configuration, which must be one line."""
    with pytest.raises(ConfigError) as error_info:
        validate(apply_changes(settings, changes))
    assert "\n" not in str(error_info.value)
    return str(error_info.value)
