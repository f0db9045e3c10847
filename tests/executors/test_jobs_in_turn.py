"""Jobs that one process executes in turn, and what ends this process."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from rlexp.executors import Exit, Job
from rlexp.executors.local import Local, LocalSession

JOBS = """
import os, signal, subprocess, sys, time
from pathlib import Path

def execute(words):
    print("pid", os.getpid(), *words)
    print("errors of", words[0], file=sys.stderr)
    signal.signal(signal.SIGTERM, lambda *_: None)
    match words:
        case [_, "code", number]:
            return int(number)
        case [_, "raise"]:
            raise RuntimeError("a job that raises")
        case [_, "child"]:
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
        case [_, "sleep"]:
            sys.stdout.flush()
            time.sleep(1000)
    return 0
"""


@pytest.fixture
def session(tmp_path: Path) -> Iterator[LocalSession]:
    """An open executor for the jobs of this file."""
    (tmp_path / "jobs_of_a_test.py").write_text(JOBS)
    executor = Local(workers=2, hang_timeout=60, grace=5, log_limit=100_000)
    with executor.open("jobs_of_a_test:execute", (), threads=1, folder=tmp_path) as opened:
        yield opened


def start(
    session: LocalSession, tmp_path: Path, key: str, *words: str, in_turn: bool = True
) -> None:
    """Submit a job."""
    session.submit(Job(key, (key, *words), tmp_path / f"{key}.log", in_turn))


def end(session: LocalSession) -> Exit:
    """Wait for the end of a job."""
    deadline = time.monotonic() + 60
    while not (ended := session.poll(0.1)):
        assert time.monotonic() < deadline, "no job ended"
    assert 1 == len(ended)
    return ended[0]


def pid_of(tmp_path: Path, key: str) -> int:
    """The process that executes or has executed a job, once the job says so."""
    deadline, log = time.monotonic() + 60, tmp_path / f"{key}.log"
    while not (log.exists() and "pid " in log.read_text()):
        assert time.monotonic() < deadline, f"{key} never began"
        time.sleep(0.01)
    return int(log.read_text().split("pid ")[1].split()[0])


def execute(session: LocalSession, tmp_path: Path, key: str, *words: str) -> tuple[Exit, int]:
    """Execute a job; returns how it ended, and its process."""
    start(session, tmp_path, key, *words)
    return end(session), pid_of(tmp_path, key)


def test_one_process_executes_jobs_in_turn(session: LocalSession, tmp_path: Path) -> None:
    """Three jobs have the same process and a log each; a job that is not in turn has another."""
    results = [execute(session, tmp_path, key) for key in "abc"]
    assert [Exit(key, 0, None) for key in "abc"] == [ended for ended, _ in results]
    assert 1 == len({pid for _, pid in results})
    for key in "abc":
        said = (tmp_path / f"{key}.log").read_text()
        assert 1 == said.count("pid ")
        assert [f"errors of {key}"] == [n for n in said.splitlines() if n.startswith("errors")]
    start(session, tmp_path, "apart", in_turn=False)
    assert Exit("apart", 0, None) == end(session)
    assert pid_of(tmp_path, "apart") != results[0][1]


def test_jobs_at_the_same_time_have_processes_of_their_own(
    session: LocalSession, tmp_path: Path
) -> None:
    """A job does not wait for a process that executes another."""
    start(session, tmp_path, "a", "sleep")
    pid = pid_of(tmp_path, "a")
    assert pid != execute(session, tmp_path, "b")[1]
    session.kill("a")
    assert Exit("a", None, 9) == end(session)


@pytest.mark.parametrize(
    ("words", "code", "number"),
    [
        (("code", "3"), 3, None),
        (("raise",), 70, None),
        (("child",), 0, None),
        (("sleep",), None, 9),
    ],
)
def test_a_fresh_process_follows_a_disorderly_end(
    session: LocalSession,
    tmp_path: Path,
    words: tuple[str, ...],
    code: int | None,
    number: int | None,
) -> None:
    """After a failure, a kill, or a process left behind, the next job is in another process."""
    before = execute(session, tmp_path, "before")[1]
    start(session, tmp_path, "a", *words)
    pid = pid_of(tmp_path, "a")
    assert before == pid
    if words == ("sleep",):
        session.kill("a")
    assert Exit("a", code, number) == end(session)
    after, fresh = execute(session, tmp_path, "b")
    assert Exit("b", 0, None) == after
    assert fresh != pid
    assert not psutil.pid_exists(pid)


def test_a_process_that_dies_between_jobs_harms_none(
    session: LocalSession, tmp_path: Path
) -> None:
    """The next job ends with its code, whenever the waiting process was killed."""
    for number in range(10):
        ended, pid = execute(session, tmp_path, f"a{number}")
        assert 0 == ended.code
        os.kill(pid, signal.SIGKILL)
        assert Exit(f"b{number}", 0, None) == execute(session, tmp_path, f"b{number}")[0]


def test_a_request_to_end_reaches_a_process_that_waits(
    session: LocalSession, tmp_path: Path
) -> None:
    """After `stop`, the waiting process ends, and a later job has a fresh one."""
    pid = execute(session, tmp_path, "a")[1]
    session.stop()
    assert Exit("b", 0, None) == execute(session, tmp_path, "b")[0]
    assert pid_of(tmp_path, "b") != pid
    gone = psutil.wait_procs([psutil.Process(pid)] if psutil.pid_exists(pid) else [], 20)[1]
    assert [] == gone


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
@pytest.mark.parametrize("waits", [True, False])
def test_a_process_ends_with_its_server(
    session: LocalSession, tmp_path: Path, waits: bool
) -> None:
    """After kill -9 of the server, no process waits for a job or executes one."""
    start(session, tmp_path, "a", *(() if waits else ("sleep",)))
    pid = pid_of(tmp_path, "a")
    if waits:
        assert 0 == end(session).code
    process = psutil.Process(pid)
    session._server.kill()
    assert [] == psutil.wait_procs([process], 20)[1]


def test_what_jobs_in_turn_share_is_imported_before_the_first(tmp_path: Path) -> None:
    """A job of another kind does not import it; the first job in turn finds it imported."""
    (tmp_path / "shared.py").write_text("def begin():\n    print('imported')\n")
    (tmp_path / "seeing.py").write_text(
        "import sys\ndef execute(words):\n"
        "    print('pid', 0, 'shared' in sys.modules)\n    return 0\n"
    )
    executor = Local(workers=1, hang_timeout=60, grace=5, log_limit=100_000)
    preload = ("@shared:begin",)
    with executor.open("seeing:execute", preload, threads=1, folder=tmp_path) as session:
        for key, in_turn in (("apart", False), ("first", True), ("second", True)):
            start(session, tmp_path, key, in_turn=in_turn)
            assert Exit(key, 0, None) == end(session)
    logs = [(tmp_path / f"{key}.log").read_text() for key in ("apart", "first", "second")]
    assert ["pid 0 False\n", "pid 0 True\n", "pid 0 True\n"] == logs
