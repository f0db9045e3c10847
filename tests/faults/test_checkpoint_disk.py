"""Checkpoints survive a kill, a full disk and a failing disk at every single system call."""

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from checkpoint_samples import (
    ABOUT,
    checkpoint,
    files_of,
    needed,
    publish_up_to,
    read_whole,
    usable,
)
from in_full import IN_FULL
from injection import count_calls, fail_at, kill_at, trace_calls, traced

from rlexp.errors import RecordError
from rlexp.store.checkpoints.checkpoint_files import (
    checkpoint_steps,
    clear_replay,
    discard_after,
    publish_checkpoint,
    read_checkpoint,
)
from rlexp.store.layout import RunPaths

pytestmark = traced

PROGRAM = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent.parent)!r})
from pathlib import Path
from checkpoint_samples import ABOUT, checkpoint
from rlexp.store.checkpoints.checkpoint_files import clear_replay, discard_after, publish_checkpoint
from rlexp.store.layout import RunPaths

action, paths, step = sys.argv[1], RunPaths(Path(sys.argv[2])), int(sys.argv[3])
if action == "publish":
    publish_checkpoint(paths, checkpoint(step), ABOUT)
elif action == "discard":
    discard_after(paths, step)
else:
    clear_replay(paths)
"""


@dataclass(frozen=True)
class Case:
    """The newest checkpoint before a publication, and the checkpoint that is published."""

    before: int
    step: int

    def prepared(self, folder: Path) -> RunPaths:
        """A run with the checkpoints before the publication."""
        paths = RunPaths(folder)
        publish_up_to(paths, self.before)
        return paths


SECOND = Case(before=100, step=200)
SIXTH = Case(before=500, step=600)
"""A publication that removes the fourth checkpoint and a chunk of overwritten experience."""
AGAIN = Case(before=100, step=100)
"""A publication that replaces the only checkpoint."""
WRITING = ("write", "fsync", "rename", "mkdir")
REMOVING = ("unlink", "unlinkat", "rmdir")
STEPS = [
    *((SECOND, call) for call in WRITING),
    *((SIXTH, call) for call in (*WRITING, *REMOVING)),
    *((AGAIN, call) for call in (*WRITING, "unlinkat", "rmdir")),
]
"""The system calls that change the disk in each case."""
if not IN_FULL:
    # The case that makes every kind of change.
    STEPS = [step for step in STEPS if step[0] is SIXTH]
cases = pytest.mark.parametrize(
    ("case", "call"), STEPS, ids=[f"{c.before} to {c.step}, {call}" for c, call in STEPS]
)


def copy(paths: RunPaths, name: str) -> RunPaths:
    """A copy of a run beside it."""
    folder = paths.folder.with_name(name)
    shutil.copytree(paths.folder, folder)
    return RunPaths(folder)


def content(paths: RunPaths) -> dict[Path, bytes]:
    """Every file of a run by its place in the run's folder."""
    return {path.relative_to(paths.folder): data for path, data in files_of(paths).items()}


def content_after_repeat(paths: RunPaths, case: Case) -> dict[Path, bytes]:
    """Every file after the run continued from its newest checkpoint to the same step."""
    newest = usable(paths)[0]
    discard_after(paths, newest)
    if newest < case.step:
        publish_checkpoint(paths, checkpoint(case.step), ABOUT)
    return content(paths)


def each_call(case: Case, folder: Path, call: str) -> tuple[RunPaths, dict[Path, bytes], int]:
    """The prepared run, its files after an undisturbed publication, and the number of calls."""
    prepared = case.prepared(folder / "prepared")
    control = copy(prepared, "control")
    count = count_calls([call], PROGRAM, "publish", control.folder, case.step)[call]
    assert usable(control)[0] == case.step
    assert count > 0
    return prepared, content(control), count


@cases
def test_a_kill_at_any_call_leaves_a_complete_checkpoint(
    tmp_path: Path, case: Case, call: str
) -> None:
    """After a kill at any call the run continues from the old or the new checkpoint."""
    prepared, control, count = each_call(case, tmp_path, call)
    for n in range(1, count + 1):
        paths = copy(prepared, f"killed {n}")
        outcome = kill_at(call, n, PROGRAM, "publish", paths.folder, case.step)
        assert (-9, True) == (outcome.code, outcome.hit), outcome.output
        assert usable(paths)[0] in {case.before, case.step}
        assert control == content_after_repeat(paths, case)


