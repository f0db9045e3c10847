"""Checks the words that a program gives to the MCP server, before anything is built from them.

On a command line, words are typed by the user, who may name any code and any service. A client of the
server is another program, often one that reads texts of strangers. Its words choose among what the
user has: options of `conf/`, hyperparameters, budgets, seeds. They name no code that the server was not
started with permission for, no service, and no file outside the workspace.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlexp.app.execution.import_permission import check_imports
from rlexp.app.workspace import Workspace
from rlexp.config.compose import compose_words
from rlexp.config.config_files import group_options, groups
from rlexp.config.overrides import EXPERIMENT_KEYS
from rlexp.config.study_file import is_study_file
from rlexp.errors import ConfigError, RecordError
from rlexp.protocol.identity import Plain

CHANGED_BY_CLIENTS = frozenset(
    {
        *("agent", "algorithm", "environment", "component", "teacher", "benchmark"),
        *("budget", "seeds", "experiment", "phase", "failures", "compute"),
    }
)
"""First parts of the keys that a client may set."""
KEPT_FROM_CLIENTS = frozenset({"executor", "tracker", "hydra"})
"""First parts of keys that choose where runs are executed and where their records are sent."""
WORKERS = "executor.workers"
"""The only setting of an executor that a client may change: it reaches nothing outside this machine."""
OF_NEW_SEEDS = frozenset({"budget", "seeds", "experiment", "phase", "compute"})
"""First parts of the keys that a client may change of a trial that is trained again."""
SEPARATORS = re.compile(r"[\s,\[\]]+")
FIRST_PART = re.compile(r"[.@/:=]")
SERVER = ("rlexp", "mcp")
"""The command that grants permissions."""
ORIGIN = "the words of the client"


@dataclass(frozen=True, slots=True)
class ComposedParts:
    """The plug-ins of a composed configuration, as settings."""

    agent: Plain
    algorithm: Plain
    environment: Plain

    @classmethod
    def of(cls, configuration: Mapping[str, Any]) -> "ComposedParts":
        """The plug-ins of one configuration."""
        return cls(*(configuration[name] for name in ("agent", "algorithm", "environment")))


def check_client_words(
    words: Sequence[str], workspace: Workspace, *, of_records: bool = False
) -> None:
    """Refuse words of a client that reach beyond what the user has allowed.

    Args:
        words: Overrides; the first one may be a study file of the workspace.
        workspace: The workspace, with the packages that the server may import.
        of_records: Whether the words change a recorded trial or protocol, whose code is checked where
            it is read.

    Raises:
        ConfigError: A word names a service, a file outside the workspace, or code that the server has
            no permission for; or it cannot be composed.
    """
    given = [word for word in words if word]
    in_file = [word for word in given if is_study_file(word)]
    for file in in_file:
        inside(file, workspace, "the study file")
    typed = [word for word in given if word not in in_file]
    refused = _refused_parts(workspace, of_records=of_records)
    for word in typed:
        _check_word(word, refused)
    if of_records:
        return
    command = (*SERVER, *workspace.permission)
    composed = _composed(given, workspace.folder)
    chosen = [word for word in typed if _is_choice(word, workspace.folder)]
    trusted = _trusted([*in_file, *chosen], workspace.folder)
    try:
        check_imports(composed, workspace.allowed, command, trusted, origin=ORIGIN)
    except RecordError as error:
        raise ConfigError(str(error), code="not_allowed") from error


def inside(path: str, workspace: Workspace, name: str) -> str:
    """The path, which must be inside the workspace, links followed.

    Raises:
        ConfigError: The path leads out of the workspace.
    """
    folder = workspace.folder.resolve()
    if not (folder / Path(path).expanduser()).resolve().is_relative_to(folder):
        raise ConfigError(
            f"{name} {path!r} is outside the workspace of the server: give a path inside it",
            code="not_allowed",
            key=path,
        )
    return path


def _refused_parts(workspace: Workspace, *, of_records: bool) -> frozenset[str]:
    """First parts of keys that exist and that a client may not set."""
    allowed = OF_NEW_SEEDS if of_records else CHANGED_BY_CLIENTS
    existing = {*groups(workspace.folder), *EXPERIMENT_KEYS, *CHANGED_BY_CLIENTS}
    return frozenset((existing | KEPT_FROM_CLIENTS) - allowed)


def _check_word(word: str, refused: Iterable[str]) -> None:
    key = word.lstrip("+~").partition("=")[0].strip()
    # `@` moves an option to another part of the configuration, where it could be an executor.
    if "@" in key or word.startswith("-"):
        problem = "is no setting that a client may write"
    # A reference to an environment variable would be filled in by the process that trains.
    elif "${" in word:
        problem = "refers to another value or to an environment variable"
    elif FIRST_PART.split(key)[0] in refused and key != WORKERS:
        problem = "is chosen by whoever starts the server, in conf/config.yaml or in a study file"
    else:
        return
    raise ConfigError(
        f"{shlex.quote(word)} {problem}: leave it out; a client sets "
        f"{', '.join(sorted(CHANGED_BY_CLIENTS))} and {WORKERS}",
        code="not_allowed",
        key=key,
        allowed=sorted({*CHANGED_BY_CLIENTS, WORKERS}),
    )


def _is_choice(word: str, folder: Path) -> bool:
    """Whether a word chooses options of a group, which the user has written or installed."""
    group, _, value = word.lstrip("+").partition("=")
    # A name that is no option may stand for more words: an id of Gymnasium names a module.
    chosen = {name for name in SEPARATORS.split(value) if name}
    return group in groups(folder) and chosen <= {*group_options(group, folder)}


def _composed(words: Sequence[str], folder: Path) -> list[ComposedParts]:
    return [
        ComposedParts.of(configuration.plain) for configuration in compose_words(words, folder)
    ]


def _trusted(words: Sequence[str], folder: Path) -> Iterator[ComposedParts]:
    """The plug-ins of the user's files alone; none where they need a value that the client gives."""
    try:
        yield from _composed(words, folder)
    except (ConfigError, RecordError):
        return
