"""What a failed command prints: a line on standard error, and a document with `--json`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import typer

from rlexp.app.error_document import deleted_folder, error_document, unwritable_folder
from rlexp.app.results import ErrorDocument, document
from rlexp.cli.exit_codes import INCOMPLETE, MISTAKE
from rlexp.cli.options import console_for
from rlexp.errors import Interrupted, RlexpError

EXTRA_WORDS = re.compile(r"Got unexpected extra argument\S* \((.*)\)")
"""The message of Typer about words behind the last argument that a command takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorReport:
    """Why a command has no result.

    Attributes:
        exit_code: The exit code of the command.
        document: The JSON document for standard output.
        help: The error of Typer that prints the help of a command given without arguments.
    """

    exit_code: int
    document: ErrorDocument
    help: Any = None

    def show(self, *, as_json: bool) -> None:
        """Print a line to standard error, and with `as_json` the document to standard output.

        The document is one line, because some commands write one document per line.
        """
        if self.help is not None:
            self.help.show()
        elif self.document.message:
            console_for().error(self.document.message)
        if as_json:
            console_for(as_json=True).json_line(document(self.document))


def make_error_report(error: BaseException, arguments: Sequence[str] = ()) -> ErrorReport | None:
    """The report of an exception that the user can act on; None for a bug in rlexp.

    Args:
        error: The exception that ended the command.
        arguments: Everything that was typed behind `rlexp`.
    """
    if isinstance(error, RlexpError):
        return _report(error, error.exit_code)
    if isinstance(error, KeyboardInterrupt):
        return make_error_report(Interrupted("interrupted"))
    if isinstance(error, typer.Abort):
        return _report(Interrupted("standard input ended"), INCOMPLETE)
    if (unusable := unwritable_folder(error) or deleted_folder(error)) is not None:
        return _report(unusable, MISTAKE)
    # Usage errors come from Typer or from the click inside it; both classes have this method.
    return _usage_report(error, arguments) if hasattr(error, "format_message") else None


def _usage_report(error: Any, arguments: Sequence[str]) -> ErrorReport:
    """The report of a command line that Typer rejects."""
    parameter = getattr(error, "param", None)
    key = getattr(error, "option_name", None) or getattr(parameter, "name", None)
    context = getattr(error, "ctx", None)
    command = f"{context.command_path} --help" if context is not None else None
    shows_help = type(error).__name__ == "NoArgsIsHelpError"
    mistake = RlexpError(
        str(error.format_message()) if shows_help else _usage_message(error, command, arguments),
        code="usage",
        key=key,
        allowed=tuple(getattr(error, "possibilities", None) or ()),
        command=command,
    )
    return _report(mistake, int(error.exit_code), help_error=error if shows_help else None)


def _usage_message(error: Any, command: str | None, arguments: Sequence[str]) -> str:
    """The message of Typer on one line, with the nearest word and the command to type next."""
    if (of_other_tool := _foreign_option_message(error, arguments)) is not None:
        return of_other_tool
    message, _, suggestion = str(error.format_message()).partition(" Did you mean ")
    possibilities = getattr(error, "possibilities", None) or [suggestion.strip("'?")]
    message = (
        message.split(" (Possible")[0]
        .split(", unable to parse")[0]
        .replace("Input should", "it must")
        .rstrip(".")
    )
    message = EXTRA_WORDS.sub(r"The command does not take \1", message)
    nearest = f"; did you mean '{possibilities[0]}'?" if possibilities[0] else ""
    hint = f"; see '{command}'" if command else ""
    return f"{message[:1].lower()}{message[1:]}{nearest}{hint}"


def _foreign_option_message(error: Any, arguments: Sequence[str]) -> str | None:
    """The message about an option that another tool has; None about other errors."""
    from rlexp.cli.foreign_options import foreign_option_message

    context = getattr(error, "ctx", None)
    if type(error).__name__ != "NoSuchOption" or context is None:
        return None
    names = [name for parameter in context.command.params for name in parameter.opts]
    try:
        return foreign_option_message(error.option_name, context.command_path, names, arguments)
    # A damaged file of the workspace must not hide that the option is unknown.
    except RlexpError:
        return None


def _report(error: RlexpError, exit_code: int, help_error: Any = None) -> ErrorReport:
    return ErrorReport(exit_code=exit_code, document=error_document(error), help=help_error)
