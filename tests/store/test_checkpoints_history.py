"""After any history of a run, the newest published checkpoints can be continued from."""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from in_full import IN_FULL

from rlexp.errors import RecordError
from rlexp.records.checkpoint import MODEL, Checkpoint, Transitions
from rlexp.store.checkpoints.checkpoint_files import (
    KEPT_CHECKPOINTS,
    checkpoint_steps,
    clear_replay,
    discard_after,
    publish_checkpoint,
    read_checkpoint,
)
from rlexp.store.layout import RunPaths

CAPACITY = 250
ORIGIN = {"run": "a run"}
KILLED_EXIT_CODE = 9
STEPS = st.sampled_from([100, 0, 1, 60, 180, 250, 251, 600])
"""Steps between two checkpoints; some are more than the replay buffer holds."""
DISK_EVENTS = {
    "open",
    "os.rename",
    "os.mkdir",
    "os.remove",
    "os.rmdir",
    "os.listdir",
    "os.scandir",
}


def dies_at(moment: int, action: Callable[[], object]) -> bool:
    """Run an action in a forked process that dies at its nth call that touches the disk.

    Returns:
        Whether the process died before the action was done.
    """
    child = os.fork()
    if child:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in {0, KILLED_EXIT_CODE}
        return code == KILLED_EXIT_CODE
    calls = 0

    def watch(event: str, _: tuple[object, ...]) -> None:
        nonlocal calls
        calls += event in DISK_EVENTS
        if calls == moment:
            os._exit(KILLED_EXIT_CODE)

    sys.addaudithook(watch)
    try:
        action()
        os._exit(0)
    finally:
        os._exit(1)


def experience(begin: int, end: int) -> bytes:
    """The content of these transitions, one byte for each."""
    return bytes(number * 7 % 251 for number in range(begin, end))


class Run(RuleBasedStateMachine):
    """A run that trains, publishes, dies and continues, with the steps of its checkpoints."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.paths = RunPaths(Path(self.folder.name))
        self.step = 0
        self.written_step = 0
        self.kept_steps: list[int] = []

    def teardown(self) -> None:
        """Remove the folder of the run."""
        self.folder.cleanup()

    def checkpoint(self) -> Checkpoint:
        """The checkpoint of the current step."""
        oldest = max(self.step - CAPACITY, 0)
        begin = max(self.written_step, oldest)
        transitions = Transitions(begin, self.step, experience(begin, self.step))
        return Checkpoint(
            step=self.step,
            files={MODEL: str(self.step).encode()},
            oldest=oldest,
            transitions=transitions if begin < self.step else None,
        )

    def publish(self) -> None:
        """Publish the checkpoint of the current step."""
        publish_checkpoint(self.paths, self.checkpoint(), ORIGIN)

    def is_usable(self, step: int) -> bool:
        """Whether the run can continue from a checkpoint; a usable checkpoint must be correct."""
        try:
            saved = read_checkpoint(self.paths, step, run_id="a run")
            stretches = list(saved.transitions())
        except RecordError:
            return False
        oldest = max(step - CAPACITY, 0)
        first = stretches[0].begin if stretches else oldest
        assert {MODEL: str(step).encode()} == saved.files
        assert experience(first, step) == b"".join(stretch.content for stretch in stretches)
        assert first <= oldest
        assert all(stretch.end > oldest for stretch in stretches)
        return True

    def usable(self) -> list[int]:
        """The steps that the run can continue from, newest first."""
        return [step for step in checkpoint_steps(self.paths) if self.is_usable(step)]

    def continue_run(self) -> None:
        """Start the next attempt from the newest usable checkpoint."""
        self.kept_steps = self.usable()[:KEPT_CHECKPOINTS]
        self.step = self.written_step = self.kept_steps[0] if self.kept_steps else 0
        discard_after(self.paths, self.kept_steps[0] if self.kept_steps else None)

    @rule(stretches=st.lists(STEPS, min_size=1, max_size=4))
    def publish_several(self, stretches: list[int]) -> None:
        """Publish a checkpoint after each of these numbers of steps; the newest two are kept."""
        for steps in stretches:
            self.step += steps
            self.publish()
            self.written_step = self.step
            earlier = [step for step in self.kept_steps if step < self.step]
            self.kept_steps = [self.step, *earlier][:KEPT_CHECKPOINTS]

    @rule(steps=STEPS, moment=st.integers(1, 60))
    def die_while_publishing(self, steps: int, moment: int) -> None:
        """After a death, the newest checkpoint is the one before or the new one."""
        self.step += steps
        dies_at(moment, self.publish)
        steps_on_disk = self.usable()
        assert steps_on_disk[:1] in ([self.step], self.kept_steps[:1])
        assert {*steps_on_disk} <= {self.step, *self.kept_steps}
        assert {*self.kept_steps[: KEPT_CHECKPOINTS - 1]} <= {*steps_on_disk}
        self.continue_run()

    @rule(moment=st.integers(1, 40))
    def die_while_continuing(self, moment: int) -> None:
        """A death while continuing leaves every expected checkpoint usable."""
        newest = self.kept_steps[0] if self.kept_steps else None
        dies_at(moment, lambda: discard_after(self.paths, newest))
        assert self.kept_steps == self.usable()
        self.continue_run()

    @precondition(lambda self: self.kept_steps)
    @rule(data=st.data())
    def damage_the_newest(self, data: st.DataObject) -> None:
        """With a damaged newest checkpoint, the run continues from the one before."""
        files = sorted((self.paths.checkpoints / str(self.kept_steps[0])).iterdir())
        path = data.draw(st.sampled_from(files))
        path.write_bytes(path.read_bytes()[:-1])
        assert self.kept_steps[1:] == self.usable()
        self.continue_run()

    def begin_anew(self) -> None:
        """Start an attempt that discards all checkpoints."""
        discard_after(self.paths, None)
        self.step = self.written_step = 0
        self.kept_steps = []

    @rule(moment=st.integers(1, 40))
    def complete(self, moment: int) -> None:
        """Completion keeps policies and removes experience, even if it takes two attempts."""
        dies_at(moment, lambda: clear_replay(self.paths))
        clear_replay(self.paths)
        assert self.kept_steps == checkpoint_steps(self.paths)
        for step in self.kept_steps:
            saved = read_checkpoint(self.paths, step, run_id="a run")
            assert {MODEL: str(step).encode()} == saved.files
        assert not self.paths.replay.exists()
        self.begin_anew()

    @invariant()
    def only_the_expected_checkpoints_exist(self) -> None:
        """The expected checkpoints are complete, and no other chunks exist."""
        assert self.kept_steps == self.usable()
        expected_chunks: set[str] = set()
        for step in self.kept_steps:
            saved = read_checkpoint(self.paths, step, run_id="a run")
            expected_chunks |= {f"{t.begin}-{t.end}.npz" for t in saved.transitions()}
        chunks: set[str] = set()
        with suppress(FileNotFoundError):
            chunks = {path.name for path in self.paths.replay.iterdir()}
        assert expected_chunks == chunks


# In the long form the process forks about a thousand times. One fork takes up to 0.4 seconds on a
# busy machine, after the tests of other files have filled the process with a gigabyte of memory.
TestRun = pytest.mark.timeout(1800)(Run.TestCase)
TestRun.settings = settings(max_examples=100 if IN_FULL else 8, stateful_step_count=20)
