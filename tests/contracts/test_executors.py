"""The behaviour of every executor: jobs start and end, report how, and leave nothing behind."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from members import member, names

from rlexp.executors import Exit, Job, Session
from rlexp.store.locks.processes import this_process

HERE = Path(__file__).parent


SESSION_EXECUTORS = [
    name for name in names("executor") if hasattr(member("executor", name), "open")
]


@pytest.fixture(params=SESSION_EXECUTORS)
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    """An open executor of each kind, with two slots."""
    executor = member("executor", request.param, workers=2, log_limit=200_000)
    with executor.open("executor_jobs:execute", (), threads=1, folder=HERE) as open_session:
        yield open_session


def job(tmp_path: Path, *words: str, key: str = "a") -> Job:
    """A job with a separate log."""
    return Job(key, words, tmp_path / f"{key}.log")


def ends(session: Session, count: int = 1, seconds: float = 30.0) -> list[Exit]:
    """Wait for jobs to end."""
    exits: list[Exit] = []
    deadline = time.monotonic() + seconds
    while len(exits) < count:
        assert time.monotonic() < deadline, f"only {exits} ended"
        exits += session.poll(0.1)
    return exits


def wait_for(path: Path) -> str:
    """Wait for a file and read it."""
    deadline = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < deadline, f"{path.name} never came"
        time.sleep(0.01)
    return path.read_text()


@pytest.mark.parametrize("code", [0, 3])
def test_the_exit_code_of_a_job_is_reported(session: Session, tmp_path: Path, code: int) -> None:
    """A job ends with the code that it returns."""
    session.submit(job(tmp_path, "code", str(code)))
    assert [Exit("a", code, None)] == ends(session)


def test_an_exception_is_no_success(session: Session, tmp_path: Path) -> None:
    """A job that raises ends with an error code, and its log holds the traceback."""
    session.submit(job(tmp_path, "raise"))
    assert [Exit("a", 70, None)] == ends(session)
    assert "RuntimeError: a job that raises" in (tmp_path / "a.log").read_text()


def test_a_killed_job_reports_its_signal(session: Session, tmp_path: Path) -> None:
    """A job killed by SIGKILL reports the signal, and the next job runs normally."""
    session.submit(job(tmp_path, "die"))
    assert [Exit("a", None, 9)] == ends(session)
    session.submit(job(tmp_path, "code", "0", key="b"))
    assert [Exit("b", 0, None)] == ends(session)


def test_output_goes_to_the_log(session: Session, tmp_path: Path) -> None:
    """Standard output and error of a job go to its log."""
    session.submit(job(tmp_path, "say", "hello"))
    ends(session)
    assert ["HELLO", "hello"] == sorted((tmp_path / "a.log").read_text().split())


def test_a_job_has_a_separate_session(session: Session, tmp_path: Path) -> None:
    """A signal to the terminal's process group does not reach a job."""
    session.submit(job(tmp_path, "session", str(tmp_path / "ids")))
    pid, group = map(int, wait_for(tmp_path / "ids").split())
    assert (pid, True) == (group, group != os.getsid(0))


def test_killing_a_job_ends_what_it_started(session: Session, tmp_path: Path) -> None:
    """The child of a killed job ends too; another job continues."""
    session.submit(job(tmp_path, "family", str(tmp_path / "child")))
    session.submit(job(tmp_path, "sleep", key="b"))
    child = int(wait_for(tmp_path / "child"))
    session.kill("a")
    assert [Exit("a", None, 9)] == ends(session)
    _wait_until_gone(child)
    assert [] == session.poll(0.2)


HELPERS = "job", "helper in a session of its own", "helper whose parent has ended"


@pytest.mark.parametrize("then", [None, "sleep", "hold"])
def test_helpers_end_with_their_job(session: Session, tmp_path: Path, then: str | None) -> None:
    """When a job ends or is killed, its helpers end too, also in sessions of their own."""
    session.submit(job(tmp_path, "helpers", str(tmp_path / "pids"), *filter(None, [then])))
    pids = [int(pid) for pid in wait_for(tmp_path / "pids").split()]
    if then:
        session.kill("a")
    assert [Exit("a", *((None, 9) if then else (0, None)))] == ends(session)
    assert [] == [what for what, pid in zip(HELPERS, pids, strict=True) if psutil.pid_exists(pid)]


@pytest.mark.parametrize("then", ["sleep", "hold"])
@pytest.mark.parametrize("killed", ["server", "guard"])
def test_a_kill_leaves_no_helper(session: Session, tmp_path: Path, killed: str, then: str) -> None:
    """After kill -9 of the server or of a guard, neither the job nor a helper lives on."""
    session.submit(job(tmp_path, "helpers", str(tmp_path / "pids"), then))
    pids = [int(pid) for pid in wait_for(tmp_path / "pids").split()]
    guard, server, *_ = psutil.Process(pids[0]).parents()
    {"server": server, "guard": guard}[killed].kill()
    assert [Exit("a", None, 9)] == ends(session)
    for pid in pids:
        _wait_until_gone(pid)


