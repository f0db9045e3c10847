"""The process that talks with Ray, which may end any process that does: never the command itself.

Its input is a wire to the command. When that ends, so does everything that it started.
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

from rlexp.executors.ray import node
from rlexp.executors.ray.messages import Mailbox, Message, Wire
from rlexp.executors.ray.scratch import scratch

PREFIX = "rlexp-ray-"
SHORT = 30
"""Characters that the folder of temporary files may have: sockets lie deep below it."""
COLLECT_EVERY = 0.4
OBJECTS = 256 << 20
"""Bytes of memory for what travels within a cluster of our own; more goes to its disk."""


class Bridge:
    """Tasks in Ray, by the key of their job."""

    def __init__(self, ray: Any, wire: Wire, *, is_client: bool) -> None:
        self._ray = ray
        self._wire = wire
        self._tasks: dict[str, Any] = {}
        self._task = ray.remote(node.work)
        self._collected_at = 0.0
        options: dict[str, Any] = {"num_cpus": 0, "max_restarts": 0}
        if not is_client:
            options["scheduling_strategy"] = _here(ray)
        self._mailbox = ray.remote(Mailbox).options(**options).remote()

    def obey(self, command: Message) -> None:
        """Do what the command asks."""
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
        """Pass on what came, and what ended."""
        ended = []
        if self._tasks:
            refs = list(self._tasks.values())
            ended, _ = self._ray.wait(refs, num_returns=len(refs), timeout=0.1)
        if ended or time.monotonic() - self._collected_at >= COLLECT_EVERY:
            self._collected_at = time.monotonic()
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
            return self._in_words(error)

    def _in_words(self, error: Exception) -> str:
        errors = self._ray.exceptions
        known = {
            errors.TaskCancelledError: "it was withdrawn",
            errors.OutOfMemoryError: "Ray ended it, for its node ran out of memory",
            errors.NodeDiedError: "its node died",
            errors.WorkerCrashedError: "its node, or its process there, died",
        }
        for kind, words in known.items():
            if isinstance(error, kind):
                return words
        if isinstance(error, errors.RayTaskError):
            return f"its task failed: {last_line(str(error))}"
        return f"Ray lost it: {last_line(str(error))}"


def reason_of(report: Mapping[str, Any]) -> str:
    """How a job ended whose worker did, in words."""
    code, said = report["code"], last_line(report["tail"])
    if code == 0:
        return "its worker had nothing left to do"
    how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
    return f"its worker {how}" + (f": {said}" if said else "")


def last_line(text: str) -> str:
    """The last line that says something, shortened."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def main(descriptor: int, settings: Message) -> None:
    """Connect to a cluster, or start one, and do what comes over the wire until it ends."""
    wire, commands = Wire(descriptor), queue.SimpleQueue[Message | None]()
    reader = threading.Thread(target=_read, args=(wire, commands), daemon=True)
    reader.start()
    try:
        with cluster(settings) as (ray, is_client):
            bridge = Bridge(ray, wire, is_client=is_client)
            wire.send({"ready": True, **_resources(ray)})
            _serve(bridge, commands)
    except OSError:
        # Nobody is at the other end.
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
    """Read at all times, so that the command never waits until it is read."""
    with suppress(EOFError, OSError):
        while (message := wire.receive(None)) is not None:
            commands.put(message)
    commands.put(None)


@contextmanager
def cluster(settings: Mapping[str, Any]) -> Iterator[tuple[Any, bool]]:
    """Connect to the cluster at `address`, or start one of `cores` on this machine."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    if settings["address"] is None:
        # Without a word, Ray would do the same and print a warning. It is read with the import.
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
        own = {"include_dashboard": False, "object_store_memory": OBJECTS}
        cores = settings["cores"]
        ray.init(address="local", num_cpus=cores, _temp_dir=str(folder), **own, **quiet)
        try:
            yield ray, False
        finally:
            ray.shutdown()


def _here(ray: Any) -> Any:
    """The node of this process: a mailbox elsewhere could die without it."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)


def _resources(ray: Any) -> Message:
    nodes = [n["Resources"] for n in ray.nodes() if n["Alive"]]
    return {"nodes": [{k: float(v) for k, v in resources.items()} for resources in nodes]}


if __name__ == "__main__":
    main(int(sys.argv[1]), json.loads(sys.argv[2]))