@cases
def test_a_failing_disk_is_told_and_takes_no_checkpoint(
    tmp_path: Path, case: Case, call: str
) -> None:
    """A call that fails raises an error and keeps the old checkpoints, or the new one is there."""
    prepared, control, count = each_call(case, tmp_path, call)
    before = usable(prepared)
    for n in range(1, count + 1):
        paths = copy(prepared, f"failed {n}")
        error = "ENOSPC" if call in {"write", "mkdir"} else "EIO"
        outcome = fail_at(call, n, error, PROGRAM, "publish", paths.folder, case.step)
        assert outcome.hit
        if outcome.code:
            assert re.search(r"\nOSError: \[Errno (5|28)\] ", outcome.output)
            assert before == usable(paths)
        else:
            assert case.step == usable(paths)[0]
        assert control == content_after_repeat(paths, case)


def test_no_error_before_the_publication_is_swallowed(tmp_path: Path) -> None:
    """A failed write or fsync is an error, except for the fsync of the folder after the rename."""
    codes = {}
    for call in ("write", "fsync"):
        prepared, _, count = each_call(SECOND, tmp_path / call, call)
        arguments = [(copy(prepared, str(n)).folder, SECOND.step) for n in range(1, count + 1)]
        codes[call] = [
            fail_at(call, n, "EIO", PROGRAM, "publish", *word).code
            for n, word in enumerate(arguments, 1)
        ]
    assert {"write": [1] * 5, "fsync": [1] * 7 + [0]} == codes


def test_a_failed_publication_leaves_nothing_behind(tmp_path: Path) -> None:
    """A publication that fails on a full disk leaves no file that fills the disk further."""
    paths = SECOND.prepared(tmp_path / "run")
    before = content(paths)
    assert fail_at("write", 4, "ENOSPC", PROGRAM, "publish", paths.folder, 200).hit
    assert before == content(paths)


ORDER = """
fsync .new.500-600.npz
rename 500-600.npz
fsync replay
fsync model.zip
fsync normalisation.npz
fsync state.npz
fsync manifest.json
fsync .new.600
rename 600
fsync checkpoints
rename .new.400
rmdir .new.400
unlink 100-200.npz
"""


def test_the_order_of_calls_outlasts_a_power_cut(tmp_path: Path) -> None:
    """Experience, files and folders are synced in this order before old files are removed."""
    paths = SIXTH.prepared(tmp_path / "run")
    calls = ("fsync", "rename", "unlink", "rmdir")
    lines = trace_calls(calls, PROGRAM, "publish", paths.folder, SIXTH.step)
    operations = [re.sub(r"(\w+)\(.*/(.*?)[\">].*", r"\1 \2", line) for line in lines]
    assert ORDER.split("\n")[1:-1] == [
        re.sub(r"\.[0-9a-f]{8}\.", ".new.", name) for name in operations
    ]


REMOVALS: dict[str, Callable[[RunPaths], None]] = {
    "clear": clear_replay,
    "discard": lambda paths: discard_after(paths, 200),
}


def refusals(paths: RunPaths) -> set[str]:
    """The reasons why checkpoints cannot be continued from; every policy must be readable."""
    reasons = set()
    for step in checkpoint_steps(paths):
        read_checkpoint(paths, step, run_id=str(ABOUT["run"]))
        try:
            assert needed(step) == read_whole(paths, step)
        except RecordError as error:
            reasons.add(str(error).rpartition(": ")[2])
    return reasons


@pytest.mark.parametrize(
    ("action", "call"),
    [
        *(("clear", call) for call in ("write", "fsync", "rename", "unlink", "rmdir")),
        *(("discard", call) for call in ("fsync", "rename", *REMOVING)),
    ],
)
def test_a_removal_that_was_cut_short_is_completed_by_the_next(
    tmp_path: Path, action: str, call: str
) -> None:
    """A removal that is killed loses no policy, and the next removal completes it."""
    prepared = Case(before=300, step=300).prepared(tmp_path / "prepared")
    control = copy(prepared, "control")
    count = count_calls([call], PROGRAM, action, control.folder, 200)[call]
    assert count > 0
    for n in range(1, count + 1):
        paths = copy(prepared, f"killed {n}")
        outcome = kill_at(call, n, PROGRAM, action, paths.folder, 200)
        assert (-9, True) == (outcome.code, outcome.hit), outcome.output
        assert refusals(paths) <= {"the experience was removed when the run was completed"}
        REMOVALS[action](paths)
        assert content(control) == content(paths)
