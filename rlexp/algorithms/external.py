"""The algorithm plug-in for a training script in any language: a command and its settings."""

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import file_digest
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Gt

from rlexp.errors import ConfigError, RecordError, did_you_mean
from rlexp.protocol.identity import Identity
from rlexp.protocol.units import Unit

NAME = re.compile(r"[A-Za-z0-9_]{1,60}")
PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")
PLACEHOLDERS = (
    *("attempt", "configuration", "dataset", "device", "folder", "python", "recipes", "results"),
    *("seed", "steps", "task", "threads"),
)
"""Placeholders of a command besides those of settings."""
RECIPES_PLACEHOLDER = "recipes"
"""The placeholder of the folder of the scripts that rlexp brings along."""
DATASET = "dataset"
"""The placeholder of the folder of the dataset."""
RECIPES = "{recipes}/"
"""Beginning of the names of scripts that rlexp brings along."""
RECIPES_FOLDER = Path(__file__).parents[1] / "recipes"
Reports = Literal["returns", "components", "front"]
"""What an evaluation of a script is: a return for each episode, one for each component, or a front of policies."""
SETTINGS = "settings."
"""Prefix of the placeholders of settings (`{settings.learning_rate}`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class External:
    """A script that trains by itself and writes its results as JSON lines.

    `docs/guides/external.md` describes what the script receives and what it must write.
    """

    identity: ClassVar = Identity(
        "algorithm",
        "external",
        excluded=(
            *("continues", "hang_timeout", "unit", "reports", "choices", "example"),
            "checks",
        ),
    )

    policies: ClassVar[tuple[str, ...]] = ()
    actions: ClassVar[tuple[str, ...]] = ()

    name: str
    """The name under which its runs are reported (letters, digits and _)."""
    command: str
    """The command, quoted as in a shell but run without one: `python train.py --seed {seed}`."""
    files: dict[str, str] | tuple[str, ...] | None
    """Files whose content is part of a run's identity, or patterns (`src/*.py`); null takes those
    that the command names. Once the files have been read: the sha256 of each."""
    settings: dict[str, Any]
    """Hyperparameters, with the names that the script uses."""
    continues: bool = False
    """Whether the script continues from its own checkpoints, which it keeps in `{folder}`."""
    requirements: tuple[str, ...] | None = None
    """Packages of a virtual environment of the script's own (`sbx-rl==0.28.0`); null: none."""
    hang_timeout: Annotated[float, Gt(0)] | None = None
    """Seconds without a line after which the script is killed; null: `executor.hang_timeout`."""
    unit: Unit | None = None
    """Of a recipe: the unit in which the script counts its steps; `environment.unit` must be the same."""
    reports: Reports | None = None
    """Of a recipe: what its evaluations are; what the environment declares must fit. Null: not checked."""
    choices: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Of a recipe: the allowed values of settings, by dotted key (`algorithm.settings.algorithm`)."""
    example: tuple[str, ...] = ()
    """Of a recipe: further words of a command that trains with it (`environment=cartpole`)."""
    checks: bool = False
    """Whether the script is started once before its runs, to check its settings with `rlexp.trainer`."""

    def __post_init__(self) -> None:
        """Refuse an invalid name or command, and compute the sha256 of each file."""
        if not NAME.fullmatch(self.name):
            raise ConfigError(
                f"algorithm.name={self.name!r} is not a valid name: write up to 60 letters, "
                "digits and _"
            )
        arguments = _split(self.command)
        allowed = [*PLACEHOLDERS, *(f"{SETTINGS}{key}" for key, _ in leaves(self.settings))]
        for name in _placeholders(arguments):
            if name not in allowed:
                raise ConfigError(
                    f"algorithm.command: there is no placeholder {{{name}}}"
                    f"{did_you_mean(name, allowed)} (there are: {', '.join(allowed)}; "
                    "write {{ and }} for braces)"
                )
        # A mapping comes from a recorded run: its sums must not be computed again.
        if not isinstance(self.files, Mapping):
            object.__setattr__(
                self,
                "files",
                files_named(self.command, self.settings)
                if self.files is None
                else {name: _sum(name) for name in _matched(self.files)},
            )

    def check(self, environments: int) -> None:
        """Accept every number of environments: the script makes them."""

    def words(self, values: Mapping[str, str]) -> list[str]:
        """Return the command as a list of arguments, with all placeholders filled in.

        Args:
            values: The text for each of `PLACEHOLDERS`.
        """
        filled = {f"{{{name}}}": value for name, value in values.items()}
        texts = {"{{": "{", "}}": "}", **filled, **_texts(self.settings)}
        # Split first, fill in afterwards: values with spaces or quotes stay one argument.
        return [
            PLACEHOLDER.sub(lambda match: texts[match[0]], argument)
            for argument in _split(self.command)
        ]

    def check_files(self) -> None:
        """Refuse files that differ from those that define the run.

        Raises:
            RecordError: Files were removed or edited; the message names all of them.
        """
        assert isinstance(self.files, Mapping)
        changed = [name for name, text in self.files.items() if _sum_if_there(name) != text]
        if changed:
            raise RecordError(
                f"{', '.join(changed)} changed since the run was asked for, and its content is "
                "part of what defines the run: put it back, or ask for it under another "
                "experiment=…"
            )


def uses_placeholder(command: str, name: str) -> bool:
    """Whether a command has a placeholder of this name."""
    return any(match[1] == name for match in PLACEHOLDER.finditer(command))


def settings_named(command: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that have a placeholder in a command, by dotted key."""
    named = {match[1] for match in PLACEHOLDER.finditer(command)}
    return {key: value for key, value in leaves(settings) if f"{SETTINGS}{key}" in named}


