"""Environment variables in settings, and a check for secrets that are written in plain text."""

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from rlexp.errors import ConfigError
from rlexp.protocol.spec import SETTABLE
from rlexp.store.secret_names import is_secret_name
from rlexp.store.secrets import is_setting, mask_known, secret_values

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
    # A default of `null` means no value, but inside a longer text it is the word null.
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


RECORDED_KEYS = (*SETTABLE, "tracker")
"""Sections whose values are stored in records and shown in printed commands."""
# A word under one of these names is a secret. Other names that logs mask have harmless values too
# (`signature: euclidean`).
_SECRET_NAME = re.compile(
    r"(.*[_-])?(api_?key|access_?key|secret(_?key)?|(access|auth|api)_?token|passw(or)?d)",
    re.IGNORECASE,
)
_MIN_LENGTH = 6


def find_secrets(settings: Mapping[str, Any]) -> list[str]:
    """One sentence for each secret in the recorded sections of a configuration.

    Secrets are values of keys such as `api_key` or `password`, logins inside addresses, and the
    values of environment variables with such names.
    """
    values = secret_values(os.environ)
    recorded = {part: settings.get(part) for part in RECORDED_KEYS}
    return [
        f"{path} holds a secret in plain text, which would be written to disk: put the secret "
        f"into an environment variable and write '${{oc.env:{_variable_name(path)}}}'"
        for path, key, text in texts_with_paths(recorded)
        if not has_variable(text) and _is_secret(key, text, values)
    ]


def _is_secret(key: str, text: str, values: frozenset[str]) -> bool:
    named = _SECRET_NAME.fullmatch(key) or (is_secret_name(key) and not is_setting(text))
    return (len(text) >= _MIN_LENGTH and bool(named)) or mask_known(text, values) != text


def texts_with_paths(
    settings: Any, path: str = "", key: str = ""
) -> Iterator[tuple[str, str, str]]:
    """Every text of nested settings as (its path below `path`, its key, the text)."""
    if isinstance(settings, Mapping):
        for name, value in settings.items():
            yield from texts_with_paths(value, f"{path}.{name}".lstrip("."), str(name))
    elif isinstance(settings, list | tuple):
        for number, value in enumerate(settings):
            yield from texts_with_paths(value, f"{path}.{number}", key)
    elif isinstance(settings, str):
        yield path, key, settings


def _variable_name(path: str) -> str:
    """A name for an environment variable, made from the last part of a path."""
    return re.sub(r"\W", "_", path.rpartition(".")[2]).upper()
