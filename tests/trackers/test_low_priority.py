"""CPU priority of mirror processes: all their sessions have the lowest one during trainings."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

if not Path("/proc/self/autogroup").exists():
    pytest.skip("this system shares processors among processes only", allow_module_level=True)

PROGRAM = """
import json, os, subprocess, sys, threading, time
from pathlib import Path
from rlexp.trackers import low_priority
low_priority.SETTLING = 0.2
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=-1, start_new_session=True)
training_ended = threading.Event()

def niceness(expected):
    end = time.monotonic() + 60
    while True:
        groups = [Path(f"/proc/{pid}/autogroup").read_text() for pid in (os.getpid(), child.pid)]
        actual = [group.split()[-1] for group in groups]
        if actual == expected or time.monotonic() > end:
            return actual
        time.sleep(0.05)

low_priority.lower_priority(training_ended)
during = [os.sched_getscheduler(0), niceness(["19", "19"])]
training_ended.set()
print(json.dumps([*during, niceness(["0", "0"])]))
child.kill()
"""


def test_sessions_of_a_mirror_have_low_priority_until_trainings_end() -> None:
    """A mirror and its child have the lowest priority until trainings end; others keep theirs."""
    before = Path("/proc/self/autogroup").read_text()
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        start_new_session=True,
    )
    scheduler, niceness_during, niceness_after = json.loads(process.stdout)
    assert scheduler == os.SCHED_IDLE
    assert ["19", "19"] == niceness_during
    assert ["0", "0"] == niceness_after
    assert Path("/proc/self/autogroup").read_text() == before
