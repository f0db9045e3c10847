"""Secrets that stand in a configuration in plain text, and so would be written to disk."""

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from rlexp.config.variables import has_variable
from rlexp.store.secrets import mask_known, secret_values

RECORDED_KEYS = ("agent", "algorithm", "environment", "budget", "compute", "tracker")
"""What records and printed commands hold word for word."""
# Narrower than what is masked: many a harmless setting is called a key.
_SECRET_NAME = re.compile(
    r"(.*[_-])?(api_?key|access_?key|secret(_?key)?|(access|auth|api)_?token|passw(or)?d)",
    re.IGNORECASE,
)
_MIN_LENGTH = 6


def find_secrets(settings: Mapping[str, Any]) -> list[str]:
    """A sentence for each secret in the part of a configuration that is recorded.

    A secret is what stands under the name of one, the login of an address, and the value of a
    variable of the environment whose name says that it is one.
    """
    values = secret_values(os.environ)
    recorded = {part: settings.get(part) for part in RECORDED_KEYS}
    return [
        f"{path} holds a secret in plain text, which would be written to disk: keep it in an "
        f"environment variable, and write '${{oc.env:{_variable_name(path)}}}'"
        for path, key, text in texts(recorded)
        if not has_variable(text) and _is_secret(key, text, values)
    ]


def _is_secret(key: str, text: str, values: frozenset[str]) -> bool:
    named = len(text) >= _MIN_LENGTH and _SECRET_NAME.fullmatch(key) is not None
    return named or mask_known(text, values) != text


def texts(settings: Any, path: str = "", key: str = "") -> Iterator[tuple[str, str, str]]:
    """Every text with its path, which begins with `path`, and the name that it stands under."""
    if isinstance(settings, Mapping):
        for name, value in settings.items():
            yield from texts(value, f"{path}.{name}".lstrip("."), str(name))
    elif isinstance(settings, list | tuple):
        for number, value in enumerate(settings):
            yield from texts(value, f"{path}.{number}", key)
    elif isinstance(settings, str):
        yield path, key, settings


def _variable_name(path: str) -> str:
    """A name for the variable: that of the setting."""
    return re.sub(r"\W", "_", path.rpartition(".")[2]).upper()
