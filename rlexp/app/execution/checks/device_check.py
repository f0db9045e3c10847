"""Refuses runs on a device that this machine lacks, before any of them starts."""

from collections.abc import Iterable

from rlexp.errors import ConfigError
from rlexp.executors import Executor, Remote
from rlexp.executors.devices import missing_device
from rlexp.executors.local import Local


def check_devices(
    devices: Iterable[str | None], executor: Executor | Remote, *, recorded: bool = False
) -> None:
    """Refuse devices that this machine lacks, if the runs are executed on this machine.

    Args:
        devices: The device of each run, in torch's terms; None for imported runs.
        executor: The executor of the runs. Machines of a remote executor may have other devices.
        recorded: Whether the device is part of a recorded definition, which no word can change.

    Raises:
        ConfigError: A device is missing; the message says which and what to type.
    """
    if isinstance(executor, Remote):
        return
    for device in dict.fromkeys(devices):
        reason = missing_device(device) or _hidden(device, executor) if device else None
        if reason:
            others = "choose other machines with executor=slurm, executor=ray or executor=pull"
            cpu = "train anew under another name with compute.device=cpu"
            way = f"{others}, or {cpu}" if recorded else f"type compute.device=cpu, or {others}"
            raise ConfigError(
                f"compute.device={device}: {reason}; {way}",
                code="unknown_value",
                key="compute.device",
                command="rlexp doctor",
            )


def _hidden(device: str, executor: Executor) -> str | None:
    """Why a device is hidden from runs that share the devices of the executor; None if it is not."""
    if not isinstance(executor, Local) or not executor.devices:
        return None
    # A run then sees its own device only, under the number 0.
    if device.startswith("cuda:") and device != "cuda:0":
        return "with executor.devices, each run sees one GPU, which is called cuda"
    return None
