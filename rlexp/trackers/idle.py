"""Processes of mirrors take only the time of the processors that nobody else wants."""

import os
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil

LEAST, FULL = 19, 0
"""The niceness that asks for least, and that of a session like any other."""
SETTLING = 15.0
"""Seconds of a full share, in which libraries are imported and services found."""
LOOKS = 60.0
"""Seconds between later looks for processes that were started since."""
TRIES = 10
PAUSE = 0.15
"""Seconds between tries: the kernel takes one such change in a tenth of a second."""


def step_back(until: threading.Event) -> None:
    """Take what is left over, from soon on, until something has happened; then a full share again.

    Linux may share the processors among sessions before it looks at their processes: then an idle
    process that is alone in its session takes as much as a training. So the sessions of this
    process and of all below it step back, too.
    """
    # Where one of these is not permitted, it takes its share like any other process.
    with suppress(OSError):
        os.nice(LEAST)
    if hasattr(os, "SCHED_IDLE"):
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    threading.Thread(target=_hold_back, args=(until,), daemon=True).start()


def weigh_sessions(niceness: int) -> None:
    """Give every session that this process or one below it leads a niceness, and no other."""
    this = psutil.Process()
    for process in (this, *this.children(recursive=True)):
        _weigh(process.pid, niceness)


def _hold_back(until: threading.Event) -> None:
    pause = SETTLING
    while not until.wait(pause):
        weigh_sessions(LEAST)
        pause = LOOKS
    weigh_sessions(FULL)


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
            # There is no such sharing here, or the process has ended.
            pass
        return
