"""Checkpoints survive a kill, a full disk and a failing one at every single system call."""

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
from rlexp.store.checkpoints import (
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
from rlexp.store.checkpoints import clear_replay, discard_after, publish_checkpoint
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
    """What is there before, and which checkpoint is published then."""

    before: int
    step: int

    def prepared(self, folder: Path) -> RunPaths:
        """A run with what is there before."""
        paths = RunPaths(folder)
        publish_up_to(paths, self.before)
        return paths


SECOND = Case(before=100, step=200)
SIXTH = Case(before=500, step=600)
"""Which pushes out the fourth, and a chunk that the ring has overwritten."""
AGAIN = Case(before=100, step=100)
"""Which takes the place of the only one that there is."""
WRITING = ("write", "fsync", "rename", "mkdir")
REMOVING = ("unlink", "unlinkat", "rmdir")
STEPS = [
    *((SECOND, call) for call in WRITING),
    *((SIXTH, call) for call in (*WRITING, *REMOVING)),
    *((AGAIN, call) for call in (*WRITING, "unlinkat", "rmdir")),
]
"""By which system calls anything changes on disk in each case."""
if not IN_FULL:
    # Of every kind of change, in the case that has all of them.
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


def repeated(paths: RunPaths, case: Case) -> dict[Path, bytes]:
    """What is there after the run continued from its newest checkpoint as far as before."""
    newest = usable(paths)[0]
    discard_after(paths, newest)
    if newest < case.step:
        publish_checkpoint(paths, checkpoint(case.step), ABOUT)
    return content(paths)


def each_call(case: Case, folder: Path, call: str) -> tuple[RunPaths, dict[Path, bytes], int]:
    """What is prepared, what is there after an undisturbed publication, and its calls."""
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
    """The old newest one or the new one can be continued from, and that leaves no trace of it."""
    prepared, control, count = each_call(case, tmp_path, call)
    for n in range(1, count + 1):
        paths = copy(prepared, f"killed {n}")
        outcome = kill_at(call, n, PROGRAM, "publish", paths.folder, case.step)
        assert (-9, True) == (outcome.code, outcome.hit), outcome.output
        assert usable(paths)[0] in {case.before, case.step}
        assert control == repeated(paths, case)


@cases
def test_a_failing_disk_is_told_and_takes_no_checkpoint(
    tmp_path: Path, case: Case, call: str
) -> None:
    """Either the error is raised and what was there is there, or the new one is published."""
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
        assert control == repeated(paths, case)


def test_no_error_before_the_publication_is_swallowed(tmp_path: Path) -> None:
    """Every write, and every fsync but that of the folder that the new name is in already."""
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
    """On a full disk, what was written in vain would be in the way of everything else."""
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
    """Experience, then files, then their folder, then its name; only then goes what is older."""
    paths = SIXTH.prepared(tmp_path / "run")
    calls = ("fsync", "rename", "unlink", "rmdir")
    lines = trace_calls(calls, PROGRAM, "publish", paths.folder, SIXTH.step)
    results = [re.sub(r"(\w+)\(.*/(.*?)[\">].*", r"\1 \2", line) for line in lines]
    assert ORDER.split("\n")[1:-1] == [
        re.sub(r"\.[0-9a-f]{8}\.", ".new.", name) for name in results
    ]


REMOVALS: dict[str, Callable[[RunPaths], None]] = {
    "clear": clear_replay,
    "discard": lambda paths: discard_after(paths, 200),
}


def refusals(paths: RunPaths) -> set[str]:
    """Why checkpoints cannot be continued from; every policy must be there."""
    results = set()
    for step in checkpoint_steps(paths):
        read_checkpoint(paths, step, run_id=str(ABOUT["run"]))
        try:
            assert needed(step) == read_whole(paths, step)
        except RecordError as error:
            results.add(str(error).rpartition(": ")[2])
    return results


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
    """Killed at any call, no policy is lost, and no checkpoint lacks experience without saying."""
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
