"""What went wrong in a training, as a kind of failure and one line."""

import traceback
from pathlib import Path

from rlexp.errors import DISK_ERRORS, EnvironmentFault, RlexpError
from rlexp.records.events import Failure
from rlexp.training.callback import Diverged
from rlexp.training.processes import EnvironmentDied


def name_failure(error: BaseException, step: int) -> tuple[Failure, str]:  # noqa: PLR0911
    """Name the failure behind an error that ended a training at `step`."""
    line = " ".join(f"{type(error).__name__}: {error}".split())
    match error:
        case Diverged():
            return Failure.NAN, str(error)
        case EnvironmentDied():
            return Failure.CRASHED, f"{error} at step {step}"
        case EnvironmentFault():
            return Failure.ENVIRONMENT, str(error)
        case RlexpError():
            return Failure.USER, str(error)
        case MemoryError():
            return Failure.OUT_OF_MEMORY, line
        case OSError(errno=number) if number in DISK_ERRORS:
            return Failure.DISK, line
        case SystemExit():
            return Failure.CRASHED, f"the program called sys.exit({error.code})"
        case _:
            return Failure.USER, f"{line} ({_origin(error)})"


def _origin(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "unknown place"
