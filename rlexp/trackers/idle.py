"""Processes of mirrors take only the time of the processors that nobody else wants."""

import os
import time
from contextlib import suppress
from pathlib import Path

import psutil

LEAST, FULL = 19, 0
"""The niceness that asks for least, and that of a session like any other."""
TRIES = 10
PAUSE = 0.15
"""Seconds between tries: the kernel takes one such change in a tenth of a second."""


def step_back() -> None:
    """Take what is left over. Where that is not permitted, a process takes its share like any."""
    with suppress(OSError):
        os.nice(LEAST)
    if hasattr(os, "SCHED_IDLE"):
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    step_back_session(os.getpid())


def has_stepped_back() -> bool:
    """Whether this process, or the one that started it, has stepped back."""
    return hasattr(os, "SCHED_IDLE") and os.sched_getscheduler(0) == os.SCHED_IDLE


def come_forward() -> None:
    """Take a full share again, with all processes below: what they had to leave free is over."""
    this = psutil.Process()
    for process in (this, *this.children(recursive=True)):
        _weigh(process.pid, FULL)


def step_back_session(leader: int) -> None:
    """Let a whole session step back.

    Linux may share the processors among sessions before it looks at their processes: then an idle
    process that is alone in its session takes as much as a training. Nothing happens to a session
    that is another's, or where there is no such sharing.

    Args:
        leader: The process that leads the session.
    """
    _weigh(leader, LEAST)


def _weigh(leader: int, niceness: int) -> None:
    place = Path(f"/proc/{leader}/autogroup")
    for _ in range(TRIES):
        try:
            if os.getsid(leader) == leader:
                place.write_text(str(niceness))
        except BlockingIOError:
            time.sleep(PAUSE)
            continue
        except OSError:
            pass
        return
