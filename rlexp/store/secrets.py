"""Masks secrets before anything reaches a file, a log or a screen."""

import re
from collections.abc import Mapping
from typing import Any

MASK = "********"
# Bounded, or a long line without spaces would take minutes.
_PREFIX = r"(?:[a-z0-9]{1,40}[_-]){0,20}"
_NAMES = rf"{_PREFIX}(?:api[_-]?key|key|token|secret|credentials?|dsn|[a-z]{{0,20}}passw(?:or)?d|(?<=[_-])pwd)"
_SECRET_NAME = re.compile(_NAMES, re.IGNORECASE)
_URL_LOGIN = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]{0,20}://)(?P<login>[^/\s@'\"]+)@",
    re.IGNORECASE,
)
_ASSIGNMENT = re.compile(
    rf"(?P<name>\b{_NAMES}['\"]?\s*[=:]\s*['\"]?)(?P<value>(?<=')[^'\n]+|(?<=\")[^\"\n]+|[^\s'\"&,;}}]+)",
    re.IGNORECASE,
)
# In code, a name with a colon is an annotation; only a literal is a secret's value.
_LITERAL = re.compile(
    rf"(?P<name>\b{_NAMES}['\"]?\s*[=:]\s*)(?P<value>'[^'\n]{{6,}}'|\"[^\"\n]{{6,}}\")",
    re.IGNORECASE,
)
_BEARER = re.compile(r"(?P<name>\b(?:bearer|basic)\s+)[a-z0-9._~+/-]{8,}=*", re.IGNORECASE)
_SHORTEST = 6


def is_secret_name(name: str) -> bool:
    """Whether a variable or key with this name holds a secret (`API_KEY`, not `num_tokens`)."""
    return _SECRET_NAME.fullmatch(name) is not None


def secret_values(environment: Mapping[str, str]) -> frozenset[str]:
    """The values of environment variables whose names say that they are secret."""
    return frozenset(
        value
        for name, value in environment.items()
        if is_secret_name(name) and len(value) >= _SHORTEST
    )


def mask(text: str, values: frozenset[str] = frozenset()) -> str:
    """Replace known secret values, logins in addresses and values of secret names."""
    return _ASSIGNMENT.sub(rf"\g<name>{MASK}", _mask_known(text, values))


def mask_code(text: str, values: frozenset[str] = frozenset()) -> str:
    """Mask like `mask`, but leave code as it is where no literal stands (`token: int`)."""
    return _LITERAL.sub(rf'\g<name>"{MASK}"', _mask_known(text, values))


def _mask_known(text: str, values: frozenset[str]) -> str:
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, MASK)
    text = _BEARER.sub(rf"\g<name>{MASK}", text)
    return _URL_LOGIN.sub(rf"\g<scheme>{MASK}@", text)


def mask_all(plain: Any, values: frozenset[str] = frozenset()) -> Any:
    """Mask every string in a structure of JSON values, and every value under a secret name."""
    if isinstance(plain, Mapping):
        return {
            key: MASK
            if is_secret_name(str(key)) and isinstance(item, str)
            else mask_all(item, values)
            for key, item in plain.items()
        }
    if isinstance(plain, list | tuple):
        return [mask_all(item, values) for item in plain]
    return mask(plain, values) if isinstance(plain, str) else plain
