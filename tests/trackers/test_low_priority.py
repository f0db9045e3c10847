"""CPU priority of mirror processes: all their sessions have the lowest one during trainings."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

if not Path("/proc/self/autogroup").exists():
    pytest.skip("this system shares processors among processes only", allow_module_level=True)

STEPPED = """
import json, os, subprocess, sys, threading, time
from pathlib import Path
from rlexp.trackers import low_priority
low_priority.SETTLING = 0.2
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=-1, start_new_session=True)
over = threading.Event()

def niceness(wanted):
    end = time.monotonic() + 60
    while True:
        groups = [Path(f"/proc/{pid}/autogroup").read_text() for pid in (os.getpid(), child.pid)]
        found = [group.split()[-1] for group in groups]
        if found == wanted or time.monotonic() > end:
            return found
        time.sleep(0.05)

low_priority.lower_priority(over)
told = [os.sched_getscheduler(0), niceness(["19", "19"])]
over.set()
print(json.dumps([*told, niceness(["0", "0"])]))
child.kill()
"""


def test_sessions_of_a_mirror_have_low_priority_until_trainings_end() -> None:
    """The process and its child's session get the lowest priority; other sessions keep theirs."""
    before = Path("/proc/self/autogroup").read_text()
    done = subprocess.run(
        [sys.executable, "-c", STEPPED],
        capture_output=True,
        text=True,
        check=True,
        start_new_session=True,
    )
    scheduler, back, forward = json.loads(done.stdout)
    assert scheduler == os.SCHED_IDLE
    assert ["19", "19"] == back
    assert ["0", "0"] == forward
    assert Path("/proc/self/autogroup").read_text() == before
