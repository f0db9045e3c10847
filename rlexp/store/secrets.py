"""Masks secrets before anything reaches a file, a log or a screen."""

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import quote, unquote

MASK = "********"
# Bounded, or a long line without spaces would take minutes.
_PREFIX = r"(?:[a-z0-9]{1,40}[_-]){0,20}"
_PLAIN = r"api[_-]?key|key|token|secret|credentials?|dsn|sig(?:nature)?|[a-z]{0,20}passw(?:or)?d"
_CAMEL = r"(?-i:[a-z0-9]{1,20}(?:Key|Token|Secret|Credentials?|Passw(?:or)?d|Signature))"
_NAMES = rf"{_PREFIX}(?:{_PLAIN}|{_CAMEL}|(?<=[_-])pwd)"
_SECRET_NAME = re.compile(_NAMES, re.IGNORECASE)
# After a user's name a password may hold nearly anything, a slash too; a port is none.
_LOGIN = r"[^/\s@:'\"]{0,200}:(?!\d{1,5}/)[^\s@'\"]{0,500}|[^/\s@'\"]{1,500}"
_URL_LOGIN = re.compile(
    rf"(?P<scheme>[a-z][a-z0-9+.-]{{0,20}}://)(?P<login>{_LOGIN})@", re.IGNORECASE
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
"""Names of files that hold secrets and little else, whatever their letters' case."""
SETTINGS = (".yaml", ".yml", ".json", ".toml", ".ini", ".cfg", ".conf", ".properties", ".sh")
"""Endings of files in which what stands behind a secret's name is a value, not code."""


def is_secret_name(name: str) -> bool:
    """Whether a variable or key with this name holds a secret (`API_KEY`, not `num_tokens`)."""
    return _SECRET_NAME.fullmatch(name) is not None


def is_secret_file(path: str) -> bool:
    """Whether a file with this name is likely to hold secrets and little else."""
    name = path.rpartition("/")[2].lower()
    return any(fnmatchcase(name, pattern) for pattern in SECRET_FILES)


def is_settings_file(path: str) -> bool:
    """Whether a file with this name holds settings rather than code."""
    return path.lower().endswith(SETTINGS)


def secret_values(environment: Mapping[str, str]) -> frozenset[str]:
    """What no file and no screen may show of the environment's variables.

    That is the values of those whose names say that they are secret, and the passwords of
    addresses in any of them; as they are written, and as an address would write them.
    """
    found: set[str] = set()
    for name, value in environment.items():
        if is_secret_name(name):
            found.add(value)
        found.update(_passwords(value))
    return frozenset(
        form
        for value in found
        for form in (value, quote(value, safe=""))
        if len(form) >= _SHORTEST
    )


def _passwords(text: str) -> Iterator[str]:
    """The passwords of the addresses in a text."""
    for match in _URL_LOGIN.finditer(text):
        password = match["login"].partition(":")[2]
        yield password
        yield unquote(password)


def mask(text: str, values: frozenset[str] = frozenset()) -> str:
    """Replace known secret values, logins in addresses and values of secret names."""
    return _ASSIGNMENT.sub(rf"\g<name>{MASK}", mask_known(text, values))


def mask_code(text: str, values: frozenset[str] = frozenset()) -> str:
    """Mask like `mask`, but leave code as it is where no literal stands (`token: int`)."""
    return _LITERAL.sub(rf'\g<name>"{MASK}"', mask_known(text, values))


def mask_known(text: str, values: frozenset[str]) -> str:
    """Replace only what is a secret whatever stands before it: known values and logins."""
    text = _PRIVATE_KEY.sub(MASK, mask_values(text, values))
    text = _BEARER.sub(rf"\g<name>{MASK}", text)
    return _URL_LOGIN.sub(rf"\g<scheme>{MASK}@", text)


def mask_values(text: str, values: frozenset[str]) -> str:
    """Replace known values, and nothing else."""
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, MASK)
    return text


def without_secrets(words: Iterable[str]) -> tuple[str, ...]:
    """The words of a command but those that hold a secret: it can be shown, and given again."""
    return tuple(word for word in words if mask(word) == word)


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
