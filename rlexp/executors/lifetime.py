"""Ends every process that a run starts with the run itself, also in sessions of their own.

Each run has a guard: a process between the server and the run that executes no code of the user.
The guard ends when the run has ended. It first kills every process that the run has started. The
guard does the same when its parent, the server, is gone. It therefore ends a run that is stopped or
that executes C code, and it does so even if the command and the server are killed at the same time.

On Linux, the kernel helps in three ways. It makes the guard the parent of processes whose own parent
has died (a subreaper). It kills a run whose guard is killed. It wakes a guard whose parent has died.
Elsewhere, a guard reaches the process group of its run only.
"""

import ctypes
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
PR_GET_CHILD_SUBREAPER = 37
PARENT_CHECK_EVERY = 0.5
"""Seconds between two looks at the parent, where the kernel does not report its death."""
END_LIMIT = 5.0
"""Seconds that killed processes may take to end; one in a wait of the kernel may take for ever."""
RETRY_EVERY = 0.02
"""Seconds between two kills, because a process may start another while it is killed."""


def die_with(parent: int) -> bool:
    """Let the kernel kill this process when its parent dies; returns whether it can.

    The signal follows the thread that forked this process: that thread has to live as long as this
    process should.

    Args:
        parent: The id of the parent; this process dies at once if it has another parent by now.
    """
    is_set = _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # The kernel reports no death that came before the call.
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
    return is_set


def wake_with_parent() -> None:
    """Let the kernel wake this process when its parent dies, even if this process is stopped.

    The caller compares `os.getppid()` with the parent's id from then on, and ends itself.
    """
    _prctl(PR_SET_PDEATHSIG, signal.SIGCONT)


def adopt_orphans() -> bool:
    """Make this process the parent of descendants whose parent dies; returns whether it can."""
    return _prctl(PR_SET_CHILD_SUBREAPER, 1)


def ends_every_process() -> bool:
    """Whether the kernel can end the processes of a run that are in sessions of their own."""
    answer = ctypes.c_int()
    return _prctl(PR_GET_CHILD_SUBREAPER, ctypes.addressof(answer))


def _prctl(option: int, value: int) -> bool:
    try:
        prctl = ctypes.CDLL(None).prctl
    except (AttributeError, OSError, TypeError):
        return False
    number = ctypes.c_ulong
    return bool(prctl(option, number(value), number(0), number(0), number(0)) == 0)


def descendants(pid: int) -> list[int]:
    """The processes that a process and its descendants have started; empty without /proc."""
    by_parent: dict[int, list[int]] = {}
    for child, parent in _parents():
        by_parent.setdefault(parent, []).append(child)
    pids = list(by_parent.get(pid, ()))
    for each in pids:
        pids += by_parent.get(each, ())
    return pids


def children(pid: int) -> set[int]:
    """The processes whose parent is this process now; empty without /proc."""
    return {child for child, parent in _parents() if parent == pid}


def _parents() -> list[tuple[int, int]]:
    pairs = []
    with suppress(OSError):
        for folder in Path("/proc").iterdir():
            with suppress(ValueError, IndexError, OSError):
                pid = int(folder.name)
                # The second field is the program's name in brackets, which may hold brackets.
                fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
                pairs.append((pid, int(fields[1])))
    return pairs


def kill_guarded(guard: int) -> None:
    """Kill the processes of a guard, which then ends itself; repeat it until the guard has ended.

    A process may be missed that is being started at this moment.

    Args:
        guard: The process that called `fork_under_guard`; a child of this process.
    """
    for pid in descendants(guard):
        _kill(pid)
    # A guard that was stopped goes on.
    with suppress(ProcessLookupError, PermissionError):
        os.kill(guard, signal.SIGCONT)


def kill_orphans(expected: set[int]) -> None:
    """Kill the children of this process that are not expected, with their descendants."""
    for child in children(os.getpid()) - expected:
        for pid in (child, *descendants(child)):
            _kill(pid)


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def fork_under_guard(
    parent: int, *, to_close: Sequence[int] = (), tidy: Callable[[], object] = lambda: None
) -> None:
    """Fork, return in the new process, and guard the new process in the calling process.

    The calling process never returns. It forwards SIGTERM and ends as the new process has ended:
    with its exit code, or by its signal.

    Args:
        parent: The id of the calling process's parent; its death ends all processes.
        to_close: Descriptors that the guard closes.
        tidy: Called in the guard after all processes have ended, if the parent is gone.
    """
    guard = os.getpid()
    adopt_orphans()
    # The guard waits for signals instead of handling them. No signal of a terminal ends it.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    wake_with_parent()
    pid = os.fork()
    if pid == 0:
        die_with(guard)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return
    try:
        for descriptor in to_close:
            os.close(descriptor)
        _guard(pid, parent, tidy)
    finally:
        os._exit(70)


def _guard(pid: int, parent: int, tidy: Callable[[], object]) -> NoReturn:
    # If the parent ignores the signal, the kernel keeps no status of a child.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    status = None
    while status is None and os.getppid() == parent:
        if _next_signal(PARENT_CHECK_EVERY) == signal.SIGTERM:
            # The number cannot belong to another process: it is only free after `_reap`.
            os.kill(pid, signal.SIGTERM)
        status = _reap().get(pid)
    ended = _end_family(pid)
    if os.getppid() != parent:
        tidy()
    _end_like(ended if status is None else status)


def _next_signal(seconds: float) -> int | None:
    """Wait up to `seconds` for a child to end, a request to end, or the death of the parent."""
    if not hasattr(signal, "sigtimedwait"):
        time.sleep(min(seconds, RETRY_EVERY))
        return None
    awaited = {signal.SIGCHLD, signal.SIGTERM, signal.SIGCONT}
    received = signal.sigtimedwait(awaited, seconds)
    return None if received is None else received.si_signo


def _reap() -> dict[int, int]:
    """The wait status of every child that has ended since the last call."""
    ended: dict[int, int] = {}
    with suppress(ChildProcessError):
        while (reaped := os.waitpid(-1, os.WNOHANG))[0]:
            ended[reaped[0]] = reaped[1]
    return ended


def _end_family(pid: int) -> int:
    """Kill the child and all other descendants; returns the wait status of the child."""
    status = int(signal.SIGKILL)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    deadline = time.monotonic() + END_LIMIT
    while time.monotonic() < deadline:
        for each in descendants(os.getpid()):
            _kill(each)
        status = _reap().get(pid, status)
        if _is_childless():
            break
        _next_signal(RETRY_EVERY)
    return status


def _is_childless() -> bool:
    # The kernel knows: a descendant whose parent has died is a child of this process.
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def _end_like(status: int) -> NoReturn:
    """End this process as another has ended, by its wait status."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        # Only the first process leaves a core dump.
        _prctl(PR_SET_DUMPABLE, 0)
        with suppress(OSError, ValueError):
            signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {-code})
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 70)
