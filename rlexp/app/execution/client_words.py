"""Checks the words that a program gives to the MCP server, before anything is built from them.

On a command line, words are typed by the user, who may name any code and any service. A client of the
server is another program, often one that reads texts of strangers. Its words choose among what the
user has: options of `conf/`, hyperparameters, budgets, seeds. They name no code that the server was not
started with permission for, no service, and no file outside the workspace.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from rlexp.app.execution.checks.import_permission import check_imports
from rlexp.app.workspace import Workspace
from rlexp.config.compose import compose_words
from rlexp.config.config_files import group_options, groups
from rlexp.config.overrides import EXPERIMENT_KEYS
from rlexp.config.study_file import is_study_file
from rlexp.errors import ConfigError, RecordError
from rlexp.protocol.identity import Plain
from rlexp.text import join_names

CHANGED_BY_CLIENTS = frozenset(
    {
        *("agent", "algorithm", "environment", "component", "teacher", "callback", "replay"),
        "benchmark",
        *("budget", "seeds", "experiment", "phase", "failures", "compute"),
    }
)
"""First parts of the keys that a client may set."""
KEPT_FROM_CLIENTS = frozenset({"executor", "tracker", "hydra"})
"""First parts of keys that choose where runs are executed and where their records are sent."""
WORKERS = "executor.workers"
"""The only setting of an executor that a client may change: it reaches nothing outside this machine."""


class ClientScope(Enum):
    """What the words of a client describe; its value has the first parts of the keys that they may set."""

    EXPERIMENT = CHANGED_BY_CLIENTS
    """A whole experiment."""
    NEW_SEEDS = frozenset({"budget", "seeds", "experiment", "phase", "compute"})
    """A recorded trial or protocol on further seeds; its code is checked where it is read."""
    CANDIDATE = frozenset({"agent", "algorithm"})
    """What differs from the champion of a stream."""


NAMING_CODE = re.compile(r"_target_|^(algorithm\.(command|settings)|agent\.policy_kwargs)\b")
"""Words that name code, where the whole configuration is known to the stream alone."""
SCHEDULE_FILE = re.compile(r"""\bschedule['"]?\s*:\s*['"]?([^,}'"]+)""")
"""The name of a file of a schedule in a word."""
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
    callback: Plain
    replay: Plain | None = None
    dataset: Plain | None = None

    @classmethod
    def of(cls, configuration: Mapping[str, Any]) -> "ComposedParts":
        """The plug-ins of one configuration."""
        return cls(
            agent=configuration["agent"],
            algorithm=configuration["algorithm"],
            environment=configuration["environment"],
            callback=configuration.get("callback") or {},
            replay=configuration.get("replay"),
            dataset=configuration.get("dataset"),
        )


def check_client_words(
    words: Sequence[str],
    workspace: Workspace,
    scope: ClientScope = ClientScope.EXPERIMENT,
) -> None:
    """Refuse words of a client that reach beyond what the user has allowed.

    Args:
        words: Overrides; the first one may be a study file of the workspace.
        workspace: The workspace, with the packages that the server may import.
        scope: What the words describe.

    Raises:
        ConfigError: A word names a service, a file outside the workspace, or code that the server has
            no permission for; or it cannot be composed.
    """
    given = [word for word in words if word]
    in_file = [word for word in given if is_study_file(word)]
    for file in in_file:
        inside(file, workspace, "the study file")
    typed = [word for word in given if word not in in_file]
    for word in typed:
        _check_word(word, scope, workspace)
    if scope is not ClientScope.EXPERIMENT:
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


def _check_word(word: str, scope: ClientScope, workspace: Workspace) -> None:
    key = word.lstrip("+~").partition("=")[0].strip()
    for file in SCHEDULE_FILE.findall(word):
        inside(file.strip(), workspace, "the schedule")
    existing = {*groups(workspace.folder), *EXPERIMENT_KEYS, *CHANGED_BY_CLIENTS}
    refused = (existing | KEPT_FROM_CLIENTS) - scope.value
    # `@` moves an option to another part of the configuration, where it could be an executor.
    if "@" in key or word.startswith("-"):
        problem = "is no setting that a client may write"
    # A reference to an environment variable would be filled in by the process that trains.
    elif "${" in word:
        problem = "refers to another value or to an environment variable"
    elif scope is ClientScope.CANDIDATE and NAMING_CODE.search(word.lstrip("+~")):
        problem = "names code or a command"
    elif FIRST_PART.split(key)[0] in refused and key != WORKERS:
        problem = (
            "is not for a client to choose here, but for the user on the command line or in conf/"
        )
    else:
        return
    allowed = sorted({*scope.value, WORKERS})
    raise ConfigError(
        f"{shlex.quote(word)} {problem}: leave it out; a client sets {join_names(allowed)}",
        code="not_allowed",
        key=key,
        allowed=allowed,
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
