"""Exit codes of commands."""

from signal import Signals

COMPLETE = 0
"""Everything that was asked for is there."""
INCOMPLETE = 1
"""Something failed or is missing."""
MISTAKE = 2
"""The command cannot be carried out as it was given."""
REFUSED = 3
"""A check failed, or one that `--strict` asks for was not passed."""
PENDING = 69
"""A tracker's service does not answer, or something could not be pushed to it."""
OF_SIGNALS = {Signals.SIGINT: 130, Signals.SIGTERM: 143, Signals.SIGHUP: 129, Signals.SIGUSR1: 75}
"""Exit codes of commands that a signal ended; 75 asks a scheduler to queue the job again."""


def exit_code(*, complete: bool, interrupted: str | None) -> int:
    """The exit code of a command.

    Args:
        complete: Whether everything that was asked for is there.
        interrupted: The name of the signal that ended the command (`SIGINT`), if one did.
    """
    if interrupted is not None:
        return OF_SIGNALS[Signals[interrupted]]
    return COMPLETE if complete else INCOMPLETE
