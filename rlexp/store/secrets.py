"""Masks secrets before anything reaches a file, a log or a screen."""

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote, quote_plus, unquote

from rlexp.store.secret_names import Secrecy, secrecy_of

MASK = "********"
# Behind `user:`, a password may hold nearly any character, a slash included; the number in
# `host:8080/` is a port and no password.
_LOGIN = r"[^/\s@:'\"]{0,200}:(?!\d{1,5}/)[^\s@'\"]{0,500}|[^/\s@'\"]{1,500}"
_URL_LOGIN = re.compile(
    rf"(?P<scheme>[a-z][a-z0-9+.-]{{0,20}}://)(?P<login>{_LOGIN})@", re.IGNORECASE
)
# Possessive repetitions (`++`) are never tried again with fewer characters: without them, a long
# line without spaces would take minutes.
_NAME = re.compile(r"(?<![\w-])([\w-]++)(?:\\*['\"])?\s*+[=:]\s*+(?:\\*(?=['\"]))?")
"""A name and its `=` or `:`, up to the quotation mark of the value."""
_VALUE = re.compile(
    r"(?<=\\)'(?P<a>(?:(?!\\').)+)|(?<=\\)\"(?P<b>(?:(?!\\\").)+)"
    r"|'(?P<c>(?:\\.|[^'\\\n])+)|\"(?P<d>(?:\\.|[^\"\\\n])+)"
    r"|(?P<e>\$\{[^}\n]*\}|[^\s'\"&,;}]+)"
)
# In code, `token: int` is an annotation: only a string literal counts as a secret.
_LITERAL = re.compile(r"'(?P<a>[^'\n]{6,})'|\"(?P<b>[^\"\n]{6,})\"")
# Lower case alone is prose (`basic environments`), no credential.
_BEARER = re.compile(
    r"(?P<name>\b(?:bearer|basic)\s+)(?-i:(?=[^\s]{0,500}[A-Z0-9=]))[a-z0-9._~+/-]{8,}=*",
    re.IGNORECASE,
)
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.{0,20000}?-----END [A-Z ]{0,40}PRIVATE KEY-----",
    re.DOTALL,
)
_KNOWN_FORMATS = re.compile(
    r"\b(?:gh[pousr]_[A-Za-z0-9]{30,255}|github_pat_\w{22,255}|glpat-[\w-]{20,255}"
    r"|hf_[A-Za-z0-9]{30,255}|sk-(?:proj-|ant-)?[A-Za-z0-9_-]{32,255}"
    r"|xox[abprs]-[A-Za-z0-9-]{10,255}|(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])"
    r"|eyJ[\w-]{10,2000}\.eyJ[\w-]{10,2000}\.[\w-]{10,2000})"
    r"|(?<=://hooks\.slack\.com/services/)[\w/-]{10,255}"
)
"""Tokens of well-known services, which their first characters betray."""
_REFERENCE = re.compile(r"\$\{[^}]*\}?|none|null|true|false", re.IGNORECASE)
"""Values that are no secret under any name: references to variables, and the lack of a value."""
_SETTING = re.compile(
    r"[a-z]+(?:[_. -][a-z]+)*|[+-]?[0-9.]+(?:e[+-]?[0-9]+)?|(?:~|\.{1,2})?(?:/[\w.-]+){2,}",
    re.IGNORECASE,
)
"""Values that are settings under a name that says little: words, numbers and paths."""
_RANDOM = re.compile(r"(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[A-Za-z0-9]{16,}")
"""Sixteen letters and digits in a row, of both kinds, are no word of a setting."""
_SHORTEST = 6
_NO_SECRETS = frozenset(("enabled", "disabled", "required", "optional"))
"""Words that people set a secret's variable to and that are no secret."""


def secret_values(environment: Mapping[str, str]) -> frozenset[str]:
    """The secret values of environment variables, which no file and no screen may show.

    These are the values of variables with a secret name, and the passwords of URLs in any
    variable; each in every form in which programs write it (`forms_of`).
    """
    secrets: set[str] = set()
    for name, value in environment.items():
        if secrecy := secrecy_of(name):
            secrets.update(_of_variable(secrecy, name, value))
        if "://" in value:
            secrets.update(_passwords(value))
    # Short values are left alone: masking every `1` or `true` would destroy a text.
    return frozenset(
        form
        for value in secrets
        if len(value) >= _SHORTEST and value.lower() not in _NO_SECRETS
        for form in forms_of(value)
    )


def _of_variable(secrecy: Secrecy, name: str, value: str) -> Iterator[str]:
    """The secrets in the value of an environment variable with a name of this secrecy."""
    if secrecy is Secrecy.POSSIBLE and is_setting(value):
        return
    yield value
    if name.lower().endswith("s"):
        # `API_KEYS` holds several, of which a program uses one at a time.
        yield from re.split(r"[,;\s]+", value)


