"""The accelerators of this machine, and their assignment to jobs."""

import os
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

VISIBLE = "CUDA_VISIBLE_DEVICES"
"""The environment variable that limits the devices of a process."""
PATIENCE = 20.0
"""Seconds that `nvidia-smi` gets to list the devices."""


@dataclass(slots=True)
class Devices:
    """Assigns devices to jobs: each job gets the device with the fewest jobs.

    Attributes:
        names: Numbers or identifiers of devices, as `CUDA_VISIBLE_DEVICES` takes them.
        runs_per_device: Number of runs that share a device.
        taken: The device of each job.
    """

    names: Sequence[str]
    runs_per_device: int
    taken: dict[str, str] = field(default_factory=dict)

    @property
    def slots(self) -> int:
        """The number of jobs that all devices hold."""
        return len(self.names) * self.runs_per_device

    def take(self, job: str) -> dict[str, str]:
        """Assign a device to a job; returns its environment variables, {} without devices."""
        if not self.names:
            return {}
        runs = Counter(self.taken.values())
        device = min(self.names, key=lambda name: runs[name])
        self.taken[job] = device
        return {VISIBLE: device}

    def give_back(self, job: str) -> None:
        """Free the device of an ended job."""
        self.taken.pop(job, None)


def visible_devices(variables: Mapping[str, str] = os.environ) -> list[str]:
    """The devices that this process may use: those of `CUDA_VISIBLE_DEVICES`, or all."""
    visible = variables.get(VISIBLE)
    if visible is not None:
        return [name.strip() for name in visible.split(",") if name.strip()]
    return ask_driver("index")


def ask_driver(field: str) -> list[str]:
    """A property of each NVIDIA device; [] without NVIDIA devices.

    Args:
        field: A property that `nvidia-smi --query-gpu` knows, such as `index` or `name`.
    """
    # `nvidia-smi` answers at once; importing torch for this would take seconds.
    try:
        result = subprocess.run(
            ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader"],
            capture_output=True,
            check=True,
            timeout=PATIENCE,
            text=True,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in result.stdout.splitlines() if line.strip()]
