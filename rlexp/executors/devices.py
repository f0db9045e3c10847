"""Accelerators of a machine, and which run gets which."""

import os
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

VISIBLE = "CUDA_VISIBLE_DEVICES"
"""The variable by which a process is given its devices."""
PATIENCE = 20.0
"""Seconds that the driver gets to list its devices."""


@dataclass(slots=True)
class Devices:
    """Slots for runs on devices: each run gets the device with the fewest runs.

    Attributes:
        names: Numbers or identifiers of devices, as `CUDA_VISIBLE_DEVICES` takes them.
        runs_per_device: How many runs share a device.
    """

    names: Sequence[str]
    runs_per_device: int
    taken: dict[str, str] = field(default_factory=dict)

    @property
    def slots(self) -> int:
        """How many runs they hold."""
        return len(self.names) * self.runs_per_device

    def take(self, job: str) -> dict[str, str]:
        """Variables that show a job its device; none where there are no devices to share."""
        if not self.names:
            return {}
        runs = Counter(self.taken.values())
        device = min(self.names, key=lambda name: runs[name])
        self.taken[job] = device
        return {VISIBLE: device}

    def give_back(self, job: str) -> None:
        """A job is over."""
        self.taken.pop(job, None)


def found(variables: Mapping[str, str] = os.environ) -> list[str]:
    """The devices that this process may use: those that it was given, or all of the machine."""
    given = variables.get(VISIBLE)
    if given is not None:
        return [name.strip() for name in given.split(",") if name.strip()]
    return ask_driver("index")


def ask_driver(field: str) -> list[str]:
    """What NVIDIA's own tool says of each device; asking torch would take seconds.

    Args:
        field: A property that it can be asked for, such as `index` and `name`.
    """
    try:
        done = subprocess.run(
            ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader"],
            capture_output=True,
            check=True,
            timeout=PATIENCE,
            text=True,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in done.stdout.splitlines() if line.strip()]
