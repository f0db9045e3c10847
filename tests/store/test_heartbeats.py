"""Leases that need no locks: held, lost and taken over, by real processes."""

import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from in_full import IN_FULL

from rlexp.errors import HeldError, RecordError
from rlexp.store import lease, shared_leases
from rlexp.store.processes import Process, this_process
from rlexp.store.shared_leases import LeaseTiming, SharedLease, inspect, remove, take

QUICK = LeaseTiming(beat=0.05, lease=0.6, second_look=0.1, settling=0.05)
CODE = """
import sys, time
from pathlib import Path
from rlexp.store.shared_leases import LeaseTiming, take

path, begin, *timing = sys.argv[1:]
while time.time() < float(begin):
    time.sleep(0.001)
lost = lambda: print("lost", flush=True)
held = take(Path(path), "it", now=0.0, on_loss=lost, timing=LeaseTiming(*map(float, timing)))
print("held" if held else "refused", flush=True)
sys.stdin.readline()
if held:
    held.release()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the lease stands."""
    return tmp_path / ".lease"


@contextmanager
def process(path: Path, timing: LeaseTiming = QUICK, begin: float = 0.0) -> Iterator[Any]:
    """A process that takes the lease and holds it until its input ends."""
    messages = (timing.beat, timing.lease, timing.second_look, timing.settling)
    arguments = [sys.executable, "-c", CODE, os.fspath(path), str(begin), *map(str, messages)]
    started = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


def word(started: Any) -> str:
    """The next line that a process prints."""
    return str(started.stdout.readline().strip())


def left(path: Path, age: float = 0.0, **entry: Any) -> str:
    """A lease that some process left, with what it said of itself; returns its token."""
    document = {
        "pid": 12,
        "host": "node7",
        "boot": "b",
        "started": "1",
        "token": "t",
        "since": 0.0,
    }
    path.write_text(json.dumps({**document, **entry}))
    touched = time.time() - age
    os.utime(path, (touched, touched))
    return "t"


def quick(path: Path, **more: Any) -> SharedLease | None:
    """Take the lease in a test's timing."""
    return take(path, "it", now=0.0, timing=QUICK, **more)


def test_a_holder_on_another_machine_is_believed_while_it_beats(path: Path) -> None:
    """Its lease is refused, with its name and how long it has been silent."""
    left(path, age=40.0)
    before = path.read_bytes()
    assert take(path, "it", now=0.0) is None
    assert before == path.read_bytes()


