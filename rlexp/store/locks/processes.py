"""Identity of a process, so that a later process with the same number is not taken for it."""

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

BOOT = Path("/proc/sys/kernel/random/boot_id")
NUMBERS = Path("/proc/self/ns/pid")
"""The PID namespace of this process: every container numbers its processes from 1."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process on some machine.

    Attributes:
        pid: Process number.
        host: Name of the machine.
        boot: Boot id of the machine, and the PID namespace.
        started: Start of the process, in clock ticks since the machine started.
    """

    pid: int | None = None
    host: str | None = None
    boot: str | None = None
    started: str | None = None

    @classmethod
    def from_plain(cls, entry: Mapping[str, Any]) -> "Process":
        """The inverse of `plain`; a missing or damaged field becomes None."""
        pid = entry.get("pid")
        texts = {key: entry.get(key) for key in ("host", "boot", "started")}
        valid = {key: text for key, text in texts.items() if isinstance(text, str)}
        return cls(pid=pid if type(pid) is int and pid > 0 else None, **valid)

    def plain(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return asdict(self)

    def is_gone(self) -> bool:
        """Whether the process is known to be dead; False for a process of another machine."""
        here = (socket.gethostname(), _boot())
        if self.pid is None or self.boot is None or (self.host, self.boot) != here:
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except OSError:
            # A process of another user exists, too: its state is still to be read.
            pass
        state, started = _state(self.pid)
        if state is None:
            return False
        # A zombie (Z) holds nothing any more. Another start time means that the kernel gave the
        # number to another process.
        return state in {"Z", "X"} or (self.started is not None and started != self.started)


def this_process() -> Process:
    """The process that calls this function."""
    return Process(os.getpid(), socket.gethostname(), _boot(), _state(os.getpid())[1])


def _boot() -> str | None:
    with suppress(OSError):
        return f"{BOOT.read_text().strip()} {os.readlink(NUMBERS)}"  # noqa: PTH115 (no file)
    return None


def _state(pid: int) -> tuple[str | None, str | None]:
    """The state letter and the start time of a process; None where /proc does not show them."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        # The second field is the program's name in brackets, which may hold spaces and brackets.
        fields = text.rpartition(")")[2].split()
        return fields[0], fields[19]
    except (OSError, IndexError):
        return None, None
