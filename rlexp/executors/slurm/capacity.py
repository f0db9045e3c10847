"""What the nodes of a Slurm cluster have, and requests that no node can ever meet."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from rlexp.errors import ExecutorError, RefusedRequestError, did_you_mean
from rlexp.executors.slurm.client import slurm_output

COLUMNS = "%P|%c|%m|%G"
"""Partition, cores, memory in megabytes, and generic resources of each kind of node."""
DEFAULT = "*"
"""The mark after the name of the default partition."""
GPUS = re.compile(r"gpu:(?:([\w.-]+):)?(\d+)", re.ASCII)
MEGABYTES = {"K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2}


@dataclass(frozen=True, slots=True)
class Node:
    """One kind of node of a partition.

    Attributes:
        partition: Name of the partition.
        is_default: Whether it is the partition of jobs that name none.
        cpus: Cores.
        memory: Memory in megabytes; infinite where the administrator has not set it.
        gpus: Number of GPUs by their type; an empty type where none is set.
    """

    partition: str
    is_default: bool
    cpus: int
    memory: float
    gpus: Mapping[str, int]

    def gpus_of(self, kind: str) -> int:
        """The number of GPUs of a type; of all types where it is empty."""
        return self.gpus.get(kind, 0) if kind else sum(self.gpus.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a job asks for.

    Attributes:
        partition: One partition, or several with commas; None for the default one.
        cpus: Cores.
        memory: Memory as sbatch reads it, such as `4G`; None for the cluster's default.
        gpus: A number, or `type:number`.
    """

    partition: str | None
    cpus: int
    memory: str | None
    gpus: str

    @property
    def megabytes(self) -> float:
        """The memory in megabytes; 0 for the cluster's default."""
        if self.memory is None:
            return 0.0
        unit = self.memory[-1] if self.memory[-1] in MEGABYTES else "M"
        return float(self.memory.rstrip("KMGT")) * MEGABYTES[unit]

    @property
    def gpu_type(self) -> str:
        """The type of the GPUs; empty for any."""
        return self.gpus.rpartition(":")[0]

    @property
    def gpu_count(self) -> int:
        """The number of GPUs."""
        return int(self.gpus.rpartition(":")[2])

    def check(self, nodes: Sequence[Node]) -> None:
        """Refuse a request that none of the nodes can meet; without nodes, every request passes.

        Raises:
            RefusedRequestError: Names the setting, and what the nodes have.
        """
        if not nodes:
            return
        offered = self._offered(nodes)
        self._limit("cpus", self.cpus, offered, lambda node: node.cpus)
        self._limit("memory", self.megabytes, offered, lambda node: node.memory, " MB")
        self._limit("gpus", self.gpu_count, offered, lambda node: node.gpus_of(self.gpu_type))
        if not any(self._fits(node) for node in offered):
            raise RefusedRequestError(
                f"no node of {self._place} has {self.cpus} cores, {self.megabytes:g} MB and "
                f"executor.gpus={self.gpus} together; lower executor.cpus, executor.memory or "
                "executor.gpus"
            )

    @property
    def _place(self) -> str:
        return f"partition {self.partition}" if self.partition else "the default partition"

    def _offered(self, nodes: Sequence[Node]) -> list[Node]:
        """The nodes of the request's partitions."""
        if self.partition is None:
            return [node for node in nodes if node.is_default] or list(nodes)
        names = sorted({node.partition for node in nodes})
        for name in self.partition.split(","):
            if name not in names:
                raise RefusedRequestError(
                    f"executor.partition={name!r} is no partition of this cluster; partitions "
                    f"here: {', '.join(names)}{did_you_mean(name, names)}; set executor.partition"
                )
        return [node for node in nodes if node.partition in self.partition.split(",")]

    def _limit(
        self,
        setting: str,
        asked: float,
        nodes: Sequence[Node],
        value: Callable[[Node], float],
        unit: str = "",
    ) -> None:
        most = max(map(value, nodes))
        if asked > most:
            kind = f" of type {self.gpu_type}" if setting == "gpus" and self.gpu_type else ""
            raise RefusedRequestError(
                f"no node of {self._place} has {asked:g}{unit} of executor.{setting}{kind}, and "
                f"such a job would wait for ever; lower executor.{setting} to {most:g}{unit} or "
                "less, or set another executor.partition"
            )

    def _fits(self, node: Node) -> bool:
        enough = node.cpus >= self.cpus and node.memory >= self.megabytes
        return enough and node.gpus_of(self.gpu_type) >= self.gpu_count


def read_nodes() -> list[Node]:
    """The kinds of nodes that `sinfo` knows; none where it does not answer."""
    try:
        return parse_nodes(slurm_output("sinfo", "-a", "-h", "-e", "-o", COLUMNS))
    except ExecutorError:
        return []


def parse_nodes(text: str) -> list[Node]:
    """Parse lines of `partition|cores|megabytes|resources`; other lines are skipped."""
    nodes = []
    for line in text.splitlines():
        name, *numbers, resources = [*line.strip().split("|"), "", "", ""][:4]
        if all(number.isdecimal() for number in numbers):
            cpus, memory = map(int, numbers)
            gpus: dict[str, int] = {}
            for kind, count in GPUS.findall(resources):
                gpus[kind] = gpus.get(kind, 0) + int(count)
            # A node without a configured memory is listed with 1 MB.
            usable = memory if memory > 1 else inf
            nodes.append(Node(name.rstrip(DEFAULT), name.endswith(DEFAULT), cpus, usable, gpus))
    return nodes
