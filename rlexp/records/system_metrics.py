"""What a run used of its machine: measurements of processor, memory and GPUs, and their summary."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import fsum, isfinite
from typing import Any, Self

from rlexp.errors import RecordError

MEGABYTE = 1e6
"""Bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuMeasurement:
    """The state of one GPU, which other programs may use too.

    Attributes:
        index: Its number, as `nvidia-smi` counts.
        utilization_percent: Share of the time in which it computed, 0 to 100.
        memory_bytes: Bytes of its memory that are in use.
        memory_total_bytes: Bytes of its memory.
    """

    index: int
    utilization_percent: float
    memory_bytes: int
    memory_total_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemMeasurement:
    """One measurement of a run and of its machine.

    Attributes:
        time: When it was made, in seconds since 1970.
        step: Environment steps of the run at that time.
        seconds: Seconds since the measurement before, or since the start of the attempt.
        processor_percent: Processor time of the run and of all processes that it started, in
            percent of `seconds`: 100 is one core.
        memory_bytes: Resident memory of the same processes. Memory that several of them share
            counts once for each.
        processes: Number of these processes.
        machine_processor_percent: Share of all cores of the machine that was busy, 0 to 100.
        machine_memory_bytes: Bytes of memory that are in use on the machine.
        machine_memory_percent: The same as a share of the machine's memory, 0 to 100.
        gpus: The GPUs that the run may use; empty where there are none.
    """

    time: float
    step: int
    seconds: float
    processor_percent: float
    memory_bytes: int
    processes: int
    machine_processor_percent: float
    machine_memory_bytes: int
    machine_memory_percent: float
    gpus: tuple[GpuMeasurement, ...] = ()

    def plain(self) -> dict[str, Any]:
        """The measurement as JSON values."""
        return {**asdict(self), "gpus": [asdict(gpu) for gpu in self.gpus]}

    @classmethod
    def from_plain(cls, mapping: Mapping[str, Any]) -> Self:
        """The measurement of a mapping of JSON values; the inverse of `plain`.

        Raises:
            RecordError: The mapping is not a measurement of this version.
        """
        try:
            gpus = tuple(GpuMeasurement(**gpu) for gpu in mapping["gpus"])
            measurement = cls(**{**mapping, "gpus": gpus})
            numbers = [v for k, v in asdict(measurement).items() if k != "gpus"]
            numbers += [value for gpu in gpus for value in asdict(gpu).values()]
            if all(isfinite(number) for number in numbers):
                return measurement
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise RecordError(f"not a measurement: {error!r}") from error
        raise RecordError("not a measurement: a value is not finite")

    def tracked(self) -> dict[str, float]:
        """The values by their names in trackers.

        MLflow shows metrics below `system/` on a page of their own. The names of the machine and
        of the GPUs are those of MLflow's own system metrics; those of the run's processes begin
        with `process_`.
        """
        values = {
            "process_cpu_utilization_percentage": self.processor_percent,
            "process_memory_usage_megabytes": self.memory_bytes / MEGABYTE,
            "cpu_utilization_percentage": self.machine_processor_percent,
            "system_memory_usage_megabytes": self.machine_memory_bytes / MEGABYTE,
            "system_memory_usage_percentage": self.machine_memory_percent,
        }
        for gpu in self.gpus:
            values[f"gpu_{gpu.index}_utilization_percentage"] = gpu.utilization_percent
            values[f"gpu_{gpu.index}_memory_usage_megabytes"] = gpu.memory_bytes / MEGABYTE
            share = (
                100 * gpu.memory_bytes / gpu.memory_total_bytes if gpu.memory_total_bytes else 0
            )
            values[f"gpu_{gpu.index}_memory_usage_percentage"] = share
        return {f"system/{name}": value for name, value in values.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemUsage:
    """What a run used of its machine, over the measurements of all its attempts.

    Attributes:
        measurements: Number of measurements.
        processor_percent: Mean processor time of the run's processes, in percent of the measured
            time: 100 is one core.
        peak_memory_bytes: The largest measured resident memory of the run's processes.
        gpu_utilization_percent: Mean utilization of the GPUs that the run could use, 0 to 100;
            null without a GPU.
        peak_gpu_memory_bytes: The largest measured memory in use on these GPUs, summed over them;
            null without a GPU.
    """

    measurements: int
    processor_percent: float
    peak_memory_bytes: int
    gpu_utilization_percent: float | None
    peak_gpu_memory_bytes: int | None


def summarise_usage(measurements: Sequence[SystemMeasurement]) -> SystemUsage | None:
    """The summary of measurements, weighted by their time; None without one."""
    measured = [(m, m.seconds) for m in measurements if m.seconds > 0]
    if not measured:
        return None
    with_gpus = [(m, weight) for m, weight in measured if m.gpus]
    return SystemUsage(
        measurements=len(measured),
        processor_percent=_mean((m.processor_percent, weight) for m, weight in measured),
        peak_memory_bytes=max(m.memory_bytes for m, _ in measured),
        gpu_utilization_percent=_mean(
            (gpu.utilization_percent, weight) for m, weight in with_gpus for gpu in m.gpus
        )
        if with_gpus
        else None,
        peak_gpu_memory_bytes=max(
            (sum(gpu.memory_bytes for gpu in m.gpus) for m, _ in with_gpus), default=None
        ),
    )


def _mean(weighted: Iterator[tuple[float, float]]) -> float:
    """The mean of values with weights."""
    pairs = list(weighted)
    return fsum(v * w for v, w in pairs) / fsum(w for _, w in pairs)
