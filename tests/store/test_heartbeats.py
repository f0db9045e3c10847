"""Leases with heartbeats instead of locks: held, lost and taken over by real processes."""

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
from rlexp.store.locks import lease, shared_leases
from rlexp.store.locks.processes import Process, this_process
from rlexp.store.locks.shared_leases import LeaseTiming, SharedLease, inspect, remove, take

QUICK = LeaseTiming(beat=0.05, lease=0.6, second_look=0.1, settling=0.05)
CODE = """
import sys, time
from pathlib import Path
from rlexp.store.locks.shared_leases import LeaseTiming, take

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
    """The path of the lease."""
    return tmp_path / ".lease"


@contextmanager
def process(path: Path, timing: LeaseTiming = QUICK, begin: float = 0.0) -> Iterator[Any]:
    """A process that takes the lease and holds it until its input ends."""
    timing_values = (timing.beat, timing.lease, timing.second_look, timing.settling)
    arguments = [sys.executable, "-c", CODE, os.fspath(path), str(begin), *map(str, timing_values)]
    child = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def read_line(child: Any) -> str:
    """The next line of a process's output."""
    return str(child.stdout.readline().strip())


def write_lease(path: Path, age: float = 0.0, **entry: Any) -> str:
    """Write a lease of another process with this age, and return its token."""
    document = {
        "pid": 12,
        "host": "node7",
        "boot": "b",
        "started": "1",
        "token": "t",
        "since": 0.0,
    }
    path.write_text(json.dumps({**document, **entry}))
    modified = time.time() - age
    os.utime(path, (modified, modified))
    return "t"


def take_quickly(path: Path, **arguments: Any) -> SharedLease | None:
    """Take the lease with the short timing of these tests."""
    return take(path, "it", now=0.0, timing=QUICK, **arguments)


def test_a_holder_on_another_machine_keeps_its_lease_while_it_beats(path: Path) -> None:
    """The lease of another machine is refused and left unchanged while its heartbeat is recent."""
    write_lease(path, age=40.0)
    before = path.read_bytes()
    assert take(path, "it", now=0.0) is None
    assert before == path.read_bytes()


