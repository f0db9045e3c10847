"""How much other programs slow runs down, and how much that may change while the runs train."""

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MachineLoad:
    """The processes that want to compute on this machine.

    They share the cores equally. So runs with `threads` threads beside `others` processes take
    (`threads` + `others`) / `cores` times as long as alone, and never less than alone.

    Attributes:
        cores: Cores of the machine.
        threads: Threads of all runs at a time.
        others: Processes of other programs that want to compute now, as a mean over a minute.
    """

    cores: int
    threads: int
    others: float

    @classmethod
    def now(cls, threads: int) -> "MachineLoad":
        """The present load of this machine, for runs that are not started yet.

        Args:
            threads: Threads of all runs at a time.
        """
        return cls(os.cpu_count() or 1, threads, waiting_processes())

    def slowdown(self, others: float) -> float:
        """The factor by which so many other processes slow the runs down, at least 1."""
        return max((self.threads + others) / self.cores, 1.0)

    def speed_up_later(self, measured: float) -> float:
        """The factor, at least 1, by which runs may become faster than they were measured.

        Half of the other processes may end, or the present ones may be fewer already.

        Args:
            measured: Other processes while the runs were measured.
        """
        return self.slowdown(measured) / self.slowdown(min(measured / 2, self.others))

    def slowdown_later(self, measured: float) -> float:
        """The factor, at least 1, by which runs may become slower than they were measured.

        Twice as many other processes may come, or the present ones may be more already.

        Args:
            measured: Other processes while the runs were measured.
        """
        return self.slowdown(max(2 * measured, self.others)) / self.slowdown(measured)


def waiting_processes() -> float:
    """Processes that wanted to compute, as a mean over the last minute; 0 where it is unknown."""
    try:
        return os.getloadavg()[0]
    except OSError:
        return 0.0
