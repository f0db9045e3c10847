"""Where a job stood when it had to be killed: its stacks, written to its log beforehand."""

import faulthandler
import os
import signal
from contextlib import suppress
from pathlib import Path

ASK = signal.SIGUSR2
"""Asks a process for the stacks of all its threads; USR1 is taken by schedulers and NCCL."""
TIME = 0.2
"""Seconds that they take at most."""


def ignore_questions() -> None:
    """Survive being asked, as this process and its forks until they can answer."""
    signal.signal(ASK, signal.SIG_IGN)


def answer_questions() -> None:
    """Write the stacks of all threads to standard error when asked, whatever they are doing."""
    faulthandler.register(ASK, all_threads=True)


def ask(session: int) -> bool:
    """Ask every process of a session that can answer; a stopped one is woken for it.

    Args:
        session: Number of the session, which is that of the process that began it.

    Returns:
        Whether anyone was asked.
    """
    asked = [pid for pid in _members(session) if _answers(pid)]
    for pid in asked:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, ASK)
            os.kill(pid, signal.SIGCONT)
    return bool(asked)


def _members(session: int) -> list[int]:
    found = []
    with suppress(FileNotFoundError):
        for folder in Path("/proc").iterdir():
            with suppress(ValueError, ProcessLookupError, PermissionError):
                if os.getsid(int(folder.name)) == session:
                    found.append(int(folder.name))
    return found


def _answers(pid: int) -> bool:
    """Whether a process handles the question: others would die of it."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        caught = next(line.split()[1] for line in lines if line.startswith("SigCgt:"))
    except (OSError, StopIteration, IndexError):
        return False
    return bool(int(caught, 16) >> (ASK - 1) & 1)
