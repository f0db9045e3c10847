"""A process that serves several jobs at the same time, and what its death does to them."""

import os
import signal
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from rlexp.executors import Exit, Job, SharedProcess
from rlexp.executors.local import Local, LocalSession

JOBS = """
import os, socket, time
from multiprocessing.connection import Connection, wait

def execute(words):
    server = Connection(os.dup(int(os.environ["OF_A_TEST"])))
    try:
        server.send(words[0])
        print("served by", server.recv(), flush=True)
        if words[-1] == "waits":
            server.recv()
    except (EOFError, OSError):
        print("left alone", flush=True)
    server.close()
    return 0

def serve(control):
    connections = []
    while True:
        for source in wait([control, *connections]):
            if source is control:
                content, descriptors, _, _ = socket.recv_fds(control, 1, 1)
                if not content:
                    return
                connections.append(Connection(descriptors[0]))
                continue
            try:
                source.recv()
                source.send(os.getpid())
            except EOFError:
                connections.remove(source)
"""
SHARED = SharedProcess("shared_jobs_of_a_test:serve", 2, "OF_A_TEST")


@pytest.fixture
def session(tmp_path: Path) -> Iterator[LocalSession]:
    """An open executor for the jobs of this file."""
    (tmp_path / "shared_jobs_of_a_test.py").write_text(JOBS)
    executor = Local(workers=4, hang_timeout=60, grace=5, log_limit=100_000)
    with executor.open("shared_jobs_of_a_test:execute", (), threads=1, folder=tmp_path) as opened:
        yield opened


def start(session: LocalSession, tmp_path: Path, key: str, *words: str, in_turn: bool) -> None:
    """Submit a job."""
    session.submit(Job(key, (key, *words), tmp_path / f"{key}.log", in_turn, SHARED))


def said(tmp_path: Path, key: str, what: str) -> int:
    """Wait until a job has printed something with a number; returns the number, or 0."""
    deadline, log = time.monotonic() + 60, tmp_path / f"{key}.log"
    while not (log.exists() and what in log.read_text()):
        assert time.monotonic() < deadline, f"{key} never said {what}"
        time.sleep(0.01)
    return int((log.read_text().split(what)[1].split() or ["0"])[0])


def ends(session: LocalSession, number: int) -> list[Exit]:
    """Wait for the ends of some jobs."""
    deadline, ended = time.monotonic() + 60, list[Exit]()
    while len(ended) < number:
        assert time.monotonic() < deadline, "no job ended"
        ended += session.poll(0.1)
    return sorted(ended, key=lambda ended: ended.key)


@pytest.mark.parametrize("in_turn", [False, True])
def test_a_process_serves_as_many_jobs_as_it_may(
    in_turn: bool, session: LocalSession, tmp_path: Path
) -> None:
    """Two jobs have the same process; a third one at the same time has another."""
    for key in "abc":
        start(session, tmp_path, key, "waits", in_turn=in_turn)
    first, second, third = (said(tmp_path, key, "served by ") for key in "abc")
    assert first == second != third


def test_a_later_job_takes_the_place_of_an_earlier_one(
    session: LocalSession, tmp_path: Path
) -> None:
    """Beside a job that waits, others come and go, and one process serves them all."""
    start(session, tmp_path, "a", "waits", in_turn=True)
    process = said(tmp_path, "a", "served by ")
    for key in "bcd":
        start(session, tmp_path, key, in_turn=True)
        assert [Exit(key, 0, None)] == ends(session, 1)
        assert process == said(tmp_path, key, "served by ")


def test_jobs_outlive_the_process_that_serves_them(session: LocalSession, tmp_path: Path) -> None:
    """After kill -9, its jobs notice it and end in order; later jobs have a fresh process."""
    for key in "ab":
        start(session, tmp_path, key, "waits", in_turn=True)
    process = said(tmp_path, "a", "served by ")
    said(tmp_path, "b", "served by ")
    os.kill(process, signal.SIGKILL)
    assert [Exit("a", 0, None), Exit("b", 0, None)] == ends(session, 2)
    for key in "ab":
        assert "left alone" in (tmp_path / f"{key}.log").read_text()
    # A job that starts before the server has noticed the death is left alone as well.
    for attempt in count():
        key = f"later_{attempt}"
        start(session, tmp_path, key, in_turn=True)
        assert [Exit(key, 0, None)] == ends(session, 1)
        if "left alone" not in (tmp_path / f"{key}.log").read_text():
            break
        assert attempt < 100, "no fresh process was started"
    assert said(tmp_path, key, "served by ") not in {0, process}


def test_the_end_of_the_session_ends_the_process(tmp_path: Path) -> None:
    """No process is left when the session closes."""
    (tmp_path / "shared_jobs_of_a_test.py").write_text(JOBS)
    executor = Local(workers=4, hang_timeout=60, grace=5, log_limit=100_000)
    entry = "shared_jobs_of_a_test:execute"
    with executor.open(entry, (), threads=1, folder=tmp_path) as session:
        start(session, tmp_path, "a", "waits", in_turn=False)
        process = said(tmp_path, "a", "served by ")
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
