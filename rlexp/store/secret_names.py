"""Decides by its name whether a variable, a key of a setting or a file holds a secret."""

import re
from collections.abc import Sequence
from enum import IntEnum
from fnmatch import fnmatchcase
from functools import lru_cache

SECRET_FILES = (
    *(".env", ".env.*", "*.env", ".envrc", ".netrc", ".pgpass", ".npmrc", ".pypirc", ".htpasswd"),
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keytab", "*.kdbx", "id_rsa*", "id_ed25519*"),
    *("credentials", "*credentials.json", "*credentials.y*ml", "*credentials.ini"),
    *("secrets", "*secrets.json", "*secrets.y*ml", "*secrets.toml", "*secrets.ini"),
)
"""Patterns of file names that usually hold secrets, compared in lower case."""
SETTINGS = (".yaml", ".yml", ".json", ".toml", ".ini", ".cfg", ".conf", ".properties", ".sh")
"""Endings of settings files: there the text behind a secret's name is a value, not code."""
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_SUFFIXES = frozenset(
    (
        *("prod", "production", "dev", "development", "staging", "test", "base", "value"),
        *("old", "new", "backup", "primary", "secondary"),
    )
)
"""Words behind which a name still means the same (`API_KEY_PROD`)."""
_SECRET_WORDS = frozenset(
    (
        *("token", "secret", "credential", "password", "passwd", "passphrase", "passcode"),
        *("dsn", "sig", "signature", "jwt", "webhook"),
    )
)
"""Words at the end of a name that mean a secret wherever they stand."""
_SECRET_ENDINGS = ("token", "secret", "password", "passwd", "passphrase")
"""Endings of a longer word that mean a secret (`PGPASSWORD`, `NGROK_AUTHTOKEN`)."""
_KEY_OWNERS = frozenset(
    (
        *(
            "api",
            "access",
            "secret",
            "private",
            "auth",
            "account",
            "encryption",
            "signing",
            "master",
        ),
        *("ssh", "service", "shared", "subscription", "deploy", "admin", "aes", "rsa", "hmac"),
        *("storage", "client", "license"),
    )
)
"""Words before `key` that make it a secret (`api_key`, `ACCESSKEY`)."""
_PASS_OWNERS = frozenset(
    (
        *(
            "ssh",
            "db",
            "user",
            "root",
            "admin",
            "smtp",
            "mysql",
            "pg",
            "ftp",
            "mail",
            "redis",
            "vnc",
        ),
        *("login", "key", "store", "http", "proxy"),
    )
)
"""Words that `pass` follows without a separator (`SSHPASS`, but not `COMPASS`)."""
_ORDINARY_OWNERS = frozenset(
    (
        *("max", "min", "n", "num", "number", "total", "count", "public", "per", "next"),
        *("pad", "eos", "bos", "unk", "sep", "cls", "mask", "special", "stop", "start", "end"),
    )
)
"""Words before `token` or `key` that make it a setting (`max_tokens`, `pad_token`)."""
_SECRET_PAIRS = frozenset(
    (
        *((owner, "key") for owner in _KEY_OWNERS),
        *(("webhook", "url"), ("webhook", "uri"), ("connection", "string"), ("conn", "string")),
    )
)
"""Two words at the end of a name that mean a secret together."""
_AMBIGUOUS_WORDS = frozenset(("key", "pass", "pat", "auth"))
"""Words at the end of a name that mean a secret in some places and a setting in others."""


class Secrecy(IntEnum):
    """How surely a name says that its value is a secret."""

    NONE = 0
    POSSIBLE = 1
    LIKELY = 2
    CERTAIN = 3


@lru_cache(maxsize=4096)
def secrecy_of(name: str) -> Secrecy:
    """How surely a variable or key with this name holds a secret.

    `CERTAIN` names are secret everywhere (`API_KEY`). `LIKELY` names are secret as an environment
    variable and may be a setting elsewhere (`GITHUB_PAT`, but `pat`; `API_TOKENS`, but `tokens`).
    `POSSIBLE` names say little (`SORT_KEY`, `OPENAI_KEY`): the value decides.
    """
    words = [word.lower() for word in _WORD.findall(name)]
    while words and (words[-1].isdigit() or words[-1] in _SUFFIXES):
        words.pop()
    if not words:
        return Secrecy.NONE
    *owners, word = words
    singular = word.removesuffix("s")
    if owners and owners[-1] in _ORDINARY_OWNERS:
        # A password stays one behind such a word (`MAX_PASSWORD`), a number of tokens does not.
        return _of_words(owners, singular) if "passw" in word else Secrecy.NONE
    plural = word != singular and singular in {"token", "key"}
    return _of_plural(owners, singular) if plural else _of_words(owners, word)


def is_secret_name(name: str) -> bool:
    """Whether a key with this name holds a secret whatever its value (`api_key`, not `key`)."""
    return secrecy_of(name) is Secrecy.CERTAIN


def _of_plural(owners: Sequence[str], word: str) -> Secrecy:
    """The secrecy of `…tokens` or `…keys`."""
    if word == "token":
        return Secrecy.LIKELY
    return Secrecy.LIKELY if owners and owners[-1] in _KEY_OWNERS else Secrecy.NONE


def _of_words(owners: Sequence[str], word: str) -> Secrecy:
    if word == "pwd":  # `PWD` is the working folder.
        return Secrecy.CERTAIN if owners else Secrecy.NONE
    if (owners and (owners[-1], word) in _SECRET_PAIRS) or _is_secret_word(word):
        return Secrecy.CERTAIN
    if word not in _AMBIGUOUS_WORDS:
        return Secrecy.NONE
    return Secrecy.LIKELY if word in {"pass", "pat"} and owners else Secrecy.POSSIBLE


def _is_secret_word(word: str) -> bool:
    return not _SECRET_WORDS.isdisjoint({word, word.removesuffix("s")}) or _is_glued(word)


def _is_glued(word: str) -> bool:
    """Whether a word without separators ends like a secret (`apikey`, `sshpass`)."""
    return (
        word.endswith(_SECRET_ENDINGS)
        or word.removesuffix("s").removesuffix("key") in _KEY_OWNERS - {word}
        or (word.endswith("pass") and word.removesuffix("pass") in _PASS_OWNERS)
        or word in {"connectionstring", "connstring"}
    )


def is_secret_file(path: str) -> bool:
    """Whether a file with this name usually holds secrets and little else."""
    name = path.rpartition("/")[2].lower()
    return any(fnmatchcase(name, pattern) for pattern in SECRET_FILES)


def is_settings_file(path: str) -> bool:
    """Whether a file with this name holds settings rather than code."""
    return path.lower().endswith(SETTINGS)