def files_named(command: str, settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the sha256 of each file that a command names, directly or by a setting.

    Raises:
        ConfigError: The command or a file cannot be read.
    """
    texts = _texts(settings)
    arguments = [
        PLACEHOLDER.sub(lambda match: texts.get(match[0], match[0]), argument)
        for argument in _split(command)
    ]
    return {name: _sum(name) for name in _files_in(arguments)}


def _split(command: str) -> list[str]:
    try:
        arguments = shlex.split(command)
    except ValueError as error:
        raise ConfigError(f"algorithm.command={command!r} cannot be read: {error}") from error
    if not arguments:
        raise ConfigError("algorithm.command is empty: write algorithm.command='python train.py'")
    return arguments


def _placeholders(arguments: Iterable[str]) -> Iterator[str]:
    for argument in arguments:
        for match in PLACEHOLDER.finditer(argument):
            if match[1] is not None:
                yield match[1]
        if "{" in (rest := PLACEHOLDER.sub("", argument)) or "}" in rest:
            raise ConfigError(
                f"algorithm.command: {argument!r} has a single brace: write {{{{ or }}}} for a "
                "brace"
            )


def leaves(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every setting that is not a mapping, with its dotted key."""
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _texts(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the text for the placeholder of each setting."""
    return {
        f"{{{SETTINGS}{key}}}": value if isinstance(value, str) else json.dumps(value)
        for key, value in leaves(settings)
    }


def _files_in(arguments: list[str]) -> list[str]:
    """Return the existing files among the arguments of a command.

    A program by its absolute path is left out: an interpreter is part of the machine, not of the
    run.
    """
    files = []
    for position, argument in enumerate(arguments):
        # An option such as `--config=file.yaml` names its file after the sign.
        name = argument.rpartition("=")[2]
        if position and arguments[position - 1] == "-m":
            # `python -m` takes the name of a module, which stands for one of these files.
            module = argument.replace(".", "/")
            files += [n for n in (f"{module}.py", f"{module}/__main__.py") if Path(n).is_file()]
        elif (position or not Path(name).is_absolute()) and _is_file(name):
            files.append(name)
    return sorted(set(files))


def file_path(name: str) -> Path:
    """The path of a file that a command names; scripts that rlexp brings along are in its package."""
    return RECIPES_FOLDER / name.removeprefix(RECIPES) if name.startswith(RECIPES) else Path(name)


def _is_file(name: str) -> bool:
    try:
        return file_path(name).is_file()
    # A text may be too long for a path, or hold a null character.
    except (OSError, ValueError):
        return False


def _matched(patterns: Iterable[str]) -> list[str]:
    names: set[str] = set()
    for pattern in patterns:
        # `Path.glob` refuses absolute patterns.
        is_pattern = "*" in pattern and not Path(pattern).is_absolute()
        matches = Path().glob(pattern) if is_pattern else [Path(pattern)]
        files = [str(path) for path in matches if _is_file(str(path))]
        if not files:
            raise ConfigError(
                f"algorithm.files: {pattern!r} matches no file in {Path.cwd()}: name files, "
                "or patterns such as src/*.py"
            )
        names.update(files)
    return sorted(names)


def _sum(name: str) -> str:
    try:
        with file_path(name).open("rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ConfigError(f"algorithm.files: {name} cannot be read: {error.strerror}") from error


def _sum_if_there(name: str) -> str | None:
    try:
        return _sum(name)
    except ConfigError:
        return None
