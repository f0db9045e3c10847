"""Secrets that stand in a configuration in plain text, and so would be written to disk."""

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from rlexp.config.variables import has_variable
from rlexp.store.secrets import mask_known, secret_values

RECORDED = ("agent", "algorithm", "environment", "budget", "compute", "tracker")
"""What records and printed commands hold word for word."""
# Narrower than what is masked: many a harmless setting is called a key.
_NAME = re.compile(
    r"(.*[_-])?(api_?key|access_?key|secret(_?key)?|(access|auth|api)_?token|passw(or)?d)",
    re.IGNORECASE,
)
_SHORTEST = 6


def find_plain_secrets(plain: Mapping[str, Any]) -> list[str]:
    """A sentence for each secret in the part of a configuration that is recorded.

    A secret is what stands under the name of one, the login of an address, and the value of a
    variable of the environment whose name says that it is one.
    """
    values = secret_values(os.environ)
    recorded = {part: plain.get(part) for part in RECORDED}
    return [
        f"{path} holds a secret in plain text, which would be written to disk: keep it in an "
        f"environment variable, and write '${{oc.env:{_variable(path)}}}'"
        for path, key, text in texts(recorded)
        if not has_variable(text) and _is_secret(key, text, values)
    ]


def _is_secret(key: str, text: str, values: frozenset[str]) -> bool:
    named = len(text) >= _SHORTEST and _NAME.fullmatch(key) is not None
    return named or mask_known(text, values) != text


def texts(plain: Any, path: str = "", key: str = "") -> Iterator[tuple[str, str, str]]:
    """Every text with its path, which begins with `path`, and the name that it stands under."""
    if isinstance(plain, Mapping):
        for name, value in plain.items():
            yield from texts(value, f"{path}.{name}".lstrip("."), str(name))
    elif isinstance(plain, list | tuple):
        for number, value in enumerate(plain):
            yield from texts(value, f"{path}.{number}", key)
    elif isinstance(plain, str):
        yield path, key, plain


def _variable(path: str) -> str:
    """A name for the variable: that of the setting."""
    return re.sub(r"\W", "_", path.rpartition(".")[2]).upper()