def test_a_job_can_be_killed_at_once(session: Session, tmp_path: Path) -> None:
    """A kill is not lost if it comes before the job has its own session."""
    for attempt in range(20):
        key = str(attempt)
        session.submit(job(tmp_path, "sleep", key=key))
        session.kill(key)
        assert [Exit(key, None, 9)] == ends(session, seconds=5)


def test_a_request_to_end_that_comes_at_once_is_not_lost(session: Session, tmp_path: Path) -> None:
    """A stop request ends a job that does not handle signals yet."""
    for attempt in range(20):
        key = str(attempt)
        session.submit(job(tmp_path, "sleep", key=key))
        session.stop()
        assert [Exit(key, None, 15)] == ends(session, seconds=5)


def test_stop_asks_every_job(session: Session, tmp_path: Path) -> None:
    """Every job receives the stop request and can end in order."""
    for key in "ab":
        session.submit(job(tmp_path, "term", str(tmp_path / key), key=key))
        wait_for(tmp_path / f"{key}.ready")
    session.stop()
    assert {Exit("a", 0, None), Exit("b", 0, None)} == set(ends(session, 2))


def test_a_job_of_a_dead_server_is_reported_as_killed(tmp_path: Path) -> None:
    """A job whose server is killed just before its start is reported as killed."""
    executor = member("executor", "local", workers=2)
    with executor.open("executor_jobs:execute", (), threads=1, folder=HERE) as session:
        session.submit(job(tmp_path, "session", str(tmp_path / "ids")))
        wait_for(tmp_path / "ids")
        processes = psutil.Process().children()
        (server,) = [p for p in processes if "rlexp.executors.server" in p.cmdline()]
        session.submit(job(tmp_path, "sleep", key="b"))
        server.kill()
        _wait_until_gone(server.pid)
        session.submit(job(tmp_path, "code", "0", key="c"))
        assert {Exit("c", 0, None)} < set(exits := ends(session, 3))
        assert {"a", "b", "c"} == {each.key for each in exits}


def test_a_server_whose_command_is_dead_imports_nothing() -> None:
    """A server that starts after the death of its command ends before its slow imports."""
    reader, writer = os.pipe()
    os.close(writer)
    with os.fdopen(reader) as abandoned:
        server = subprocess.run(server_of("{}"), stdin=abandoned, check=False)
    assert 0 == server.returncode


def server_of(command: str) -> list[str]:
    """A server of a command, given as JSON, that fails if it begins with its imports."""
    words = ["rlexp.executors.server", "executor_jobs:execute", "1000", "/", command]
    return [sys.executable, "-P", "-m", *words, "no_such_module"]


def test_a_server_notices_a_dead_command_whose_pipe_is_still_open() -> None:
    """A process that the dead command had forked keeps the pipe open: the server ends all the same."""
    command = subprocess.Popen([sys.executable, "-c", ""])
    command.wait()
    dead = json.dumps(replace(this_process(), pid=command.pid).plain())
    with subprocess.Popen(server_of(dead), stdin=subprocess.PIPE) as server:
        assert 0 == server.wait(60)


def test_a_flood_does_not_fill_the_disk(session: Session, tmp_path: Path) -> None:
    """Ten megabytes of output give a log near its limit, with a note."""
    session.submit(job(tmp_path, "flood", "10"))
    ends(session)
    log = (tmp_path / "a.log").read_bytes()
    assert len(log) <= 200_000
    assert b"the log was capped here" in log


@pytest.mark.parametrize("name", SESSION_EXECUTORS)
def test_closing_ends_everything(name: str, tmp_path: Path) -> None:
    """Closing an executor ends its jobs and their children."""
    executor = member("executor", name, workers=2)
    with executor.open("executor_jobs:execute", (), threads=1, folder=HERE) as session:
        session.submit(job(tmp_path, "family", str(tmp_path / "child")))
        child = int(wait_for(tmp_path / "child"))
    _wait_until_gone(child)


@pytest.mark.parametrize("name", SESSION_EXECUTORS)
def test_workers_fill_the_machine_and_no_more(name: str) -> None:
    """`workers=auto` gives each run its threads; a number of workers is used unchanged."""
    cores = len(os.sched_getaffinity(0))
    auto: Any = member("executor", name, workers="auto")
    assert [cores, max(1, cores // 2), 1] == [auto.workers_for(n) for n in (1, 2, 10_000)]
    assert member("executor", name, workers=7).workers_for(4) == 7


def _wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 2
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, f"process {pid} lives on"
        time.sleep(0.02)
