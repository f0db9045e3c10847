"""Whatever a run goes through, the newest checkpoints that were published can be continued from."""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from in_full import IN_FULL

from rlexp.errors import RecordError
from rlexp.records.checkpoint import MODEL, Checkpoint, Transitions
from rlexp.store.checkpoints import (
    KEPT_CHECKPOINTS,
    checkpoint_steps,
    clear_replay,
    discard_after,
    publish_checkpoint,
    read_checkpoint,
)
from rlexp.store.layout import RunPaths

CAPACITY = 250
ABOUT = {"run": "a run"}
KILLED = 9
STEPS = st.sampled_from([100, 0, 1, 60, 180, 250, 251, 600])
"""Between two checkpoints; also more than the ring holds."""
TOUCHING = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.listdir", "os.scandir"}


def dies(moment: int, action: Callable[[], object]) -> bool:
    """Let a copy of this process do it; it ends, without a word, at a call that touches the disk.

    Returns:
        Whether it died before it was done.
    """
    child = os.fork()
    if child:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in {0, KILLED}
        return code == KILLED
    calls = 0

    def watch(event: str, _: tuple[object, ...]) -> None:
        nonlocal calls
        calls += event in TOUCHING
        if calls == moment:
            os._exit(KILLED)

    sys.addaudithook(watch)
    try:
        action()
        os._exit(0)
    finally:
        os._exit(1)


def experience(begin: int, end: int) -> bytes:
    """A byte for each transition."""
    return bytes(number * 7 % 251 for number in range(begin, end))


class Run(RuleBasedStateMachine):
    """A run that trains, publishes, dies, continues and completes; `kept` is what must be there."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.paths = RunPaths(Path(self.folder.name))
        self.step = 0
        self.written = 0
        self.kept: list[int] = []

    def teardown(self) -> None:
        """Remove it."""
        self.folder.cleanup()

    def checkpoint(self) -> Checkpoint:
        """Of the training as it stands."""
        oldest = max(self.step - CAPACITY, 0)
        begin = max(self.written, oldest)
        new = Transitions(begin, self.step, experience(begin, self.step))
        return Checkpoint(
            step=self.step,
            files={MODEL: str(self.step).encode()},
            oldest=oldest,
            transitions=new if begin < self.step else None,
        )

    def publish(self) -> None:
        """Publish it."""
        publish_checkpoint(self.paths, self.checkpoint(), ABOUT)

    def is_usable(self, step: int) -> bool:
        """Whether the run could go on from a checkpoint, which then must be right."""
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
        """The steps that the run could go on from, newest first."""
        return [step for step in checkpoint_steps(self.paths) if self.is_usable(step)]

    def go_on(self) -> None:
        """What the next attempt does."""
        self.kept = self.usable()[:KEPT_CHECKPOINTS]
        self.step = self.written = self.kept[0] if self.kept else 0
        discard_after(self.paths, self.kept[0] if self.kept else None)

    @rule(stretches=st.lists(STEPS, min_size=1, max_size=4))
    def publishes(self, stretches: list[int]) -> None:
        """Each time after so many steps; the newest two are kept."""
        for steps in stretches:
            self.step += steps
            self.publish()
            self.written = self.step
            earlier = [step for step in self.kept if step < self.step]
            self.kept = [self.step, *earlier][:KEPT_CHECKPOINTS]

    @rule(steps=STEPS, moment=st.integers(1, 60))
    def dies_while_it_publishes(self, steps: int, moment: int) -> None:
        """What was the newest before is there, or what was being published."""
        self.step += steps
        dies(moment, self.publish)
        results = self.usable()
        assert results[:1] in ([self.step], self.kept[:1])
        assert {*results} <= {self.step, *self.kept}
        assert {*self.kept[: KEPT_CHECKPOINTS - 1]} <= {*results}
        self.go_on()

    @rule(moment=st.integers(1, 40))
    def dies_while_it_continues(self, moment: int) -> None:
        """What it continues from stays."""
        newest = self.kept[0] if self.kept else None
        dies(moment, lambda: discard_after(self.paths, newest))
        assert self.kept == self.usable()
        self.go_on()

    @precondition(lambda self: self.kept)
    @rule(data=st.data())
    def finds_the_newest_damaged(self, data: st.DataObject) -> None:
        """It goes on from the one before."""
        files = sorted((self.paths.checkpoints / str(self.kept[0])).iterdir())
        path = data.draw(st.sampled_from(files))
        path.write_bytes(path.read_bytes()[:-1])
        assert self.kept[1:] == self.usable()
        self.go_on()

    def begin_anew(self) -> None:
        """Nothing of what was before counts."""
        discard_after(self.paths, None)
        self.step = self.written = 0
        self.kept = []

    @rule(moment=st.integers(1, 40))
    def completes(self, moment: int) -> None:
        """Policies stay, experience goes; also where that takes two attempts."""
        dies(moment, lambda: clear_replay(self.paths))
        clear_replay(self.paths)
        assert self.kept == checkpoint_steps(self.paths)
        for step in self.kept:
            saved = read_checkpoint(self.paths, step, run_id="a run")
            assert {MODEL: str(step).encode()} == saved.files
        assert not self.paths.replay.exists()
        self.begin_anew()

    @invariant()
    def what_was_published_is_there_and_nothing_else(self) -> None:
        """The kept checkpoints, whole; and no more chunks than they name."""
        assert self.kept == self.usable()
        needed: set[str] = set()
        for step in self.kept:
            saved = read_checkpoint(self.paths, step, run_id="a run")
            needed |= {f"{t.begin}-{t.end}.npz" for t in saved.transitions()}
        results: set[str] = set()
        with suppress(FileNotFoundError):
            results = {path.name for path in self.paths.replay.iterdir()}
        assert needed == results


TestRun = Run.TestCase
TestRun.settings = settings(max_examples=100 if IN_FULL else 8, stateful_step_count=20)