def test_a_refusal_says_how_long_the_holder_has_been_silent(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the age of the last heartbeat and the time of the takeover."""
    monkeypatch.setenv("RLEXP_SHARED", "1")
    left(path, age=40.0)
    expected = (
        r"^run x is in use by process 12 on node7, silent for 4\d s \(taken over after 60 s\); "
        "wait for it or stop it$"
    )
    with pytest.raises(HeldError, match=expected), lease.hold(path, "run x", now=0.0, patience=0):
        pass
    assert lease.is_held(path)
    assert {"pid": 12, "host": "node7", "since": 0.0} == lease.holding(path)


def test_a_holder_on_another_machine_that_fell_silent_is_replaced(path: Path) -> None:
    """A lease without a heartbeat for a minute is taken over."""
    left(path, age=61.0)
    assert not shared_leases.is_taken(path)
    held = take(path, "it", now=0.0)
    assert held is not None
    assert os.getpid() == shared_leases.entry_at(path)["pid"]
    held.release()
    assert [] == list(path.parent.iterdir())


def test_a_holder_that_was_killed_on_this_machine_is_replaced_at_once(path: Path) -> None:
    """Nobody waits for the silence of a process that is known to be gone, a zombie included."""
    with process(path, shared_leases.DEFAULT_TIMING) as other:
        assert "held" == word(other)
        assert quick(path) is None
        other.kill()
        other.wait()
        held = quick(path)
        assert held is not None
        held.release()


def test_a_number_that_another_process_has_by_now_is_no_holder(path: Path) -> None:
    """A process with the same number and another start time is not the holder."""
    own = this_process()
    left(path, **{**own.plain(), "started": "7"})
    assert not shared_leases.is_taken(path)
    left(path, **own.plain())
    assert shared_leases.is_taken(path)


@pytest.mark.parametrize("other", [{"host": "node7"}, {"boot": "another"}, {"boot": None}])
def test_nothing_is_known_of_processes_elsewhere(other: dict[str, Any]) -> None:
    """On another machine, in another container, or before a restart, a number says nothing."""
    document = {"pid": 2**22 + 1, "host": socket.gethostname(), "boot": this_process().boot}
    assert Process.from_plain(document).is_gone()
    assert not Process.from_plain({**document, **other}).is_gone()


@pytest.mark.parametrize("pid", [None, -1, 0, "12", True, 1.5])
def test_a_number_that_is_none_kills_nobody(pid: Any) -> None:
    """A damaged process number does not prove that the holder is dead."""
    assert not Process.from_plain({**this_process().plain(), "pid": pid}).is_gone()


def test_a_suspended_holder_that_wakes_knows_that_it_lost(path: Path) -> None:
    """It is told once, and leaves the lease of the one that took it over."""
    with process(path) as other:
        assert "held" == word(other)
        os.kill(other.pid, signal.SIGSTOP)
        assert quick(path) is None
        time.sleep(QUICK.lease + 0.1)
        held = quick(path)
        assert held is not None
        before = path.read_bytes()
        os.kill(other.pid, signal.SIGCONT)
        assert "lost" == word(other)
        assert ("", None) == other.communicate("\n")
        assert before == path.read_bytes()
        assert not held.lost
        held.release()


def test_a_beating_holder_keeps_its_lease(path: Path) -> None:
    """A holder with heartbeats keeps its lease for several times the limit."""
    with process(path) as other:
        assert "held" == word(other)
        until = time.monotonic() + 3 * QUICK.lease
        while time.monotonic() < until:
            assert quick(path) is None
            time.sleep(0.02)


def test_of_two_that_race_for_a_silent_lease_one_wins(path: Path) -> None:
    """Of two processes that take over a silent lease at once, exactly one holds it."""
    context = multiprocessing.get_context("fork")
    for turn in range(50 if IN_FULL else 15):
        left(path, age=61.0, token=str(turn))
        barrier, answers = context.Barrier(2), context.SimpleQueue()

        def race(barrier: Any = barrier, answers: Any = answers) -> None:
            barrier.wait()
            held = quick(path)
            answers.put(held is not None)
            barrier.wait()
            if held is not None:
                answers.put(held.lost)
                held.release()

        racers = [context.Process(target=race) for _ in range(2)]
        for racer in racers:
            racer.start()
        said = sorted(answers.get() for _ in range(3))
        for racer in racers:
            racer.join()
        assert [False, False, True] == said
        assert [] == list(path.parent.iterdir())


def test_of_many_threads_one_holds_a_lease_that_is_free(path: Path) -> None:
    """Of many threads that take a free lease at once, exactly one holds it."""
    barrier, results = threading.Barrier(8), list[SharedLease | None]()

    def race() -> None:
        barrier.wait()
        results.append(quick(path))

    threads = [threading.Thread(target=race) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (held,) = [item for item in results if item is not None]
    held.release()


def test_who_comes_too_late_puts_back_what_it_took(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A takeover that saw a silent lease, and takes a new one in its place, undoes that."""
    left(path, age=61.0)
    silent = inspect(path)
    assert silent is not None
    path.unlink()
    held = quick(path)
    assert held is not None
    whole = shared_leases.read
    # What it reads before is still the old one.
    monkeypatch.setattr(
        shared_leases, "read", lambda p: silent if p == path and path.exists() else whole(p)
    )
    assert not remove(path, silent.token, silent.touched)
    monkeypatch.undo()
    time.sleep(3 * QUICK.beat + QUICK.second_look)
    assert not held.lost
    held.release()


def test_a_lease_that_is_put_back_was_not_lost(path: Path) -> None:
    """One that is missing is looked at again before that is believed."""
    messages: list[int] = []
    patient = LeaseTiming(beat=0.05, second_look=1.0)
    held = take(path, "it", now=0.0, on_loss=lambda: messages.append(1), timing=patient)
    assert held is not None
    aside = path.rename(path.with_name("aside"))
    time.sleep(0.3)
    aside.rename(path)
    time.sleep(1.2)
    assert ([], False) == (messages, held.lost)
    held.release()


def test_a_holder_that_wakes_in_the_last_moment_is_not_taken_over(path: Path) -> None:
    """What was touched since it was looked at is not the silent one any more."""
    left(path, age=61.0)
    silent = inspect(path)
    assert silent is not None
    os.utime(path)
    assert not remove(path, silent.token, silent.touched)
    assert path.exists()


@pytest.mark.parametrize("happens", ["removed", "replaced", "over"])
def test_a_lost_lease_is_told_once(path: Path, happens: str) -> None:
    """Whoever removed it or put another in its place; nothing of the other is removed."""
    messages: list[float] = []
    held = quick(path, on_loss=lambda: messages.append(time.monotonic()))
    assert held is not None
    other = None
    if happens == "removed":
        path.unlink()
    elif happens == "replaced":
        path.unlink()
        left(path)
    else:
        other = quick(path, over=True)
        assert other is not None
    until = time.monotonic() + 5
    while not messages and time.monotonic() < until:
        time.sleep(0.02)
    time.sleep(3 * QUICK.beat)
    assert (1, True) == (len(messages), held.lost)
    held.release()
    assert (happens != "removed") == path.exists()
    if other is not None:
        assert not other.lost
        other.release()


def test_releasing_tells_of_no_loss(path: Path) -> None:
    """However soon the file is another's afterwards."""
    messages: list[int] = []
    for _ in range(5):
        held = quick(path, on_loss=lambda: messages.append(1))
        assert held is not None
        held.release()
        held.release()
        assert held.lost
    time.sleep(3 * QUICK.beat + QUICK.second_look)
    assert [] == messages


@pytest.mark.parametrize("ahead", [3600.0, 1e9])
def test_a_time_to_come_is_not_waited_for(path: Path, ahead: float) -> None:
    """The silence counts from when it was first seen, by the clock of the file system."""
    left(path, age=-ahead)
    assert shared_leases.is_taken(path)
    assert quick(path) is None
    time.sleep(QUICK.lease + 0.1)
    held = quick(path)
    assert held is not None
    held.release()


@pytest.mark.parametrize("error", [-1e6, 1e6])
def test_the_clock_of_this_machine_does_not_matter(
    path: Path, monkeypatch: pytest.MonkeyPatch, error: float
) -> None:
    """Times of the file system are compared with each other only."""
    held, clock = quick(path), time.time
    monkeypatch.setattr(time, "time", lambda: clock() + error)
    monkeypatch.setattr(time, "time_ns", lambda: int((clock() + error) * 1e9))
    assert held is not None
    time.sleep(0.2)
    results = inspect(path)
    assert results is not None
    assert -0.1 < results.silent < QUICK.lease
    assert quick(path) is None
    held.release()


@pytest.mark.parametrize("content", ["{", "[]", "7", "\0", '{"pid": "x", "token": 5}'])
def test_a_damaged_lease_is_held_until_it_is_silent(path: Path, content: str) -> None:
    """Who holds it cannot be told."""
    path.write_text(content)
    assert quick(path) is None
    os.utime(path, (1.0, 1.0))
    held = quick(path)
    assert held is not None
    held.release()


def test_what_a_lock_left_is_nobodys(path: Path) -> None:
    """Locks of the kernel leave an empty file."""
    path.touch()
    assert not shared_leases.is_taken(path)
    held = quick(path)
    assert held is not None
    held.release()


def test_a_fork_does_not_hold_the_lease_of_its_parent(path: Path) -> None:
    """It neither removes it nor believes to have it."""
    held = quick(path)
    assert held is not None
    pid = os.fork()
    if pid == 0:
        lost = held.lost
        held.release()
        os._exit(0 if lost else 1)
    assert 0 == os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert not held.lost
    held.release()


@pytest.mark.parametrize("target", ["somewhere", "nowhere"])
def test_a_link_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    """It is not followed, whether it leads somewhere or not."""
    monkeypatch.setenv("RLEXP_SHARED", "1")
    there = path.with_name("somewhere")
    there.write_text("mine")
    path.symlink_to(path.with_name(target))
    with pytest.raises(RecordError, match="is a link"), lease.hold(path, "it", now=0.0):
        pass
    assert not lease.is_held(path)
    assert "mine" == there.read_text()


def test_a_folder_without_links_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line says what it lacks and what to do."""

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(
        RecordError, match=r"supports no hard links .* set RLEXP_RUNS to another folder"
    ):
        quick(path)
    assert [] == list(path.parent.iterdir())


def test_a_link_whose_answer_was_lost_is_own(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is asked twice says that the name is taken, by what was just made."""
    link = os.link

    def twice(*arguments: Any, **more: Any) -> None:
        link(*arguments, **more)
        link(*arguments, **more)

    monkeypatch.setattr(os, "link", twice)
    held = quick(path)
    assert held is not None
    assert not held.lost
    held.release()


READ_ONLY = """
mount -t tmpfs none "$1" && echo '{}' > "$1/.lease" && touch -d '@1' "$1/.lease"
mount -o remount,ro "$1" && exec "$2" -c '
import sys, time
from pathlib import Path
from rlexp.store import lease
path = Path(sys.argv[1]) / ".lease"
print(lease.is_held(path), lease.holder(path))
try:
    lease.take(path, "it", now=time.time())
except OSError as error:
    print(error.strerror)
' "$1"
"""


def test_a_folder_that_cannot_be_written_can_be_asked(tmp_path: Path) -> None:
    """Who only looks is answered; who wants the lease is told why not."""
    own = ["unshare", "--mount", "--map-root-user", "sh", "-c", READ_ONLY, "sh"]
    try:
        done = subprocess.run(
            [*own, os.fspath(tmp_path), sys.executable],
            capture_output=True,
            text=True,
            env={**os.environ, "RLEXP_SHARED": "1"},
            check=False,
        )
    except OSError:
        pytest.skip("unshare is missing")
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip("no mounts of one's own here")
    assert "False another process\nRead-only file system\n" == done.stdout, done.stderr


def test_asking_costs_little_where_nothing_is_held(path: Path) -> None:
    """A list of ten thousand runs asks for each."""
    begin = time.perf_counter()
    for _ in range(1000):
        shared_leases.is_taken(path)
    assert time.perf_counter() - begin < 1.0
