"""Which process it was, so that it is not taken for another that has its number later."""

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

BOOT = Path("/proc/sys/kernel/random/boot_id")
NUMBERS = Path("/proc/self/ns/pid")
"""Which numbering of processes this one is in: containers have their own."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process on some machine.

    Attributes:
        pid: Its number.
        host: The machine's name.
        boot: Which start of the machine, and which numbering of its processes.
        started: When it started, in ticks since the machine did.
    """

    pid: int | None = None
    host: str | None = None
    boot: str | None = None
    started: str | None = None

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "Process":
        """Read it; what is missing or damaged is not known."""
        pid = plain.get("pid")
        words = {key: plain.get(key) for key in ("host", "boot", "started")}
        known = {key: word for key, word in words.items() if isinstance(word, str)}
        return cls(pid=pid if type(pid) is int and pid > 0 else None, **known)

    def plain(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)

    def is_gone(self) -> bool:
        """Whether it is known to be dead: one of another machine never is."""
        here = (socket.gethostname(), _boot())
        if self.pid is None or self.boot is None or (self.host, self.boot) != here:
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except OSError:
            pass
        state, started = _state(self.pid)
        if state is None:
            return False
        return state in {"Z", "X"} or (self.started is not None and started != self.started)


def this_process() -> Process:
    """The one that asks."""
    return Process(os.getpid(), socket.gethostname(), _boot(), _state(os.getpid())[1])


def _boot() -> str | None:
    with suppress(OSError):
        return f"{BOOT.read_text().strip()} {os.readlink(NUMBERS)}"  # noqa: PTH115 (no file)
    return None


def _state(pid: int) -> tuple[str | None, str | None]:
    """The state of a process, and when it started; nothing where that is not told."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        # Its name, in brackets, may hold anything.
        fields = text.rpartition(")")[2].split()
        return fields[0], fields[19]
    except (OSError, IndexError):
        return None, None
