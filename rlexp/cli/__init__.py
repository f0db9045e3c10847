"""The command line: each command parses its arguments, calls one use case and shows the result.

Standard output spells characters that its encoding lacks. Reading of a large experiment begins before the modules
of the command are imported.
"""

import atexit
import codecs
import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from io import TextIOWrapper
from typing import TYPE_CHECKING

from rlexp.cli.completion import (
    asks_for_bash,
    asks_for_script,
    complete_at_first_tab_in_zsh,
    complete_in_bash,
)
from rlexp.interrupts import remember_interrupts
from rlexp.text import is_utf_8

if TYPE_CHECKING:
    import typer

    from rlexp.store.layout import ExperimentPaths

GC_THRESHOLD = 100_000
"""Allocated objects between two garbage collections of the youngest generation."""
SPELLINGS = {
    **dict(zip("━•●┄│┤└─┬−–—·×†“”‘’", "=o#-|++-+---|x+\"\"''", strict=True)),
    "…": "...",
    "±": "+/-",
    "≥": ">=",
    "≤": "<=",
    "≠": "!=",
}
"""ASCII characters in place of those that rlexp prints; the marks of charts have one each."""
SPELLING_HANDLER = "rlexp-spelling"
"""The name of the handler of encoding errors."""
READERS = frozenset({"ls", "status", "show", "run", "resume", "report", "compare"})
"""Commands that read the catalogue of an experiment."""
HELP_WORDS = frozenset({"--help", "-h"})
"""Words that ask for help, which reads no records."""
EXPERIMENT_OVERRIDE = "experiment="
"""What stands before the name of an experiment where it is an override."""


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


def spell_missing(error: UnicodeError) -> tuple[str, int]:
    """The spelling of the characters that cannot be encoded, and where encoding goes on."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    return "".join(SPELLINGS.get(character, "?") for character in missing), error.end


def spell_on_standard_output() -> None:
    """Let standard output spell what its encoding lacks; without this, printing it is an error."""
    if isinstance(sys.stdout, TextIOWrapper) and not is_utf_8(sys.stdout.encoding):
        codecs.register_error(SPELLING_HANDLER, spell_missing)
        sys.stdout.reconfigure(errors=SPELLING_HANDLER)


def looking_ahead_for(arguments: Sequence[str]) -> AbstractContextManager[None]:
    """Begin to look at the runs of the experiment that a command names, if it is large.

    A wrong guess costs a look only: nothing is read that the command does not look at itself.
    """
    word = next(iter(arguments), "")
    if word not in READERS or HELP_WORDS & set(arguments):
        return nullcontext()
    from rlexp.app.reading.look_ahead import looking_ahead

    return looking_ahead(_experiments(arguments[1:]))


def _experiments(words: Sequence[str]) -> "Iterator[ExperimentPaths]":
    """The experiments whose names stand among some words; most words name none."""
    from rlexp.app.workspace import Workspace
    from rlexp.errors import ConfigError

    layout = Workspace.here().layout
    for word in words:
        with suppress(ConfigError):
            yield layout.experiment(word.removeprefix(EXPERIMENT_OVERRIDE))


if __name__ == "__main__":
    main()
