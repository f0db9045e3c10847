"""Which experiment a command will read, guessed from its words before its modules are imported."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlexp.store.layout import ExperimentPaths

READERS = frozenset({"ls", "status", "show", "run", "resume", "report", "compare"})
"""Commands that read the catalogue of an experiment."""
HELP = frozenset({"--help", "-h"})
"""Words that ask for help, which reads no records."""
OVERRIDE = "experiment="
"""What stands before the name of an experiment where it is an override."""


def looking_ahead_for(arguments: Sequence[str]) -> AbstractContextManager[None]:
    """Begin to look at the runs of the experiment that a command names, if it is large.

    A wrong guess costs a look only: nothing is read that the command does not look at itself.
    """
    word = next(iter(arguments), "")
    if word not in READERS or HELP & set(arguments):
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
            yield layout.experiment(word.removeprefix(OVERRIDE))
