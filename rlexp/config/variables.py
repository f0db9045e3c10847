"""Environment variables in a configuration: kept as written, filled in where they are used."""

import os
import re
from collections.abc import Mapping
from typing import Any

from rlexp.errors import ConfigError

_VARIABLE = re.compile(r"\$\{oc\.env:([^,}]+)(?:,([^}]*))?\}")


def fill_variables(plain: Any) -> Any:
    """Replace `${oc.env:NAME}` by the variable's value, where the value is used.

    Raises:
        ConfigError: The variable is not set and has no default.
    """
    if isinstance(plain, Mapping):
        return {key: fill_variables(value) for key, value in plain.items()}
    if isinstance(plain, list | tuple):
        return [fill_variables(value) for value in plain]
    if not isinstance(plain, str):
        return plain
    alone = _VARIABLE.fullmatch(plain)
    if alone and alone[2] == "null" and alone[1] not in os.environ:
        return None
    return _VARIABLE.sub(_variable, plain)


def has_variable(plain: Any) -> bool:
    """Whether a value is text that holds `${oc.env:NAME}`."""
    return isinstance(plain, str) and _VARIABLE.search(plain) is not None


def _variable(found: re.Match[str]) -> str:
    name, default = found.groups()
    value = os.environ.get(name, default)
    if value is None:
        raise ConfigError(f"the environment variable {name} is not set; set it or give a default")
    return value
