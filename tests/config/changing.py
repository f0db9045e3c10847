"""The default configuration, and how tests change it."""

from pathlib import Path
from typing import Any

import pytest

from rlexp.config.compose import compose
from rlexp.config.validate import validate
from rlexp.errors import ConfigError

(DEFAULT,) = compose([], Path(__file__).parent)


def changed(plain: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The configuration with values at dotted keys; `...` takes a key away."""
    for key, value in changes.items():
        node = plain
        *path, last = key.split(".")
        for part in path:
            node = node[part]
        if value is ...:
            del node[last]
        else:
            node[last] = value
    return plain


def refusal(plain: dict[str, Any], **changes: Any) -> str:
    """Why the changed configuration is refused, which is one line."""
    with pytest.raises(ConfigError) as caught:
        validate(changed(plain, changes))
    assert "\n" not in str(caught.value)
    return str(caught.value)
