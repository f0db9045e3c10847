"""What a failed command prints: a line on standard error, and a document with `--json`."""

import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
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
COMMANDS_WITH_SETTINGS = ("run", "sweep", "config show", "config validate")
"""The commands whose words are overrides of any setting."""
GRID = "several values make a grid without an option: algorithm=ppo,a2c"
STUDY = "a file of words is the first word: rlexp run study.yaml; rlexp init --study writes one"
OPTIONS = "own options lie in conf/ of the present folder: rlexp config list"
SHOWN = "the configuration is shown by: rlexp config show"
OF_HYDRA: Mapping[str, str] = {
    **dict.fromkeys(("--multirun", "-m", "--run", "-r"), GRID),
    **dict.fromkeys(("--cfg", "-c", "--resolve", "--package", "-p", "--info", "-i"), SHOWN),
    **dict.fromkeys(("--config-name", "-cn"), STUDY),
    **dict.fromkeys(("--config-dir", "-cd", "--config-path", "-cp"), OPTIONS),
    "--hydra-help": "the words of rlexp: rlexp run --help",
    "--experimental-rerun": "a run is repeated by: rlexp reproduce EXPERIMENT/RUN",
    "--shell-completion": "completion is installed by: rlexp --install-completion",
    "-sc": "completion is installed by: rlexp --install-completion",
}
"""What to type instead of the options of Hydra."""


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


def foreign_option_message(
    option: str, path: str, allowed: Collection[str], arguments: Sequence[str]
) -> str | None:
    """What is wrong and what to type; None for an option that no other tool is known to have.

    Args:
        option: The option that the command does not have.
        path: The full name of the command (`rlexp run`).
        allowed: The options that the command has.
        arguments: Everything that was typed behind `rlexp`.
    """
    if path.partition(" ")[2] not in COMMANDS_WITH_SETTINGS:
        return None
    # Typer reads `-cn` as `-c` and `-n`.
    option = next((a for a in arguments if a in OF_HYDRA and a.startswith(option)), option)
    if option in OF_HYDRA:
        return f"no such option: {option}; {OF_HYDRA[option]}"
    words = list(_translated(arguments[len(path.split()) - 1 :], allowed))
    if None in words:
        return None
    whole = " ".join(word for word in words if word is not None)
    return f"no such option: {option}; settings have no dashes: type {path} {whole}"


def _translated(arguments: Sequence[str], allowed: Collection[str]) -> Iterator[str | None]:
    """The arguments with a word for each unknown option; None where there is no such word."""
    from rlexp.app.commands.setup.configuration import words_of_option
    from rlexp.cli.options import current_workspace

    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        name, sign, value = argument.partition("=")
        if not argument.startswith("--") or name in allowed or not name.strip("-"):
            yield shlex.quote(argument)
            continue
        if not sign:
            is_value = bool(rest) and not rest[0].startswith("-") and "=" not in rest[0]
            value = rest.pop(0) if is_value else "VALUE"
        yield words_of_option(name, value, current_workspace())
