"""Leases with locks and with heartbeats, held by real processes that are killed."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from holders import Holder, holder_of

from rlexp.errors import RecordError
from rlexp.store.locks.lease import hold, holder, holding, is_held, take


@pytest.fixture(params=["locks", "heartbeats"], autouse=True)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The mechanism of leases, in this process and in every started one."""
    if request.param == "heartbeats":
        monkeypatch.setenv("RLEXP_SHARED", "1")
    else:
        monkeypatch.delenv("RLEXP_SHARED", raising=False)
    return str(request.param)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of the lease."""
    return tmp_path / "run" / ".lease"


@pytest.fixture
def other_holder(path: Path) -> Iterator[Holder]:
    """Another process that holds the lease."""
    with holder_of(path) as process:
        yield process


def test_a_lease_is_held_while_its_block_runs(path: Path) -> None:
    """A lease is held inside its block only, and names its process."""
    assert not is_held(path)
    with hold(path, "run x", now=5.0):
        assert is_held(path)
        assert {"pid": os.getpid(), "since": 5.0} == {
            key: value for key, value in holding(path).items() if key != "host"
        }
    assert (False, {}) == (is_held(path), holding(path))


def test_an_exception_frees_the_lease(path: Path) -> None:
    """An exception in the block releases the lease."""
    with pytest.raises(ZeroDivisionError), hold(path, "run x", now=0.0):
        raise ZeroDivisionError
    assert (False, {}) == (is_held(path), holding(path))


def test_a_second_holder_is_refused_with_the_name_of_the_first(
    path: Path, other_holder: Holder
) -> None:
    """The error about a held lease names its holder and says what to do."""
    expected = f"run x is in use by process {other_holder.pid} on .+; wait for it or stop it"
    with pytest.raises(RecordError, match=expected), hold(path, "run x", now=0.0, patience=0.1):
        pass
    assert is_held(path)
    assert f"process {other_holder.pid}" in holder(path)


def test_a_refusal_leaves_the_holder_named(path: Path, other_holder: Holder) -> None:
    """A refused process does not replace the recorded holder."""
    with pytest.raises(RecordError), hold(path, "run x", now=0.0, patience=0.0):
        pass
    assert other_holder.pid == holding(path)["pid"]


def test_kill_frees_the_lease_at_once(path: Path, other_holder: Holder) -> None:
    """The lease of a killed process can be taken at once."""
    os.kill(other_holder.pid, signal.SIGKILL)
    other_holder.wait()
    assert not is_held(path)
    start = time.monotonic()
    with hold(path, "run x", now=0.0):
        assert os.getpid() == holding(path)["pid"]
    assert time.monotonic() - start < 2


def test_patience_outlasts_a_dying_holder(path: Path, other_holder: Holder) -> None:
    """A process that waits gets the lease when its holder is killed."""
    killer = subprocess.Popen(
        [sys.executable, "-c", f"import os,time; time.sleep(0.3); os.kill({other_holder.pid}, 9)"]
    )
    with hold(path, "run x", now=0.0, patience=30.0):
        assert os.getpid() == holding(path)["pid"]
    killer.wait()


def test_reading_a_lease_does_not_take_it(path: Path, other_holder: Holder) -> None:
    """The holder keeps the lease, however often other processes read it."""
    assert [True] * 20 == [is_held(path) for _ in range(20)]
    other_holder.ask()
    assert is_held(path)


def test_reading_a_lease_creates_no_file(path: Path) -> None:
    """Reading a lease that was never held creates no file."""
    assert not is_held(path)
    assert not path.exists()


def test_a_damaged_holder_is_another_process(path: Path, other_holder: Holder, kind: str) -> None:
    """If the holder's file is damaged, the error says `another process`."""
    # A lock leaves an empty file, which is no lease with heartbeats.
    contents = ("", "{", "[]", "7", "\0") if kind == "locks" else ("{", "[]", "7", "\0")
    for content in contents:
        path.with_name(".lease.holder" if kind == "locks" else ".lease").write_text(content)
        assert "another process" == holder(path), content
        with pytest.raises(RecordError, match="in use by another process"):
            hold(path, "run x", now=0.0, patience=0.0).__enter__()


def test_an_old_holder_file_does_not_hold_a_lease(path: Path) -> None:
    """An old file with the name of a holder does not hold the lease."""
    path.parent.mkdir()
    path.with_name(".lease.holder").write_text(json.dumps({"pid": 1, "host": "h"}))
    assert not is_held(path)
    with hold(path, "run x", now=0.0):
        assert os.getpid() == holding(path)["pid"]


def test_children_do_not_inherit_a_lease(path: Path) -> None:
    """A child that was started under the lease and outlives it does not hold the lease."""
    with hold(path, "run x", now=0.0):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        assert not is_held(path)
    finally:
        child.kill()
        child.wait()


def test_a_lease_can_be_taken_without_waiting(path: Path) -> None:
    """A taken lease is held until it is released; taking it again fails at once."""
    own_lease = take(path, "run x", now=5.0)
    assert own_lease is not None
    assert (False, True) == (own_lease.lost, is_held(path))
    start = time.monotonic()
    assert take(path, "run x", now=5.0) is None
    assert time.monotonic() - start < 0.5
    own_lease.release()
    assert (False, {}) == (is_held(path), holding(path))


def test_taking_a_held_lease_fails_without_waiting(path: Path, other_holder: Holder) -> None:
    """Taking a lease that another process holds fails, and the holder keeps it."""
    assert take(path, "run x", now=5.0) is None
    assert other_holder.pid == holding(path)["pid"]


def test_over_takes_the_lease_only_where_the_kernel_does_not_lock(
    path: Path, other_holder: Holder, kind: str
) -> None:
    """With `over=True`, a living holder loses a lease with heartbeats and keeps a lock."""
    own_lease = take(path, "run x", now=5.0, over=True)
    assert (kind == "heartbeats") == (own_lease is not None)
    if own_lease is not None:
        assert os.getpid() == holding(path)["pid"]
        own_lease.release()
