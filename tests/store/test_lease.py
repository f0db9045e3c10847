"""Leases of either kind, held by real processes that really die."""

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
from rlexp.store.lease import hold, holder, holding, is_held, take


@pytest.fixture(params=["locks", "heartbeats"], autouse=True)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What leases rest on, here and in every process that is started."""
    if request.param == "heartbeats":
        monkeypatch.setenv("RLEXP_SHARED", "1")
    else:
        monkeypatch.delenv("RLEXP_SHARED", raising=False)
    return str(request.param)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the lock stands."""
    return tmp_path / "run" / ".lease"


@pytest.fixture
def other(path: Path) -> Iterator[Holder]:
    """Another process that holds the lease."""
    with holder_of(path) as process:
        yield process


def test_a_lease_is_held_while_its_block_runs(path: Path) -> None:
    """Not before, and not after."""
    assert not is_held(path)
    with hold(path, "run x", now=5.0):
        assert is_held(path)
        assert {"pid": os.getpid(), "since": 5.0} == {
            key: value for key, value in holding(path).items() if key != "host"
        }
    assert (False, {}) == (is_held(path), holding(path))


def test_an_exception_frees_the_lease(path: Path) -> None:
    """A command that fails can be repeated."""
    with pytest.raises(ZeroDivisionError), hold(path, "run x", now=0.0):
        raise ZeroDivisionError
    assert (False, {}) == (is_held(path), holding(path))


def test_who_comes_second_is_refused_with_the_name_of_the_first(path: Path, other: Holder) -> None:
    """The message says who holds it and what to do."""
    expected = f"run x is in use by process {other.pid} on .+; wait for it or stop it"
    with pytest.raises(RecordError, match=expected), hold(path, "run x", now=0.0, patience=0.1):
        pass
    assert is_held(path)
    assert f"process {other.pid}" in holder(path)


def test_a_refusal_leaves_the_holder_named(path: Path, other: Holder) -> None:
    """Who was refused did not overwrite who holds it."""
    with pytest.raises(RecordError), hold(path, "run x", now=0.0, patience=0.0):
        pass
    assert other.pid == holding(path)["pid"]


def test_kill_frees_the_lease_at_once(path: Path, other: Holder) -> None:
    """The kernel frees what a process that was killed with signal 9 held."""
    os.kill(other.pid, signal.SIGKILL)
    other.wait()
    assert not is_held(path)
    begin = time.monotonic()
    with hold(path, "run x", now=0.0):
        assert os.getpid() == holding(path)["pid"]
    assert time.monotonic() - begin < 2


def test_patience_outlasts_a_dying_holder(path: Path, other: Holder) -> None:
    """Who waits gets the lease when the other lets go."""
    killer = subprocess.Popen(
        [sys.executable, "-c", f"import os,time; time.sleep(0.3); os.kill({other.pid}, 9)"]
    )
    with hold(path, "run x", now=0.0, patience=30.0):
        assert os.getpid() == holding(path)["pid"]
    killer.wait()


def test_asking_takes_nothing(path: Path, other: Holder) -> None:
    """However often it is asked, the holder keeps the lease."""
    assert [True] * 20 == [is_held(path) for _ in range(20)]
    other.ask()
    assert is_held(path)


def test_asking_makes_no_file(path: Path) -> None:
    """A run that nobody ever held stays as it is, also where nothing may be written."""
    assert not is_held(path)
    assert not path.exists()


def test_a_damaged_name_is_no_reason_to_fail(path: Path, other: Holder, kind: str) -> None:
    """The holder is another process then."""
    # An empty file is what a lock leaves: it is nobody's lease.
    contents = ("", "{", "[]", "7", "\0") if kind == "locks" else ("{", "[]", "7", "\0")
    for content in contents:
        path.with_name(".lease.holder" if kind == "locks" else ".lease").write_text(content)
        assert "another process" == holder(path), content
        with pytest.raises(RecordError, match="in use by another process"):
            hold(path, "run x", now=0.0, patience=0.0).__enter__()


def test_an_old_name_does_not_hold_a_lease(path: Path) -> None:
    """Only the lock counts, not what is written beside it."""
    path.parent.mkdir()
    path.with_name(".lease.holder").write_text(json.dumps({"pid": 1, "host": "h"}))
    assert not is_held(path)
    with hold(path, "run x", now=0.0):
        assert os.getpid() == holding(path)["pid"]


def test_children_do_not_inherit_a_lease(path: Path) -> None:
    """A process that was started under the lease and outlives it does not hold it."""
    with hold(path, "run x", now=0.0):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        assert not is_held(path)
    finally:
        child.kill()
        child.wait()


def test_a_lease_can_be_taken_without_waiting(path: Path) -> None:
    """It is this process's until it is released, and nobody is waited for."""
    held = take(path, "run x", now=5.0)
    assert held is not None
    assert (False, True) == (held.lost, is_held(path))
    begin = time.monotonic()
    assert take(path, "run x", now=5.0) is None
    assert time.monotonic() - begin < 0.5
    held.release()
    assert (False, {}) == (is_held(path), holding(path))


def test_another_holder_is_waited_for_by_nobody_who_takes(path: Path, other: Holder) -> None:
    """There is no lease then, and the holder stays."""
    assert take(path, "run x", now=5.0) is None
    assert other.pid == holding(path)["pid"]


def test_over_takes_the_lease_only_where_the_kernel_does_not_lock(
    path: Path, other: Holder, kind: str
) -> None:
    """Of a living process, for one that knows better."""
    held = take(path, "run x", now=5.0, over=True)
    assert (kind == "heartbeats") == (held is not None)
    if held is not None:
        assert os.getpid() == holding(path)["pid"]
        held.release()
