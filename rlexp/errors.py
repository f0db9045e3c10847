"""The errors that rlexp shows to its users: one line each, with the next step to take."""

import errno
from collections.abc import Collection, Iterable, Mapping
from difflib import SequenceMatcher, get_close_matches
from typing import Literal, Self

MOST_NAMED = 8
"""Largest number of allowed names that a message lists."""
NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Error numbers of a full disk and of an exhausted quota."""
DISK_ERRORS = NO_SPACE | {errno.EIO, errno.EROFS, errno.ESTALE}
"""Error numbers of every reason why a disk cannot be written."""


Code = Literal[
    "mistake",
    "usage",
    "configuration",
    "unknown_setting",
    "unknown_option",
    "unknown_group",
    "unknown_value",
    "out_of_range",
    "missing_value",
    "wrong_type",
    "not_allowed",
    "missing_package",
    "protocol",
    "records",
    "unknown_experiment",
    "unknown_run",
    "ambiguous_run",
    "other_definition",
    "held",
    "unwritable",
    "executor",
    "environment",
    "tracker_unreachable",
    "tracker_refused",
    "surroundings_differ",
    "interrupted",
    "dirty_tree",
    "protected",
    "changed_register",
    "closed_stream",
]
"""Stable names of the kinds of errors, for programs."""
CODES: Mapping[Code, str] = {
    "mistake": "The command cannot be executed with these arguments.",
    "usage": "The command line names an unknown command or option, or lacks an argument.",
    "configuration": "Overrides or files of the configuration are invalid or contradict each other.",
    "unknown_setting": "The configuration has no setting of this name.",
    "unknown_option": "A configuration group has no option of this name (`algorithm=poo`).",
    "unknown_group": "The configuration has no group of this name.",
    "unknown_value": "An argument has a value that is not in its list of allowed values.",
    "out_of_range": "A number is too small or too large.",
    "missing_value": "A required setting has no value.",
    "wrong_type": "A value has another type than its setting, or cannot be parsed.",
    "not_allowed": "Code outside rlexp would be imported, and `--allow-import` does not allow it.",
    "missing_package": "An optional package is not installed.",
    "protocol": "The experiment would break its own protocol.",
    "records": "A file under `runs/` is missing, damaged, or of another version.",
    "unknown_experiment": "There is no experiment of this name.",
    "unknown_run": "There is no run of this name.",
    "ambiguous_run": "Several runs match the name.",
    "other_definition": "The name belongs to an experiment with another definition.",
    "held": "Another process holds the lock of a run, an experiment or a file.",
    "unwritable": "The disk is full, or a folder cannot be written.",
    "executor": "The processes that execute runs cannot be started or reached.",
    "environment": "An environment broke its own declaration, or raised an error.",
    "tracker_unreachable": "The service of a tracker does not answer; a later try may succeed.",
    "tracker_refused": "The service of a tracker rejected the request; a later try will not help.",
    "surroundings_differ": "`--strict` was given, and packages or the machine differ from the record.",
    "interrupted": "A signal ended the command before it had a result.",
    "dirty_tree": "A checkout has changes that are not committed, so that its code has no digest.",
    "protected": "A candidate would change the environment, the evaluation, the seeds or the budget.",
    "changed_register": "The register of a stream was edited, so that no decision can rest on it.",
    "closed_stream": "The stream has chosen its champion for the test, and takes no candidate.",
}
"""The meaning of each code."""


class RlexpError(Exception):
    """A mistake or a fault that the user can act on; printed without a traceback.

    Attributes:
        exit_code: The exit code of a command that ends with this error.
        code: The kind of error, for programs; one of `CODES`.
        key: The setting or argument that is wrong, if it is a single one.
        allowed: What is allowed instead, if that can be listed.
        command: The command to type next, if there is a single one.
    """

    exit_code = 2
    code: Code = "mistake"

    def __init__(
        self,
        message: str = "",
        *,
        code: Code | None = None,
        key: str | None = None,
        allowed: Iterable[str] = (),
        command: str | None = None,
    ) -> None:
        """Create an error; without `code`, it has the code of its class."""
        super().__init__(message)
        self.code = code or type(self).code
        self.key = key
        self.allowed = tuple(allowed)
        self.command = command

    def _render_traceback_(self) -> list[str]:
        """The lines that a notebook shows: a mistake of the user needs no traceback."""
        return [f"{type(self).__name__}: {self}"]

    @classmethod
    def unknown(
        cls,
        sentence: str,
        word: str,
        allowed: Collection[str],
        *,
        code: Code = "unknown_value",
        key: str | None = None,
        after: str = "",
        command: str | None = None,
    ) -> Self:
        """An error about an unknown value; the message suggests the nearest and lists some allowed.

        Args:
            sentence: What is wrong (`there is no phase 'tset'`).
            word: The unknown value.
            allowed: The allowed values.
            code: The kind of error.
            key: The setting or argument that has the value.
            after: Text that follows the list of allowed values.
            command: The command to type next; the message names it where the list is cut.
        """
        listed = f" (there are: {names_near(word, allowed) or 'none'})"
        full = f"; to see all: {command}" if command and len(allowed) > MOST_NAMED else ""
        text = f"{sentence}{did_you_mean(word, allowed)}{listed}{after}{full}"
        return cls(text, code=code, key=key, allowed=allowed, command=command)

    @classmethod
    def missing_package(cls, sentence: str, command: str, *, key: str | None = None) -> Self:
        """An error about a package that is not installed.

        Args:
            sentence: What is missing, and for what; the message ends with the command.
            command: The command that installs it.
            key: The setting or argument that needs it.
        """
        return cls(f"{sentence}: {command}", code="missing_package", key=key, command=command)

    def rephrased(self, message: str) -> Self:
        """The same error with another message."""
        return type(self)(
            message, code=self.code, key=self.key, allowed=self.allowed, command=self.command
        )


class ConfigError(RlexpError, ValueError):
    """The configuration names something unknown, mistyped, out of range or unfit.

    A ValueError too, so that validation collects it with the other mistakes.
    """

    code: Code = "configuration"


class ProtocolError(RlexpError, ValueError):
    """The experiment would break its protocol, such as a comparison of unequal budgets."""

    code: Code = "protocol"


class RecordError(RlexpError):
    """A file under `runs/` is missing, damaged, locked or of another version."""

    code: Code = "records"


class HeldError(RecordError):
    """Another process holds a lock, and may release it later."""

    code: Code = "held"


class ExecutorError(RlexpError):
    """The processes that execute runs cannot be started or reached."""

    exit_code = 70
    code: Code = "executor"


class RefusedRequestError(ExecutorError):
    """A cluster refuses what the settings of the executor ask for; other settings are needed."""

    exit_code = 2


class TrackerUnreachable(RlexpError):  # noqa: N818
    """A tracker's service does not answer, or answers nonsense; a later try may succeed."""

    exit_code = 69
    code: Code = "tracker_unreachable"


