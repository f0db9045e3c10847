"""How a command fails: a line on standard error, an exit code, and with `--json` a document."""

import errno
import os
from dataclasses import dataclass
from typing import Any

import typer

from rlexp.app.results import ErrorDocument, document
from rlexp.cli.exit_codes import INCOMPLETE, MISTAKE
from rlexp.cli.options import console_for
from rlexp.errors import Interrupted, RlexpError
from rlexp.store.secrets import mask_known, secret_values

UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM}
"""Error numbers that a user can act on without reading a traceback."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a command has no result.

    Attributes:
        exit_code: The exit code of the command.
        document: What standard output carries where the result was to be JSON.
        usage: The error of Typer, which prints how the command is used.
    """

    exit_code: int
    document: ErrorDocument
    usage: Any = None

    def show(self, *, as_json: bool) -> None:
        """Print a line to standard error, and with `as_json` the document to standard output.

        The document is a line of its own: of some commands it is one of several.
        """
        if self.usage is not None:
            self.usage.show()
        elif self.document.message:
            console_for().error(self.document.message)
        if as_json:
            console_for(as_json=True).json_line(document(self.document))


def failure_of(error: BaseException) -> Failure | None:
    """What an exception means for the user; nothing for a fault of the program."""
    if isinstance(error, RlexpError):
        return _failure(error, error.exit_code)
    if isinstance(error, KeyboardInterrupt):
        return failure_of(Interrupted())
    if isinstance(error, typer.Abort):
        return _failure(Interrupted("standard input ended"), INCOMPLETE)
    if isinstance(error, OSError) and error.errno in UNWRITABLE:
        text = f"{error}; free space or choose another folder with RLEXP_RUNS"
        return _failure(RlexpError(text, code="unwritable", key="RLEXP_RUNS"), MISTAKE)
    return _usage(error) if hasattr(error, "format_message") else None


def _usage(error: Any) -> Failure:
    """A command line that Typer, or the click inside it, refuses."""
    parameter = getattr(error, "param", None)
    key = getattr(error, "option_name", None) or getattr(parameter, "name", None)
    context = getattr(error, "ctx", None)
    mistake = RlexpError(
        str(error.format_message()),
        code="usage",
        key=key,
        allowed=tuple(getattr(error, "possibilities", None) or ()),
        command=f"{context.command_path} --help" if context is not None else None,
    )
    return _failure(mistake, int(error.exit_code), usage=error)


def _failure(error: RlexpError, exit_code: int, usage: Any = None) -> Failure:
    content = ErrorDocument(
        code=error.code,
        message=mask_known(str(error), secret_values(os.environ)),
        key=error.key,
        allowed=error.allowed,
        command=error.command,
    )
    return Failure(exit_code=exit_code, document=content, usage=usage)
