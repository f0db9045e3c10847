"""Low CPU priority for mirror processes, so that they never slow down training."""

import os
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil

LEAST, FULL = 19, 0
"""The niceness of the lowest priority, and the default niceness."""
SETTLING = 15.0
"""Seconds at the default priority, in which libraries are imported and services connected."""
LOOKS = 60.0
"""Seconds between later scans for newly started processes."""
TRIES = 10
PAUSE = 0.15
"""Seconds between tries: the kernel accepts one change of an autogroup every 0.1 seconds."""


def lower_priority(until: threading.Event) -> None:
    """Lower this process's priority, and later that of its sessions, until the event is set.

    Linux may divide CPU time among sessions (autogroups) before it divides it among processes: an
    idle process that is alone in its session then gets as much time as a training process. So
    the sessions of this process and of its descendants get a lower priority as well.
    """
    # Where the system does not permit one of these calls, the default priority stays.
    with suppress(OSError):
        os.nice(LEAST)
    if hasattr(os, "SCHED_IDLE"):
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    threading.Thread(target=_lower_session_priority, args=(until,), daemon=True).start()


def set_session_niceness(niceness: int) -> None:
    """Set the niceness of every session that is led by this process or one of its descendants."""
    this = psutil.Process()
    for process in (this, *this.children(recursive=True)):
        _set_session_niceness(process.pid, niceness)


def _lower_session_priority(until: threading.Event) -> None:
    pause = SETTLING
    while not until.wait(pause):
        set_session_niceness(LEAST)
        pause = LOOKS
    set_session_niceness(FULL)


def _set_session_niceness(leader: int, niceness: int) -> None:
    autogroup_file = Path(f"/proc/{leader}/autogroup")
    for _ in range(TRIES):
        try:
            if os.getsid(leader) == leader:
                # The kernel rate-limits changes and answers EAGAIN in between.
                autogroup_file.write_text(str(niceness))
        except BlockingIOError:
            time.sleep(PAUSE)
            continue
        except OSError:
            # The kernel has no autogroups, or the process has ended.
            pass
        return
