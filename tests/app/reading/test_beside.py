"""A part of a command is computed in a fork, or in the command where the fork fails."""

import os
import signal
import threading
import time

import pytest

from rlexp.app.reading import beside as forks
from rlexp.app.reading.beside import PartBeside, beside, can_fork


def test_a_fork_computes_and_sends_its_part() -> None:
    """The result comes from another process, which is gone afterwards."""
    part = PartBeside(os.getpid, fork=True)
    pid = part.result()
    part.end()
    assert os.getpid() != pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_more_than_a_pipe_holds_is_sent() -> None:
    """A result of some megabytes arrives whole."""
    part = PartBeside(lambda: b"x" * 5_000_000, fork=True)
    assert 5_000_000 == len(part.result())
    part.end()


@pytest.mark.parametrize("fault", ["raises", "dies", "cannot be pickled"])
def test_what_a_fork_does_not_send_is_computed_here(fault: str) -> None:
    """After an error, a kill, or with a result that cannot be sent, the command computes the part."""
    command = os.getpid()

    def compute() -> object:
        if os.getpid() == command:
            return "computed here"
        if fault == "raises":
            raise ValueError("in the fork")
        if fault == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        return lambda: None

    part = PartBeside(compute, fork=True)
    assert "computed here" == part.result()
    part.end()


def test_an_error_of_the_part_is_raised_in_the_command() -> None:
    """An error that the command has too is raised there, as without a fork."""

    def compute() -> None:
        raise ValueError("everywhere")

    part = PartBeside(compute, fork=True)
    with pytest.raises(ValueError, match="everywhere"):
        part.result()
    part.end()


def test_an_interrupted_command_leaves_no_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fork is killed when the command leaves the block without its result."""
    monkeypatch.setattr(forks, "can_fork", lambda: True)
    pids: list[int] = []

    def interrupted() -> None:
        with beside(lambda: time.sleep(60)) as part:
            assert part._pid is not None
            pids.append(part._pid)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def test_a_ctrl_c_right_after_the_fork_reaches_the_command_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A SIGINT that both get between the fork and its guarded block interrupts the command, not the fork."""
    copies, fork, command, pids = os.pipe(), os.fork, os.getpid(), list[int]()

    def interrupted_fork() -> int:
        pids.append(pid := fork())
        os.kill(os.getpid(), signal.SIGINT)
        return pid

    monkeypatch.setattr(os, "fork", interrupted_fork)
    # The handler of a command would remember this interrupt for all tests that follow.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            PartBeside(lambda: os.write(copies[1], b"computed "), fork=True)
    finally:
        signal.signal(signal.SIGINT, before)
        # A fork that left its block comes here as a second copy of this test.
        os.write(copies[1], b"command " if os.getpid() == command else b"copy ")
        if os.getpid() != command:
            os._exit(1)
    # Other tests of this process may have children, too.
    os.waitpid(pids[0], 0)
    os.close(copies[1])
    with os.fdopen(copies[0], "rb") as stream:
        assert {b"command", b"computed"} == set(stream.read().split())
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_ctrl_c_that_another_thread_receives_is_held_back_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A SIGINT that reaches a thread of a library interrupts after the fork, and no signal stays blocked."""
    ended, fork = threading.Event(), os.fork
    other = threading.Thread(target=ended.wait)
    other.start()
    assert other.ident is not None
    thread, command, forked = other.ident, os.getpid(), list[int]()

    def interrupted_fork() -> int:
        pid = fork()
        if os.getpid() == command:
            signal.pthread_kill(thread, signal.SIGINT)
            # Python handles the signal in the main thread while the fork is guarded.
            time.sleep(0.1)
            forked.append(pid)
        return pid

    monkeypatch.setattr(os, "fork", interrupted_fork)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            PartBeside(lambda: None, fork=True)
        assert signal.default_int_handler is signal.getsignal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
        ended.set()
        other.join()
    os.waitpid(forked[0], 0)
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_fork_that_the_system_has_forgotten_is_no_error() -> None:
    """Where SIGCHLD is ignored, nobody can wait for the fork, and the result counts."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        part = PartBeside(lambda: "computed", fork=True)
        assert "computed" == part.result()
        part.end()
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_a_fork_dies_with_its_command() -> None:
    """Where the command is killed, its fork ends, and holds none of its locks any longer."""
    reading, writing = os.pipe()
    command = os.fork()
    if command == 0:
        try:
            part = PartBeside(lambda: time.sleep(60), fork=True)
            os.write(writing, f"{part._pid}\n".encode())
            time.sleep(60)
        finally:
            os._exit(1)
    pid = int(os.read(reading, 20))
    os.kill(command, signal.SIGKILL)
    os.waitpid(command, 0)
    for _ in range(200):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            break
        time.sleep(0.05)
    else:
        pytest.fail("the fork is alive")
    os.close(reading)
    os.close(writing)


def test_a_process_with_threads_is_not_forked() -> None:
    """A fork would lack the threads, and could wait for ever for what they hold."""
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        assert not can_fork()
    finally:
        stop.set()
        thread.join()
