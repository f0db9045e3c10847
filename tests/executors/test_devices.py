"""Devices that this machine lacks are known before anything starts."""

import sys
from pathlib import Path
from typing import Any

import pytest

from rlexp.executors import devices
from rlexp.executors.devices import missing_device, visible_devices


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that describes the machine: its GPUs, the build of torch, and the system."""

    def describe(
        gpus: int, build: str = "2.13.0", system: str = "linux", drivers: tuple[str, ...] = ()
    ) -> None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        monkeypatch.setattr(devices, "ask_driver", lambda _: [str(n) for n in range(gpus)])
        monkeypatch.setattr(devices, "version", lambda _: build)
        monkeypatch.setattr(devices, "DRIVER_FILES", drivers)
        monkeypatch.setattr(sys, "platform", system)

    return describe


@pytest.mark.parametrize(
    ("device", "gpus", "build", "system", "reason"),
    [
        ("cpu", 0, "2.13.0+cpu", "linux", None),
        ("cuda", 1, "2.13.0", "linux", None),
        ("cuda:0", 1, "2.13.0+cu128", "linux", None),
        ("cuda:1", 2, "2.13.0", "linux", None),
        ("cuda", 0, "2.13.0", "linux", "no NVIDIA GPU"),
        ("cuda:3", 1, "2.13.0", "linux", "cuda:0 is its only GPU"),
        ("cuda:3", 3, "2.13.0", "linux", "its last GPU is cuda:2"),
        ("cuda", 1, "2.13.0+cpu", "linux", "torch 2.13.0+cpu is built without CUDA"),
        ("cuda", 0, "2.13.0", "darwin", "built without CUDA"),
        ("cuda", 0, "2.13.0+rocm6.4", "linux", None),
        ("mps", 0, "2.13.0", "linux", "Apple"),
        ("mps", 0, "2.13.0", "darwin", None),
    ],
)
def test_a_missing_device_has_a_reason(
    machine: Any, device: str, gpus: int, build: str, system: str, reason: str | None
) -> None:
    """A device that the machine lacks is refused with the reason, and any other is accepted."""
    machine(gpus, build, system)
    answer = missing_device(device)
    assert reason in answer if reason and answer else answer is reason


def test_a_driver_without_nvidia_smi_is_trusted(machine: Any, tmp_path: Path) -> None:
    """Where a driver is installed that does not list its GPUs, a GPU may be there."""
    machine(0, drivers=(str(tmp_path),))
    assert missing_device("cuda") is None


@pytest.mark.parametrize(
    ("value", "count"), [("", 0), ("-1", 0), ("0", 1), ("0,1", 2), ("1,-1,0", 1), ("GPU-4f", 1)]
)
def test_hidden_devices_do_not_count(
    machine: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str, count: int
) -> None:
    """`CUDA_VISIBLE_DEVICES` limits the devices as CUDA reads it, also where a driver is installed."""
    machine(4, drivers=(str(tmp_path),))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    assert count == len(visible_devices({"CUDA_VISIBLE_DEVICES": value}))
    assert (count == 0) == (missing_device("cuda") is not None)
