"""Exit codes of commands."""

from signal import Signals

COMPLETE = 0
"""Everything that was requested is complete."""
INCOMPLETE = 1
"""Something failed or is missing."""
MISTAKE = 2
"""The command line or the configuration is wrong."""
REFUSED = 3
"""A check failed that the command or `--strict` requires."""
WORSE = 4
"""`rlexp gate` has shown that the scores are worse than the baseline by more than the margin."""
UNDECIDED = 5
"""`rlexp gate` could not decide with its time and the seeds of the baseline; `rlexp propose` could not
decide with the seeds of the stream."""
DISCARDED = 6
"""`rlexp propose` has discarded the candidate: the champion stays."""
PENDING = 69
"""A tracker's service does not answer, or records could not be pushed to it."""
OF_SIGNALS = {Signals.SIGINT: 130, Signals.SIGTERM: 143, Signals.SIGHUP: 129, Signals.SIGUSR1: 75}
"""Exit codes of commands that a signal ended, by signal.

Most are 128 plus the signal's number. SIGUSR1 gives 75 (EX_TEMPFAIL of sysexits.h), because
schedulers send it before a time limit, and 75 asks them to queue the job again.
"""


def exit_code(*, complete: bool, interrupted: str | None) -> int:
    """The exit code of a command.

    Args:
        complete: Whether everything that was requested is complete.
        interrupted: The name of the signal that ended the command (`SIGINT`), if one did.
    """
    if interrupted is not None:
        return OF_SIGNALS[Signals[interrupted]]
    return COMPLETE if complete else INCOMPLETE
