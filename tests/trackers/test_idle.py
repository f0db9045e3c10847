"""What mirrors do costs a training next to nothing: all their processes ask for what is left over."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

if not Path("/proc/self/autogroup").exists():
    pytest.skip("this system shares processors among processes only", allow_module_level=True)

STEPPED = """
import json, os, sys
from pathlib import Path
from rlexp.trackers.idle import come_forward, step_back
step_back()
group = Path("/proc/self/autogroup")
told = [os.sched_getscheduler(0), group.read_text()]
come_forward()
print(json.dumps([*told, group.read_text()]))
"""
WANDB = """
import os, sys, threading, time
from pathlib import Path
import psutil
from rlexp.trackers.idle import step_back
from rlexp.trackers.wandb_process import Session
session = Session(sys.argv[1])
step_back()
session.open({"mode": "offline", "base_url": "http://127.0.0.1:9", "folder": sys.argv[1]})
children = psutil.Process().children(recursive=True)
leaders = [c.pid for c in children if os.getsid(c.pid) == c.pid]
print([Path(f"/proc/{leader}/autogroup").read_text().split()[-1] for leader in leaders])
for child in children:
    child.kill()
sys.stdout.flush()
os._exit(0)
"""


def _printed(program: str, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        capture_output=True,
        text=True,
        check=True,
        start_new_session=True,
    )
    return done.stdout.strip()


def test_a_process_steps_back_with_its_session_and_with_no_other() -> None:
    """It is idle, its session has the least weight until it comes forward; ours keeps its own."""
    before = Path("/proc/self/autogroup").read_text()
    scheduler, *groups = json.loads(_printed(STEPPED))
    assert 5 == scheduler
    assert ["19", "0"] == [group.split()[-1] for group in groups]
    assert Path("/proc/self/autogroup").read_text() == before


def test_wandbs_core_which_leads_a_session_of_its_own_steps_back_too(tmp_path: Path) -> None:
    """Every session that W&B starts has the least weight."""
    pytest.importorskip("wandb")
    groups = _printed(WANDB, str(tmp_path))
    assert groups != "[]"
    assert set(json.loads(groups.replace("'", '"'))) == {"19"}
