"""The real command line, whose runs train nothing: everything but the learner is as ever."""

from rlexp import cli
from rlexp.app import drive

if __name__ == "__main__":
    drive.ENTRY = "quick_runs:execute"
    vars(drive)["PRELOAD"] = ("quick_runs",)
    cli.main()