class TrackerRefused(RlexpError):  # noqa: N818
    """A tracker's service rejected the request; a later try will fail in the same way."""

    exit_code = 69
    code: Code = "tracker_refused"


class EnvironmentFault(RlexpError):  # noqa: N818
    """An environment broke its own declaration: a bad observation or reward at a certain step."""

    exit_code = 1
    code: Code = "environment"


class Interrupted(RlexpError):  # noqa: N818
    """Ctrl-C ended a command before it had a result."""

    exit_code = 130
    code: Code = "interrupted"


def did_you_mean(word: str, allowed: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` for the allowed word nearest to `word`, or nothing."""
    close = get_close_matches(word, list(allowed), n=1, cutoff=0.6)
    return f"; did you mean '{close[0]}'?" if close else ""


def names_near(word: str, allowed: Collection[str]) -> str:
    """The allowed words in their order; of many, the few nearest to `word` and how many more."""
    if len(allowed) <= MOST_NAMED:
        return ", ".join(allowed)
    # The first of equally near words stays, so the same mistake always has the same message.
    ranked = sorted(allowed, key=lambda name: -SequenceMatcher(None, word, name).ratio())
    nearest = set(ranked[:MOST_NAMED])
    listed = ", ".join(name for name in allowed if name in nearest)
    return f"{listed} and {len(allowed) - len(nearest)} more"
