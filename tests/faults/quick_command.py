"""The real command line with runs that train nothing."""

import sys

from rlexp import cli
from rlexp.app.execution import launch_settings


def become_quick() -> None:
    """Make the runs of this process train nothing."""
    launch_settings.ENTRY = "quick_runs:execute"
    vars(launch_settings).update(PRELOAD=("quick_runs",), COMMAND=(sys.executable, __file__))


if __name__ == "__main__":
    become_quick()
    cli.main()
