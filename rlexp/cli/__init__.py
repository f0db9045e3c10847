"""The command line: each command parses its arguments, calls one use case and shows the result."""

import atexit
import gc
import sys
from typing import TYPE_CHECKING

from rlexp.cli.completion import (
    asks_for_bash,
    asks_for_script,
    complete_at_first_tab_in_zsh,
    complete_in_bash,
)
from rlexp.cli.look_ahead import looking_ahead_for
from rlexp.cli.missing_characters import spell_on_standard_output
from rlexp.interrupts import remember_interrupts

if TYPE_CHECKING:
    import typer

GC_THRESHOLD = 100_000
"""Allocated objects between two garbage collections of the youngest generation."""


def main() -> None:
    """Run the command line and exit.

    A user's mistake prints one line on standard error instead of a traceback. With `--json`,
    standard output also gets a document of the schema `error`.
    """
    remember_interrupts()
    # Imports allocate several hundred thousand objects, none of which is garbage. Python's default
    # threshold of 700 would spend a tenth of a short command's time on collections.
    gc.set_threshold(GC_THRESHOLD)
    # At its end, Python would spend another tenth on a last collection. The operating system takes
    # back the memory anyway.
    atexit.register(gc.freeze)
    # JSON must stay as it is: a spelling would change its strings.
    if "--json" not in sys.argv[1:]:
        spell_on_standard_output()
    if asks_for_bash():
        complete_in_bash(_app())
        sys.exit(0)
    if asks_for_script(sys.argv[1:]):
        complete_at_first_tab_in_zsh()
    try:
        with looking_ahead_for(sys.argv[1:]):
            # Without standalone mode, Typer returns the exit code and raises usage errors.
            sys.exit(_app()(standalone_mode=False))
    except (Exception, KeyboardInterrupt) as error:
        from rlexp.cli.error_report import make_error_report

        report_of_error = make_error_report(error, sys.argv[1:])
        if report_of_error is None:
            raise
    # The arguments may be what is wrong, so `--json` is looked up without Typer.
    report_of_error.show(as_json="--json" in sys.argv[1:])
    sys.exit(report_of_error.exit_code)


def _app() -> "typer.Typer":
    """The application with the command that was typed, or with every command."""
    from rlexp.cli.application import COMMANDS, make_app

    word = next(iter(sys.argv[1:]), "")
    if word in COMMANDS:
        return make_app((word,), ())
    from rlexp.cli.every_command import app

    return app


if __name__ == "__main__":
    main()
