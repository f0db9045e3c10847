"""Masks secrets before anything reaches a file, a log or a screen."""

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import quote, unquote

MASK = "********"
# Repetitions are bounded: without a bound, a long line without spaces would take minutes.
_PREFIX = r"(?:[a-z0-9]{1,40}[_-]){0,20}"
_PLAIN = r"api[_-]?key|key|token|secret|credentials?|dsn|sig(?:nature)?|[a-z]{0,20}passw(?:or)?d"
_CAMEL = r"(?-i:[a-z0-9]{1,20}(?:Key|Token|Secret|Credentials?|Passw(?:or)?d|Signature))"
_NAMES = rf"{_PREFIX}(?:{_PLAIN}|{_CAMEL}|(?<=[_-])pwd)"
_SECRET_NAME = re.compile(_NAMES, re.IGNORECASE)
# Behind `user:`, a password may hold nearly any character, a slash included; the number in
# `host:8080/` is a port and no password.
_LOGIN = r"[^/\s@:'\"]{0,200}:(?!\d{1,5}/)[^\s@'\"]{0,500}|[^/\s@'\"]{1,500}"
_URL_LOGIN = re.compile(
    rf"(?P<scheme>[a-z][a-z0-9+.-]{{0,20}}://)(?P<login>{_LOGIN})@", re.IGNORECASE
)
_ASSIGNMENT = re.compile(
    rf"(?P<name>\b{_NAMES}['\"]?\s*[=:]\s*['\"]?)(?P<value>(?<=')[^'\n]+|(?<=\")[^\"\n]+|[^\s'\"&,;}}]+)",
    re.IGNORECASE,
)
# In code, `token: int` is an annotation: only a string literal counts as a secret.
_LITERAL = re.compile(
    rf"(?P<name>\b{_NAMES}['\"]?\s*[=:]\s*)(?P<value>'[^'\n]{{6,}}'|\"[^\"\n]{{6,}}\")",
    re.IGNORECASE,
)
_BEARER = re.compile(r"(?P<name>\b(?:bearer|basic)\s+)[a-z0-9._~+/-]{8,}=*", re.IGNORECASE)
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.{0,20000}?-----END [A-Z ]{0,40}PRIVATE KEY-----",
    re.DOTALL,
)
_SHORTEST = 6
SECRET_FILES = (
    *(".env", ".env.*", "*.env", ".envrc", ".netrc", ".pgpass", ".npmrc", ".pypirc", ".htpasswd"),
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keytab", "*.kdbx", "id_rsa*", "id_ed25519*"),
    *("credentials", "*credentials.json", "*credentials.y*ml", "*credentials.ini"),
    *("secrets", "*secrets.json", "*secrets.y*ml", "*secrets.toml", "*secrets.ini"),
)
"""Patterns of file names that usually hold secrets, compared in lower case."""
SETTINGS = (".yaml", ".yml", ".json", ".toml", ".ini", ".cfg", ".conf", ".properties", ".sh")
"""Endings of settings files: there the text behind a secret's name is a value, not code."""


def is_secret_name(name: str) -> bool:
    """Whether a variable or key with this name holds a secret (`API_KEY`, not `num_tokens`)."""
    return _SECRET_NAME.fullmatch(name) is not None


def is_secret_file(path: str) -> bool:
    """Whether a file with this name usually holds secrets and little else."""
    name = path.rpartition("/")[2].lower()
    return any(fnmatchcase(name, pattern) for pattern in SECRET_FILES)


def is_settings_file(path: str) -> bool:
    """Whether a file with this name holds settings rather than code."""
    return path.lower().endswith(SETTINGS)


def secret_values(environment: Mapping[str, str]) -> frozenset[str]:
    """The secret values of environment variables, which no file and no screen may show.

    These are the values of variables with a secret name, and the passwords of URLs in any
    variable; each as written, and percent-encoded as in a URL.
    """
    secrets: set[str] = set()
    for name, value in environment.items():
        if is_secret_name(name):
            secrets.add(value)
        secrets.update(_passwords(value))
    # Short values are left alone: masking every `1` or `true` would destroy a text.
    return frozenset(
        form
        for value in secrets
        for form in (value, quote(value, safe=""))
        if len(form) >= _SHORTEST
    )


def _passwords(text: str) -> Iterator[str]:
    """The passwords of the URLs in a text."""
    for match in _URL_LOGIN.finditer(text):
        password = match["login"].partition(":")[2]
        yield password
        yield unquote(password)


def mask(text: str, values: frozenset[str] = frozenset()) -> str:
    """Mask known secret values, logins in URLs, and values behind secret names."""
    return _ASSIGNMENT.sub(rf"\g<name>{MASK}", mask_known(text, values))


def mask_code(text: str, values: frozenset[str] = frozenset()) -> str:
    """Mask like `mask`, but behind a secret name only string literals (not `token: int`)."""
    return _LITERAL.sub(rf'\g<name>"{MASK}"', mask_known(text, values))


def mask_known(text: str, values: frozenset[str]) -> str:
    """Mask known secret values, private keys, bearer tokens and logins in URLs."""
    text = _PRIVATE_KEY.sub(MASK, mask_values(text, values))
    text = _BEARER.sub(rf"\g<name>{MASK}", text)
    return _URL_LOGIN.sub(rf"\g<scheme>{MASK}@", text)


def mask_values(text: str, values: frozenset[str]) -> str:
    """Mask known secret values only."""
    # Longest first: a secret that is part of another would leave the rest of the other behind.
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, MASK)
    return text


def without_secrets(arguments: Iterable[str]) -> tuple[str, ...]:
    """The arguments of a command without those that hold a secret, to show or repeat it."""
    return tuple(argument for argument in arguments if mask(argument) == argument)


def mask_all(document: Any, values: frozenset[str] = frozenset()) -> Any:
    """Mask every string in a structure of JSON values, and every value under a secret name."""
    if isinstance(document, Mapping):
        return {
            key: MASK
            if is_secret_name(str(key)) and isinstance(item, str)
            else mask_all(item, values)
            for key, item in document.items()
        }
    if isinstance(document, list | tuple):
        return [mask_all(item, values) for item in document]
    return mask(document, values) if isinstance(document, str) else document
