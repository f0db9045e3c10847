"""The accelerators of this machine, and their assignment to jobs."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from itertools import takewhile
from pathlib import Path

VISIBLE = "CUDA_VISIBLE_DEVICES"
"""The environment variable that limits the devices of a process."""
DRIVER_FILES = ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/nvmap", "/dev/dxg")
"""Files of NVIDIA drivers, some of which come without `nvidia-smi`."""
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
        # As in CUDA, the list ends before the first number below 0.
        names = takewhile(lambda name: name != "-1", map(str.strip, visible.split(",")))
        return [name for name in names if name]
    return ask_driver("index")


def ask_driver(field: str) -> list[str]:
    """A line with a property of each NVIDIA device; [] without NVIDIA devices.

    Args:
        field: A property that `nvidia-smi --query-gpu` knows, such as `index` or `name`, or
            several with commas between them.
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


def missing_device(device: str) -> str | None:
    """Why this machine cannot train on a device, in torch's terms; None if it can, or may.

    Nothing is imported. Where the machine cannot be asked, the device counts as present.
    """
    kind, _, number = device.partition(":")
    if kind == "cuda":
        return _missing_gpu(int(number or 0), _torch_version())
    if kind == "mps" and sys.platform != "darwin":
        return "this device exists on Apple computers only"
    return None


def _missing_gpu(number: int, build: str) -> str | None:
    """Why torch cannot train on the GPU of this number; None if it can, or may."""
    if "+cpu" in build or sys.platform == "darwin":
        return f"the installed torch {build} is built without CUDA"
    count = len(visible_devices())
    # torch calls the GPUs of AMD cuda as well, and the driver of NVIDIA does not list them.
    if number < count or "+rocm" in build or (count == 0 and _is_unlisted()):
        return None
    if count == 0:
        return "this machine has no NVIDIA GPU that may be used"
    last = "cuda:0 is its only GPU" if count == 1 else f"its last GPU is cuda:{count - 1}"
    return f"this machine has no such GPU: {last}"


def _is_unlisted() -> bool:
    """Whether this machine has a driver of NVIDIA that did not list its devices."""
    return not _hides_devices() and any(Path(path).exists() for path in DRIVER_FILES)


def _hides_devices() -> bool:
    """Whether the variable for visible devices hides all of them."""
    return os.environ.get(VISIBLE) in {"", "-1"}


def _torch_version() -> str:
    try:
        return version("torch")
    except PackageNotFoundError:
        return ""
