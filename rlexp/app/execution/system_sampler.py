"""Measures what a run uses of its machine, in a thread of the run's process.

No measurement changes a number: the thread draws no random number and touches nothing of the
training. It ends quietly where it cannot measure or write.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlexp.executors.devices import VISIBLE, ask_driver, visible_devices
from rlexp.records.system_metrics import GpuMeasurement, SystemMeasurement

if TYPE_CHECKING:
    from psutil import Process

GPU_FIELDS = "index,uuid,utilization.gpu,memory.used,memory.total"
"""Properties that `nvidia-smi` reports."""
MEBIBYTE = 1 << 20
"""Bytes."""
END_LIMIT = 5.0
"""Seconds that the last measurement may take before the run ends without it."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Counters of a run's processes.

    Attributes:
        at: Seconds on the monotonic clock.
        processor_seconds: Processor time of the processes and of their ended children.
        memory_bytes: Their resident memory.
        processes: Their number.
    """

    at: float
    processor_seconds: float
    memory_bytes: int
    processes: int


class SystemSampler:
    """Measures this process and its descendants at an interval, until `stop` is called."""

    def __init__(
        self, every: float, step: Callable[[], int], write: Callable[[SystemMeasurement], object]
    ) -> None:
        """Start the thread.

        Args:
            every: Seconds between two measurements.
            step: Returns the environment steps of the run.
            write: Stores a measurement.
        """
        # Imported before the thread starts: two threads that import can wait for each other.
        import psutil

        self._every, self._step, self._write = every, step, write
        self._process = psutil.Process()
        self._may_have_gpus = True
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._work, name="system metrics", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Make the last measurement and end the thread; do not wait for one that hangs."""
        self._ending.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(END_LIMIT)

    def _work(self) -> None:
        # Any error ends the measurements only: training goes on without them.
        with suppress(Exception):
            self._measure_until_end()

    def _measure_until_end(self) -> None:
        import psutil

        # The first call of `cpu_percent` has nothing to compare with, and returns 0.
        psutil.cpu_percent()
        before, ends = read_processes(self._process), False
        while not ends:
            ends = self._ending.wait(self._every)
            step = self._step()
            reading = read_processes(self._process)
            self._write(self._measurement(before, reading, step))
            before = reading

    def _measurement(self, before: Reading, now: Reading, step: int) -> SystemMeasurement:
        import psutil

        memory = psutil.virtual_memory()
        # The clock's resolution keeps the quotient finite where two readings coincide.
        seconds = max(now.at - before.at, 1e-6)
        used = max(now.processor_seconds - before.processor_seconds, 0.0)
        return SystemMeasurement(
            time=time.time(),
            step=step,
            seconds=round(seconds, 3),
            processor_percent=round(100 * used / seconds, 1),
            memory_bytes=now.memory_bytes,
            processes=now.processes,
            machine_processor_percent=psutil.cpu_percent(),
            machine_memory_bytes=int(memory.total - memory.available),
            machine_memory_percent=float(memory.percent),
            gpus=self._gpus(),
        )

    def _gpus(self) -> tuple[GpuMeasurement, ...]:
        gpus = tuple(read_gpus()) if self._may_have_gpus else ()
        # A machine without a GPU is asked once: every question starts a process.
        self._may_have_gpus = bool(gpus)
        return gpus


def read_processes(process: "Process") -> Reading:
    """The counters of a process and its descendants; processes that end meanwhile are left out."""
    import psutil

    seconds, memory, count = 0.0, 0, 0
    for each in (process, *process.children(recursive=True)):
        with suppress(psutil.Error):
            times, resident = each.cpu_times(), each.memory_info().rss
            # The time of a child moves to its parent when it has ended: the sum stays the same.
            seconds += times.user + times.system
            seconds += getattr(times, "children_user", 0) + getattr(times, "children_system", 0)
            memory += resident
            count += 1
    return Reading(time.monotonic(), seconds, memory, count)


def read_gpus() -> Iterator[GpuMeasurement]:
    """The NVIDIA GPUs that this process may use; none where `nvidia-smi` is missing or fails."""
    limited = visible_devices(os.environ) if VISIBLE in os.environ else None
    for line in ask_driver(GPU_FIELDS):
        # A line reads `0, GPU-5c6e…, 97 %, 2048 MiB, 143771 MiB`. A virtual GPU has `[N/A]`.
        with suppress(ValueError):
            index, identifier, *rest = (part.strip() for part in line.split(","))
            utilization, used, total = (float(part.split()[0]) for part in rest)
            if limited is None or _is_named(index, identifier, limited):
                yield GpuMeasurement(
                    index=int(index),
                    utilization_percent=utilization,
                    memory_bytes=int(used * MEBIBYTE),
                    memory_total_bytes=int(total * MEBIBYTE),
                )


def _is_named(index: str, identifier: str, names: Sequence[str]) -> bool:
    """Whether a GPU is among names, which may be the beginnings of identifiers."""
    return any(name == index or identifier.startswith(name) for name in names)
