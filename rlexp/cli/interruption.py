"""What a command says that Ctrl-C ended before it had a result."""

from typing import Any

from typer import Exit
from typer.core import TyperGroup

from rlexp.errors import Interrupted
from rlexp.interrupts import was_interrupted

WATCHING = {"logs", "status"}
"""Commands that change nothing, and that Ctrl-C ends when the user has seen enough."""
CONTINUED = {"demo", "extend", "gate", "propose", "resume", "run", "sweep"}
"""Commands whose repetition continues where an interrupted one ended."""


class InterruptibleGroup(TyperGroup):
    """A group of commands that raise `Interrupted` on Ctrl-C.

    Typer would turn a KeyboardInterrupt into an exit code, without a line and without a document.
    """

    def make_context(self, *arguments: Any, **settings: Any) -> Any:
        """Parse the command line."""
        try:
            return super().make_context(*arguments, **settings)
        except KeyboardInterrupt as error:
            raise Interrupted(_message(None)) from error

    def invoke(self, ctx: Any) -> Any:
        """Execute the command of a parsed command line."""
        try:
            return super().invoke(ctx)
        # Typer ends a command by this exception, too.
        except Exit:
            raise
        except (Exception, KeyboardInterrupt) as error:
            # A library may have turned the interrupt into an error, which is no mistake of the user.
            if isinstance(error, KeyboardInterrupt) or was_interrupted():
                raise Interrupted(_message(ctx.invoked_subcommand)) from error
            raise


def _message(command: str | None) -> str:
    """What a command says; None for a command line that is not parsed yet."""
    if command in WATCHING:
        return ""
    return "interrupted; the same command continues" if command in CONTINUED else "interrupted"