def is_setting(value: str) -> bool:
    """Whether a value is plainly that of a setting: words, a number or a path."""
    return _SETTING.fullmatch(value) is not None and _RANDOM.search(value) is None


@lru_cache(maxsize=1024)
def forms_of(value: str) -> tuple[str, ...]:
    """A value as it is, and as `repr`, JSON, URLs and base64 write it.

    A quotation mark is escaped in some texts and not in others, and base64 stands with and without
    its padding, and often for the value with a line break behind it (`echo $TOKEN | base64`).
    """
    content = value.encode(errors="surrogateescape")
    forms = [
        value,
        *(repr(value)[1:-1], repr(f'"{value}')[2:-1]),
        *(repr(content)[2:-1], repr(b'"' + content)[3:-1]),
        *(json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]),
        *(quote(content, safe=""), quote(content), quote_plus(content)),
        *(
            encoded
            for encode in (b64encode, urlsafe_b64encode)
            for text in (content, content + b"\n")
            for padded in [encode(text).decode()]
            for encoded in (padded, padded.rstrip("="))
        ),
    ]
    return tuple(dict.fromkeys(forms))


def _passwords(text: str) -> Iterator[str]:
    """The passwords and tokens in the logins of the URLs in a text."""
    for match in _URL_LOGIN.finditer(text):
        user, _, password = match["login"].partition(":")
        for part in (password, user if _RANDOM.search(user) else ""):
            yield part
            yield unquote(part)


def mask(text: str, values: frozenset[str] = frozenset()) -> str:
    """Mask known secret values, logins in URLs, and values behind secret names."""
    return _mask_assignments(mask_known(text, values), _VALUE)


def mask_code(text: str, values: frozenset[str] = frozenset()) -> str:
    """Mask like `mask`, but behind a secret name only string literals (not `token: int`)."""
    return _mask_assignments(mask_known(text, values), _LITERAL)


def _mask_assignments(text: str, values: re.Pattern[str]) -> str:
    """Mask the secrets among the values behind names; `values` describes a value."""
    pieces, end = [], 0
    for name in _NAME.finditer(text):
        # The value of an ordinary name may hold another assignment (`url: …?token=…`), so that
        # names alone are looked for.
        value = values.match(text, name.end()) if secrecy_of(name[1]) else None
        if value is None or name.start() < end:
            continue
        group = str(value.lastgroup)
        if _is_secret(name[1], value[group]):
            pieces += [text[end : value.start(group)], MASK]
            end = value.end(group)
    return "".join([*pieces, text[end:]])


def _is_secret(name: str, value: str) -> bool:
    """Whether a setting of this name with this value holds a secret.

    A name that may be that of an ordinary setting (`key: is_success`) does not suffice: then the
    value has to look like one too.
    """
    secrecy = secrecy_of(name)
    if secrecy is Secrecy.NONE or _REFERENCE.fullmatch(value):
        return False
    return secrecy is Secrecy.CERTAIN or _RANDOM.search(value) is not None


def mask_known(text: str, values: frozenset[str]) -> str:
    """Mask known secret values, private keys, bearer tokens and logins in URLs."""
    text = _PRIVATE_KEY.sub(MASK, mask_values(text, values))
    text = _KNOWN_FORMATS.sub(MASK, text)
    text = _BEARER.sub(rf"\g<name>{MASK}", text)
    return _URL_LOGIN.sub(rf"\g<scheme>{MASK}@", text)


def mask_values(text: str, values: frozenset[str]) -> str:
    """Mask known secret values only."""
    for value in _longest_first(values):
        text = text.replace(value, MASK)
    return text


@lru_cache(maxsize=16)
def _longest_first(values: frozenset[str]) -> tuple[str, ...]:
    # A secret that is part of another would leave the rest of the other behind.
    return tuple(sorted(values, key=len, reverse=True))


def without_secrets(arguments: Iterable[str]) -> tuple[str, ...]:
    """The arguments of a command without those that hold a secret, to show or repeat it."""
    return tuple(argument for argument in arguments if mask(argument) == argument)


def mask_all(document: Any, values: frozenset[str] = frozenset()) -> Any:
    """Mask every string in a structure of JSON values, and every value under a secret name."""
    if isinstance(document, Mapping):
        return {key: _masked_item(str(key), item, values) for key, item in document.items()}
    if isinstance(document, list | tuple):
        return [mask_all(item, values) for item in document]
    return mask(document, values) if isinstance(document, str) else document


def _masked_item(name: str, item: Any, values: frozenset[str]) -> Any:
    if isinstance(item, str):
        return MASK if _is_secret(name, item) else mask(item, values)
    if isinstance(item, list | tuple) and secrecy_of(name):
        return [_masked_item(name, element, values) for element in item]
    return mask_all(item, values)
