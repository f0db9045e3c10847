"""The bridge process between a command and Ray.

The Ray library can end the process that uses it, so that the command itself never imports it. The
bridge receives the command's messages over a wire; at the end of the wire, it ends its Ray tasks
and the cluster that it started.
"""

import json
import logging
import os
import queue
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rlexp.executors.ray import node_task
from rlexp.executors.ray.messages import Mailbox, Message, Wire
from rlexp.temporary_folders import scratch

PREFIX = "rlexp-ray-"
SHORT = 30
"""Most characters of the folder for temporary files: the path of a socket is limited to 107."""
COLLECT_EVERY = 0.4
OBJECTS = 256 << 20
"""Bytes of shared memory for objects in a cluster that rlexp starts; the rest goes to disk."""


class Bridge:
    """Starts Ray tasks for jobs, and passes messages between the tasks and the command."""

    def __init__(self, ray: Any, wire: Wire, *, is_client: bool) -> None:
        self._ray = ray
        self._wire = wire
        self._tasks: dict[str, Any] = {}
        self._task = ray.remote(node_task.work)
        self._collected_at = 0.0
        options: dict[str, Any] = {"num_cpus": 0, "max_restarts": 0}
        if not is_client:
            options["scheduling_strategy"] = _here(ray)
        self._mailbox = ray.remote(Mailbox).options(**options).remote()

    def obey(self, command: Message) -> None:
        """Execute a message of the command."""
        match command["do"]:
            case "submit":
                job = command["letter"]["job"]
                task = self._task.options(**command["options"])
                self._tasks[job] = task.remote(command["letter"], self._mailbox)
            case "cancel":
                for job in command["jobs"]:
                    if job in self._tasks:
                        self._ray.cancel(self._tasks[job], force=command["force"])
            case _:
                self._ray.get(self._mailbox.send.remote(command["job"], command))

    def look(self) -> None:
        """Send the messages and the ends of tasks to the command."""
        ended = []
        if self._tasks:
            refs = list(self._tasks.values())
            ended, _ = self._ray.wait(refs, num_returns=len(refs), timeout=0.1)
        if ended or time.monotonic() - self._collected_at >= COLLECT_EVERY:
            self._collected_at = time.monotonic()
            # Before the ends below: the last message of a task must reach the command first.
            for job, message in self._ray.get(self._mailbox.collect.remote()).items():
                self._wire.send({**message, "from": job})
        for job in [job for job, ref in self._tasks.items() if ref in ended]:
            reason = self._how_it_ended(self._tasks.pop(job))
            self._mailbox.forget.remote(job)
            self._wire.send({"gone": job, "reason": reason})

    def _how_it_ended(self, ref: Any) -> str:
        try:
            return reason_of(self._ray.get(ref))
        except self._ray.exceptions.RayError as error:
            return self._describe(error)

    def _describe(self, error: Exception) -> str:
        errors = self._ray.exceptions
        descriptions = {
            errors.TaskCancelledError: "its task was cancelled",
            errors.OutOfMemoryError: "Ray ended its task because its node ran out of memory",
            errors.NodeDiedError: "its node died",
            errors.WorkerCrashedError: "its node, or its process there, died",
        }
        for kind, description in descriptions.items():
            if isinstance(error, kind):
                return description
        if isinstance(error, errors.RayTaskError):
            return f"its task failed: {last_line(str(error))}"
        return f"Ray lost its task: {last_line(str(error))}"


def reason_of(report: Mapping[str, Any]) -> str:
    """How the worker of a job ended, as text for a message."""
    code, message = report["code"], last_line(report["tail"])
    if code == 0:
        return "its worker had nothing left to do"
    how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
    return f"its worker {how}" + (f": {message}" if message else "")


def last_line(text: str) -> str:
    """The last line that is not empty, shortened."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def main(descriptor: int, settings: Message) -> None:
    """Connect to a cluster, or start one, and serve the command until the wire ends."""
    wire, commands = Wire(descriptor), queue.SimpleQueue[Message | None]()
    reader = threading.Thread(target=_read, args=(wire, commands), daemon=True)
    reader.start()
    try:
        with cluster(settings) as (ray, is_client):
            bridge = Bridge(ray, wire, is_client=is_client)
            wire.send({"ready": True, **_resources(ray)})
            _serve(bridge, commands)
    except OSError:
        # The command has died: there is no one to report to.
        return


def _serve(bridge: Bridge, commands: "queue.SimpleQueue[Message | None]") -> None:
    while True:
        with suppress(queue.Empty):
            while True:
                command = commands.get(timeout=0.05)
                if command is None:
                    return
                bridge.obey(command)
        bridge.look()


def _read(wire: Wire, commands: "queue.SimpleQueue[Message | None]") -> None:
    """Read in a separate thread, so that the command never waits for a busy bridge."""
    with suppress(EOFError, OSError):
        while (message := wire.receive(None)) is not None:
            commands.put(message)
    commands.put(None)


@contextmanager
def cluster(settings: Mapping[str, Any]) -> Iterator[tuple[Any, bool]]:
    """Connect to the cluster at `address`, or start one of `cores` on this machine."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    if settings["address"] is None:
        # Ray's own default, set here to avoid its warning; Ray reads it when it is imported.
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    logging.getLogger("ray").setLevel(logging.CRITICAL)
    import ray

    quiet = {"log_to_driver": False, "logging_level": "critical"}
    address = settings["address"]
    if address is not None:
        ray.init(address=address, **quiet)
        try:
            yield ray, address.startswith("ray://")
        finally:
            ray.shutdown()
        return
    parent = tempfile.gettempdir() if len(tempfile.gettempdir()) < SHORT else "/tmp"  # noqa: S108
    with scratch(PREFIX, Path(parent)) as (folder, _):
        limits = {"include_dashboard": False, "object_store_memory": OBJECTS}
        cores = settings["cores"]
        ray.init(address="local", num_cpus=cores, _temp_dir=str(folder), **limits, **quiet)
        try:
            yield ray, False
        finally:
            ray.shutdown()


def _here(ray: Any) -> Any:
    """Schedules the mailbox on the node of this process, so that both die together only."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)


def _resources(ray: Any) -> Message:
    nodes = [n["Resources"] for n in ray.nodes() if n["Alive"]]
    return {"nodes": [{k: float(v) for k, v in resources.items()} for resources in nodes]}


if __name__ == "__main__":
    main(int(sys.argv[1]), json.loads(sys.argv[2]))
