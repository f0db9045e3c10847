"""Environment variables in settings: stored as written, replaced where they are used."""

import os
import re
from collections.abc import Mapping
from typing import Any

from rlexp.errors import ConfigError

_VARIABLE = re.compile(r"\$\{oc\.env:([^,}]+)(?:,([^}]*))?\}")


def fill_variables(value: Any) -> Any:
    """The settings with every `${oc.env:NAME}` replaced by the value of the variable.

    Raises:
        ConfigError: A variable is not set and has no default.
    """
    if isinstance(value, Mapping):
        return {key: fill_variables(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [fill_variables(item) for item in value]
    if not isinstance(value, str):
        return value
    alone = _VARIABLE.fullmatch(value)
    if alone and alone[2] == "null" and alone[1] not in os.environ:
        return None
    return _VARIABLE.sub(_variable, value)


def has_variable(value: Any) -> bool:
    """Whether a value is a text with `${oc.env:NAME}` in it."""
    return isinstance(value, str) and _VARIABLE.search(value) is not None


def _variable(match: re.Match[str]) -> str:
    name, default = match.groups()
    value = os.environ.get(name, default)
    if value is None:
        raise ConfigError(
            f"the environment variable {name} is not set: set it, or write a default value: "
            f"${{oc.env:{name},DEFAULT}}"
        )
    return value