def test_a_refusal_says_how_long_the_holder_has_been_silent(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the age of the last heartbeat and the time of the takeover."""
    monkeypatch.setenv("RLEXP_SHARED", "1")
    write_lease(path, age=40.0)
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
    write_lease(path, age=61.0)
    assert not shared_leases.is_taken(path)
    own_lease = take(path, "it", now=0.0)
    assert own_lease is not None
    assert os.getpid() == shared_leases.entry_at(path)["pid"]
    own_lease.release()
    assert [] == list(path.parent.iterdir())


def test_a_holder_that_was_killed_on_this_machine_is_replaced_at_once(path: Path) -> None:
    """The lease of a killed process on this machine is taken over without waiting."""
    with process(path, shared_leases.DEFAULT_TIMING) as other_process:
        assert "held" == read_line(other_process)
        assert take_quickly(path) is None
        other_process.kill()
        other_process.wait()
        own_lease = take_quickly(path)
        assert own_lease is not None
        own_lease.release()


def test_a_reused_process_id_is_no_holder(path: Path) -> None:
    """A process with the same id and another start time is not the holder."""
    current = this_process()
    write_lease(path, **{**current.plain(), "started": "7"})
    assert not shared_leases.is_taken(path)
    write_lease(path, **current.plain())
    assert shared_leases.is_taken(path)


@pytest.mark.parametrize("changes", [{"host": "node7"}, {"boot": "another"}, {"boot": None}])
def test_processes_elsewhere_are_not_known_to_be_gone(changes: dict[str, Any]) -> None:
    """A process id of another machine, container or boot does not prove that the holder ended."""
    document = {"pid": 2**22 + 1, "host": socket.gethostname(), "boot": this_process().boot}
    assert Process.from_plain(document).is_gone()
    assert not Process.from_plain({**document, **changes}).is_gone()


@pytest.mark.parametrize("pid", [None, -1, 0, "12", True, 1.5])
def test_an_invalid_process_id_proves_no_death(pid: Any) -> None:
    """A damaged process id does not prove that the holder ended."""
    assert not Process.from_plain({**this_process().plain(), "pid": pid}).is_gone()


def test_a_suspended_holder_that_wakes_knows_that_it_lost(path: Path) -> None:
    """A suspended holder reports its loss once, and leaves the new holder's lease unchanged."""
    with process(path) as other_process:
        assert "held" == read_line(other_process)
        os.kill(other_process.pid, signal.SIGSTOP)
        assert take_quickly(path) is None
        time.sleep(QUICK.lease + 0.1)
        own_lease = take_quickly(path)
        assert own_lease is not None
        before = path.read_bytes()
        os.kill(other_process.pid, signal.SIGCONT)
        assert "lost" == read_line(other_process)
        assert ("", None) == other_process.communicate("\n")
        assert before == path.read_bytes()
        assert not own_lease.lost
        own_lease.release()


def test_a_beating_holder_keeps_its_lease(path: Path) -> None:
    """A holder with heartbeats keeps its lease for several times the limit."""
    with process(path) as other_process:
        assert "held" == read_line(other_process)
        deadline = time.monotonic() + 3 * QUICK.lease
        while time.monotonic() < deadline:
            assert take_quickly(path) is None
            time.sleep(0.02)


def test_of_two_that_race_for_a_silent_lease_one_wins(path: Path) -> None:
    """Of two processes that take over a silent lease at once, exactly one holds it."""
    context = multiprocessing.get_context("fork")
    for turn in range(50 if IN_FULL else 15):
        write_lease(path, age=61.0, token=str(turn))
        barrier, answers = context.Barrier(2), context.SimpleQueue()

        def race(barrier: Any = barrier, answers: Any = answers) -> None:
            barrier.wait()
            own_lease = take_quickly(path)
            answers.put(own_lease is not None)
            barrier.wait()
            if own_lease is not None:
                answers.put(own_lease.lost)
                own_lease.release()

        racers = [context.Process(target=race) for _ in range(2)]
        for racer in racers:
            racer.start()
        outcomes = sorted(answers.get() for _ in range(3))
        for racer in racers:
            racer.join()
        assert [False, False, True] == outcomes
        assert [] == list(path.parent.iterdir())


def test_of_many_threads_one_holds_a_lease_that_is_free(path: Path) -> None:
    """Of many threads that take a free lease at once, exactly one holds it."""
    barrier, leases = threading.Barrier(8), list[SharedLease | None]()

    def race() -> None:
        barrier.wait()
        leases.append(take_quickly(path))

    threads = [threading.Thread(target=race) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (own_lease,) = [item for item in leases if item is not None]
    own_lease.release()


def test_a_late_takeover_puts_the_new_lease_back(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A takeover that took a new lease instead of the silent one puts the new one back."""
    write_lease(path, age=61.0)
    silent_lease = inspect(path)
    assert silent_lease is not None
    path.unlink()
    own_lease = take_quickly(path)
    assert own_lease is not None
    original_read = shared_leases.read
    # The first read still gives the old lease.
    monkeypatch.setattr(
        shared_leases,
        "read",
        lambda p: silent_lease if p == path and path.exists() else original_read(p),
    )
    assert not remove(path, silent_lease.token, silent_lease.touched)
    monkeypatch.undo()
    time.sleep(3 * QUICK.beat + QUICK.second_look)
    assert not own_lease.lost
    own_lease.release()


def test_a_lease_that_is_put_back_was_not_lost(path: Path) -> None:
    """A missing lease that returns before the second look is not lost."""
    losses: list[int] = []
    patient_timing = LeaseTiming(beat=0.05, second_look=1.0)
    own_lease = take(path, "it", now=0.0, on_loss=lambda: losses.append(1), timing=patient_timing)
    assert own_lease is not None
    moved = path.rename(path.with_name("aside"))
    time.sleep(0.3)
    moved.rename(path)
    time.sleep(1.2)
    assert ([], False) == (losses, own_lease.lost)
    own_lease.release()


def test_a_holder_that_wakes_in_the_last_moment_is_not_taken_over(path: Path) -> None:
    """A lease that gets a heartbeat after it was inspected is not removed."""
    write_lease(path, age=61.0)
    silent_lease = inspect(path)
    assert silent_lease is not None
    os.utime(path)
    assert not remove(path, silent_lease.token, silent_lease.touched)
    assert path.exists()


@pytest.mark.parametrize("event", ["removed", "replaced", "over"])
def test_a_lost_lease_is_reported_once(path: Path, event: str) -> None:
    """A holder reports its loss once, and does not remove the lease of another holder."""
    losses: list[float] = []
    own_lease = take_quickly(path, on_loss=lambda: losses.append(time.monotonic()))
    assert own_lease is not None
    other_lease = None
    if event == "removed":
        path.unlink()
    elif event == "replaced":
        path.unlink()
        write_lease(path)
    else:
        other_lease = take_quickly(path, over=True)
        assert other_lease is not None
    deadline = time.monotonic() + 5
    while not losses and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(3 * QUICK.beat)
    assert (1, True) == (len(losses), own_lease.lost)
    own_lease.release()
    assert (event != "removed") == path.exists()
    if other_lease is not None:
        assert not other_lease.lost
        other_lease.release()


def test_a_release_is_not_reported_as_a_loss(path: Path) -> None:
    """Releasing a lease, even twice, is not reported as a loss."""
    losses: list[int] = []
    for _ in range(5):
        own_lease = take_quickly(path, on_loss=lambda: losses.append(1))
        assert own_lease is not None
        own_lease.release()
        own_lease.release()
        assert own_lease.lost
    time.sleep(3 * QUICK.beat + QUICK.second_look)
    assert [] == losses


@pytest.mark.parametrize("offset", [3600.0, 1e9])
def test_a_heartbeat_in_the_future_falls_silent_too(path: Path, offset: float) -> None:
    """The silence of a lease with a future time counts from when it was first read."""
    write_lease(path, age=-offset)
    assert shared_leases.is_taken(path)
    assert take_quickly(path) is None
    time.sleep(QUICK.lease + 0.1)
    own_lease = take_quickly(path)
    assert own_lease is not None
    own_lease.release()


@pytest.mark.parametrize("offset", [-1e6, 1e6])
def test_the_clock_of_this_machine_does_not_matter(
    path: Path, monkeypatch: pytest.MonkeyPatch, offset: float
) -> None:
    """A wrong clock changes nothing, because silence is measured by the file system's times."""
    own_lease, clock = take_quickly(path), time.time
    monkeypatch.setattr(time, "time", lambda: clock() + offset)
    monkeypatch.setattr(time, "time_ns", lambda: int((clock() + offset) * 1e9))
    assert own_lease is not None
    time.sleep(0.2)
    own_status = inspect(path)
    assert own_status is not None
    assert -0.1 < own_status.silent < QUICK.lease
    assert take_quickly(path) is None
    own_lease.release()


@pytest.mark.parametrize("content", ["{", "[]", "7", "\0", '{"pid": "x", "token": 5}'])
def test_a_damaged_lease_is_held_until_it_is_silent(path: Path, content: str) -> None:
    """A damaged lease counts as held while its file is recent."""
    path.write_text(content)
    assert take_quickly(path) is None
    os.utime(path, (1.0, 1.0))
    own_lease = take_quickly(path)
    assert own_lease is not None
    own_lease.release()


def test_an_empty_file_of_a_lock_is_free(path: Path) -> None:
    """An empty file, which a lock of the kernel leaves, is no lease."""
    path.touch()
    assert not shared_leases.is_taken(path)
    own_lease = take_quickly(path)
    assert own_lease is not None
    own_lease.release()


def test_a_fork_does_not_hold_the_lease_of_its_parent(path: Path) -> None:
    """A forked process does not hold its parent's lease and does not remove it."""
    own_lease = take_quickly(path)
    assert own_lease is not None
    pid = os.fork()
    if pid == 0:
        lost = own_lease.lost
        own_lease.release()
        os._exit(0 if lost else 1)
    assert 0 == os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert not own_lease.lost
    own_lease.release()


@pytest.mark.parametrize("target", ["somewhere", "nowhere"])
def test_a_link_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    """A link in place of the lease is refused, and its target stays unchanged."""
    monkeypatch.setenv("RLEXP_SHARED", "1")
    target_path = path.with_name("somewhere")
    target_path.write_text("mine")
    path.symlink_to(path.with_name(target))
    with pytest.raises(RecordError, match="is a link"), lease.hold(path, "it", now=0.0):
        pass
    assert not lease.is_held(path)
    assert "mine" == target_path.read_text()


def test_a_folder_without_links_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error about a folder without hard links says what to do."""

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(
        RecordError, match=r"supports no hard links .* set RLEXP_RUNS to another folder"
    ):
        take_quickly(path)
    assert [] == list(path.parent.iterdir())


def test_a_repeated_link_is_the_own_lease(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lease whose hard link a server made twice is held, although the second one failed."""
    link = os.link

    def link_twice(*arguments: Any, **options: Any) -> None:
        link(*arguments, **options)
        link(*arguments, **options)

    monkeypatch.setattr(os, "link", link_twice)
    own_lease = take_quickly(path)
    assert own_lease is not None
    assert not own_lease.lost
    own_lease.release()


READ_ONLY = """
mount -t tmpfs none "$1" && echo '{}' > "$1/.lease" && touch -d '@1' "$1/.lease"
mount -o remount,ro "$1" && exec "$2" -c '
import sys, time
from pathlib import Path
from rlexp.store.locks import lease
path = Path(sys.argv[1]) / ".lease"
print(lease.is_held(path), lease.holder(path))
try:
    lease.take(path, "it", now=time.time())
except OSError as error:
    print(error.strerror)
' "$1"
"""


def test_a_lease_in_a_read_only_folder(tmp_path: Path) -> None:
    """In a read-only folder, a lease can be read, and taking it gives the error of the system."""
    command = ["unshare", "--mount", "--map-root-user", "sh", "-c", READ_ONLY, "sh"]
    try:
        process_result = subprocess.run(
            [*command, os.fspath(tmp_path), sys.executable],
            capture_output=True,
            text=True,
            env={**os.environ, "RLEXP_SHARED": "1"},
            check=False,
        )
    except OSError:
        pytest.skip("unshare is missing")
    if "unshare" in process_result.stderr or "mount" in process_result.stderr:
        pytest.skip("no mounts of one's own here")
    assert "False another process\nRead-only file system\n" == process_result.stdout, (
        process_result.stderr
    )


def test_reading_a_free_lease_is_fast(path: Path) -> None:
    """A thousand free leases are checked within a second."""
    start = time.perf_counter()
    for _ in range(1000):
        shared_leases.is_taken(path)
    assert time.perf_counter() - start < 1.0
