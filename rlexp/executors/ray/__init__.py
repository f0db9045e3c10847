"""Executes runs as tasks of a Ray cluster, each of which starts a worker on its node."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt

from rlexp.errors import ExecutorError
from rlexp.executors import Site
from rlexp.executors.ray.session import DETACHED, RaySession
from rlexp.installation_way import install_command
from rlexp.store.provenance import usable_cores

ELSEWHERE = 16
"""Number of jobs at the same time on an existing cluster, whose size is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ray:
    """Executes runs as Ray tasks, on an existing cluster or on one started for the command."""

    address: str | None
    jobs: Annotated[int, Ge(1)] | Literal["auto"]
    runs_per_job: Annotated[int, Ge(1)]
    cpus: Annotated[float, Gt(0)] | None
    gpus: Annotated[float, Ge(0)]
    memory: Annotated[int, Ge(1)] | None
    resources: Mapping[str, Annotated[float, Gt(0)]]
    shared: bool | Literal["auto"]
    return_every: Annotated[float, Gt(0)]
    grace: Annotated[float, Gt(0)]

    def workers_for(self, threads: int) -> int:
        """The number of dispatched runs: the setting, or what fills a cluster of this machine."""
        return self._jobs(threads) * self.runs_per_job

    def check_detached(self) -> None:
        """Refuse: no Ray task goes on without its command.

        Raises:
            ExecutorError: Always; the message says what to do instead.
        """
        raise ExecutorError(DETACHED)

    @contextmanager
    def dispatch(self, site: Site) -> Iterator[RaySession]:
        """Connect to the cluster, or start one.

        Raises:
            ExecutorError: Ray is not installed, the cluster does not answer, or this machine
                lacks the resources of a run.
        """
        if find_spec("ray") is None:
            raise ExecutorError.missing_package("Ray is not installed", install_command("ray"))
        session = RaySession(
            site,
            cluster={"address": self.address, "cores": usable_cores()},
            options=self._options(site.threads),
            letter={
                "shared": self.shared,
                "return_every": self.return_every,
                "grace": self.grace,
            },
            slots=self.workers_for(site.threads),
        )
        try:
            self._check(session.nodes, site.threads)
            yield session
        finally:
            session.close()

    def cancel(self, jobs: Path) -> int:  # noqa: ARG002 (the contract's)
        """Return 0: no Ray task outlives its command."""
        return 0

    def _jobs(self, threads: int) -> int:
        if self.jobs != "auto":
            return self.jobs
        if self.address is not None:
            return ELSEWHERE
        return max(1, int(usable_cores() / (self.cpus or threads)))

    def _options(self, threads: int) -> dict[str, Any]:
        """The resources of a task. Ray itself never retries a task: rlexp decides about retries."""
        options: dict[str, Any] = {
            "num_cpus": self.cpus or threads,
            "num_gpus": self.gpus,
            "max_retries": 0,
            "scheduling_strategy": "SPREAD",
        }
        if self.memory is not None:
            options["memory"] = self.memory
        if self.resources:
            options["resources"] = dict(self.resources)
        return options

    def _check(self, nodes: list[dict[str, float]], threads: int) -> None:
        """Check that a cluster of this machine has the resources of a run."""
        # An existing cluster may grow: there, a task waits for resources.
        if self.address is not None:
            return
        requested = {"CPU": self.cpus or threads, "GPU": self.gpus, "memory": self.memory or 0}
        for name, amount in {**requested, **self.resources}.items():
            available = max((node.get(name, 0.0) for node in nodes), default=0.0)
            if amount > available:
                raise ExecutorError(
                    f"a run asks for {amount:g} {name}, of which this machine has {available:g}: "
                    "ask for less, or set executor.address to a cluster that has it"
                )
