"""A training script in any language or library: a command, and the settings that it is given."""

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import Any, ClassVar

from rlexp.errors import ConfigError, RecordError, did_you_mean
from rlexp.protocol.identity import Identity

NAME = re.compile(r"[A-Za-z0-9_]{1,60}")
PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")
PLACEHOLDERS = (
    *("configuration", "device", "folder", "python", "results", "seed", "steps", "task"),
    "threads",
)
"""What a command can name besides its settings."""
SETTINGS = "settings."
"""Begins the placeholders of settings (`{settings.learning_rate}`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class External:
    """A script that trains by itself and writes its results as JSON lines.

    `docs/external.md` says what it is given, and what it has to write.
    """

    identity: ClassVar = Identity("algorithm", "external")

    policies: ClassVar[tuple[str, ...]] = ()
    actions: ClassVar[tuple[str, ...]] = ()

    name: str
    """The name under which its runs are reported (letters, digits and _)."""
    command: str
    """The command, in the words of a shell but without one: `python train.py --seed {seed}`."""
    files: dict[str, str] | tuple[str, ...] | None
    """Files whose content is part of a run's identity, or patterns (`src/*.py`); null takes those
    that the command names. Once the files have been read: the sha256 of each."""
    settings: dict[str, Any]
    """Hyperparameters, of whatever names the script knows."""

    def __post_init__(self) -> None:
        """Refuse a command that cannot be started, and read the sums of the files."""
        if not NAME.fullmatch(self.name):
            raise ConfigError(
                f"algorithm.name={self.name!r} is no name: write up to 60 letters, digits and _"
            )
        words = _split(self.command)
        known = [*PLACEHOLDERS, *(f"{SETTINGS}{key}" for key, _ in _leaves(self.settings))]
        for name in _placeholders(words):
            if name not in known:
                raise ConfigError(
                    f"algorithm.command: there is no placeholder {{{name}}}"
                    f"{did_you_mean(name, known)} (there are: {', '.join(known)}; "
                    "write {{ and }} for braces)"
                )
        if not isinstance(self.files, Mapping):
            object.__setattr__(
                self,
                "files",
                files_named(self.command, self.settings)
                if self.files is None
                else {name: _sum(name) for name in _matched(self.files)},
            )

    def check(self, environments: int) -> None:
        """Every number of environments will do: the script makes them."""

    def words(self, values: Mapping[str, str]) -> list[str]:
        """The words of the command.

        Args:
            values: What each of `PLACEHOLDERS` stands for.
        """
        given = {f"{{{name}}}": value for name, value in values.items()}
        known = {"{{": "{", "}}": "}", **given, **_texts(self.settings)}
        return [
            PLACEHOLDER.sub(lambda found: known[found[0]], word) for word in _split(self.command)
        ]

    def check_files(self) -> None:
        """Refuse to go on with other files than those that define the run.

        Raises:
            RecordError: One is gone or was edited; names all of them.
        """
        assert isinstance(self.files, Mapping)
        changed = [name for name, text in self.files.items() if _sum_if_there(name) != text]
        if changed:
            raise RecordError(
                f"{', '.join(changed)} changed since the run was asked for, and its content is "
                "part of what defines the run: put it back, or ask for it under another "
                "experiment=…"
            )


def settings_named(command: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that a command names, by their dotted key."""
    named = {found[1] for found in PLACEHOLDER.finditer(command)}
    return {key: value for key, value in _leaves(settings) if f"{SETTINGS}{key}" in named}


def files_named(command: str, settings: Mapping[str, Any]) -> dict[str, str]:
    """The sha256 of each file that a command names, itself or by a setting.

    Raises:
        ConfigError: The command or a file cannot be read.
    """
    texts = _texts(settings)
    words = [
        PLACEHOLDER.sub(lambda found: texts.get(found[0], found[0]), word)
        for word in _split(command)
    ]
    return {name: _sum(name) for name in _named(words)}


def _split(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigError(f"algorithm.command={command!r} cannot be read: {error}") from error
    if not words:
        raise ConfigError("algorithm.command is empty: write algorithm.command='python train.py'")
    return words


def _placeholders(words: Iterable[str]) -> Iterator[str]:
    for word in words:
        for found in PLACEHOLDER.finditer(word):
            if found[1] is not None:
                yield found[1]
        if "{" in (rest := PLACEHOLDER.sub("", word)) or "}" in rest:
            raise ConfigError(
                f"algorithm.command: a brace of {word!r} is alone: write {{{{ or }}}} for one"
            )


def _leaves(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every setting that is no mapping, by its dotted key."""
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _texts(settings: Mapping[str, Any]) -> dict[str, str]:
    """What the placeholder of each setting stands for."""
    return {
        f"{{{SETTINGS}{key}}}": value if isinstance(value, str) else json.dumps(value)
        for key, value in _leaves(settings)
    }


def _named(words: list[str]) -> list[str]:
    """The files that a command names, but for a program by its absolute path."""
    found = []
    for place, word in enumerate(words):
        name = word.rpartition("=")[2]
        if place and words[place - 1] == "-m":
            module = word.replace(".", "/")
            found += [n for n in (f"{module}.py", f"{module}/__main__.py") if Path(n).is_file()]
        elif (place or not Path(name).is_absolute()) and _is_file(name):
            found.append(name)
    return sorted(set(found))


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except (OSError, ValueError):
        return False


def _matched(patterns: Iterable[str]) -> list[str]:
    found: set[str] = set()
    for pattern in patterns:
        is_pattern = "*" in pattern and not Path(pattern).is_absolute()
        matches = Path().glob(pattern) if is_pattern else [Path(pattern)]
        files = [str(path) for path in matches if _is_file(str(path))]
        if not files:
            raise ConfigError(
                f"algorithm.files: {pattern!r} is no file, seen from {Path.cwd()}: name files, "
                "or patterns such as src/*.py"
            )
        found.update(files)
    return sorted(found)


def _sum(name: str) -> str:
    try:
        with Path(name).open("rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ConfigError(f"algorithm.files: {name} cannot be read: {error.strerror}") from error


def _sum_if_there(name: str) -> str | None:
    try:
        return _sum(name)
    except ConfigError:
        return None
