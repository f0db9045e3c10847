"""The real command line, whose runs train nothing: everything but the learner is as ever."""

import sys

from rlexp import cli
from rlexp.app import execution


def become_quick() -> None:
    """From now on, runs of this process train nothing."""
    execution.ENTRY = "quick_runs:execute"
    vars(execution).update(PRELOAD=("quick_runs",), COMMAND=(sys.executable, __file__))


if __name__ == "__main__":
    become_quick()
    cli.main()
