"""A session of the Ray executor, on the side of the command.

`uploaded_files` are the files that a node without the command's folder needs. `BridgeClient` starts
the bridge process that talks with Ray. `RaySession` submits jobs, writes the files that come back,
and passes stop requests on.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from rlexp.errors import ExecutorError, RecordError
from rlexp.executors import Batch, Gone, Site
from rlexp.executors.ray.messages import Message, Piece, pack, pair, read_below
from rlexp.executors.ray.result_writer import Intake
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.locks.lease import Lease, take

OF_THE_EXPERIMENT = (
    *("experiment.json", "trials.jsonl", "selection.json"),
    *("adaptive.json", "ablation.json"),
)
OF_THE_RUN = ("spec.json", "attempts", "checkpoints", "replay", "parent")
LEFT_BEHIND = frozenset({"log.txt", "files", "progress.bin"})
"""Files of earlier attempts that are not sent: no attempt continues from them."""


def uploaded_files(experiment: ExperimentPaths, runs: Iterable[RunPaths]) -> Iterator[Piece]:
    """The files that a worker needs: definitions, queue files, attempts and checkpoints."""
    names = [*OF_THE_EXPERIMENT, *_policies(experiment)]
    for run in runs:
        names.append(f"{experiment.orders.name}/{run.folder.name}.json")
        for name in OF_THE_RUN:
            names += _files(experiment.folder, f"{run.folder.name}/{name}")
    for name in names:
        piece = read_below(experiment.folder, name)
        if piece is not None:
            yield piece


def _policies(experiment: ExperimentPaths) -> Iterator[str]:
    """The files of the policies and transitions that trainings begin with."""
    for folder in (experiment.policies, experiment.prior_data, experiment.experience):
        if folder.is_dir():
            yield from _files(experiment.folder, folder.name)


def _files(folder: Path, name: str) -> Iterator[str]:
    path = folder / name
    if path.is_symlink() or path.name in LEFT_BEHIND:
        return
    if not path.is_dir():
        yield name
        return
    for inner in sorted(os.listdir(path)):  # noqa: PTH208 (names are enough)
        if not inner.startswith("."):
            yield from _files(folder, f"{name}/{inner}")


@dataclass(slots=True)
class RayJob:
    """A submitted job.

    Attributes:
        batch: The runs of the job.
        begun: Whether its task has reported that it runs.
        intakes: Its runs on a node that does not see the command's folder, by name.
        claims: The claims and leases of these runs, which the command holds for the node.
        stops: The last stop request that was sent for each of these runs.
        refusal: Why files of the job were refused; None if none were.
    """

    batch: Batch
    begun: bool = False
    intakes: dict[str, Intake] = field(default_factory=dict)
    claims: list[Lease] = field(default_factory=list)
    stops: dict[str, str] = field(default_factory=dict)
    refusal: str | None = None


def take_run(job: RayJob, paths: RunPaths) -> bool:
    """Take the claim and the lease of a run on behalf of a node.

    Returns:
        Whether both were free; otherwise neither is held.
    """
    # A node without the folder cannot hold them itself. The lease marks the run as alive.
    held = list[Lease]()
    for path in (paths.claim, paths.lease):
        lease = take(path, f"run {paths.folder.name}", now=time.time())
        if lease is None:
            for other in held:
                other.release()
            return False
        held.append(lease)
    job.claims += held
    return True


def stop_request(paths: RunPaths) -> str:
    """The stop request in a run's folder as text; empty without one."""
    try:
        return paths.stop.read_text()
    except (OSError, ValueError):
        return ""


START_LIMIT = 120.0
"""Seconds that a cluster may take to start or answer."""
END_LIMIT = 10.0
"""Seconds that the bridge process gets to end, with a cluster that it started."""
LONGEST_MESSAGE = 240
"""Most characters of an error of Ray that are repeated."""


class BridgeClient:
    """Starts the bridge process, which ends when this object is closed or this process dies.

    Args:
        cluster: Settings for `rlexp.executors.ray.bridge.cluster`.
        log: A file for the output of Ray.

    Raises:
        ExecutorError: The cluster does not answer, or cannot be started.
    """

    def __init__(self, cluster: Mapping[str, Any], log: Path) -> None:
        self._log = log
        self._address = cluster["address"]
        self._wire, descriptor = pair()
        command = [sys.executable, "-P", "-m", "rlexp.executors.ray.bridge", str(descriptor)]
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [*command, json.dumps(dict(cluster))],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(descriptor,),
            )
        # Held here as well, the other end would never close when the bridge dies.
        os.close(descriptor)
        try:
            self.nodes = self._await_ready()
        except BaseException:
            self._process.kill()
            self.close()
            raise

    @property
    def is_up(self) -> bool:
        """Whether the bridge process is alive."""
        return self._process.poll() is None

    def send(self, message: Message) -> None:
        """Send a message to the bridge."""
        # A dead bridge shows at the next `receive`, which handles it in one place.
        with suppress(OSError):
            self._wire.send(message)

    def receive(self, seconds: float) -> Message | None:
        """The next message of the bridge; None if none comes within `seconds`.

        Raises:
            EOFError: The bridge has ended.
            OSError: The bridge has ended in the middle of a message.
        """
        return self._wire.receive(max(0.0, seconds))

    def close(self) -> None:
        """End the bridge, and a cluster that it started."""
        self._wire.close()
        try:
            self._process.wait(END_LIMIT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def last_output_line(self) -> str:
        """The last line of the bridge's output, which usually is the message of an exception."""
        code = self._process.wait()
        with suppress(OSError):
            text = self._log.read_bytes()[-20_000:].decode(errors="replace")
            lines = [line.strip() for line in text.splitlines() if line.strip()]
            if lines:
                return lines[-1][:LONGEST_MESSAGE].rstrip(". ")
        return f"its process ended with code {code}"

    def _await_ready(self) -> list[dict[str, float]]:
        """Wait for the cluster; returns the resources of each node."""
        deadline = time.monotonic() + START_LIMIT
        while time.monotonic() < deadline:
            try:
                message = self.receive(0.2)
            except (EOFError, OSError) as error:
                raise self._failure(self.last_output_line()) from error
            if message is not None:
                return list(message["nodes"])
        raise self._failure(f"it did not answer within {START_LIMIT:g} s")

    def _failure(self, reason: str) -> ExecutorError:
        existing = f"the Ray cluster at {self._address}"
        what = "a new Ray cluster on this machine" if self._address is None else existing
        return ExecutorError(
            f"{what} cannot be used: {reason}; see {self._log}, and executor.address"
        )


ASK_EVERY = 1.0
LOG = "ray.log"
FILE_PREFIX = "ray-"
"""Prefix of the files that are removed with their jobs."""
DETACHED = (
    "Ray ends tasks with the command that submitted them: give the command inside tmux, "
    "or use executor=slurm or executor=pull"
)
"""Error of `--detach`: why it is impossible, and what to do instead."""


class RaySession:
    """Submits jobs as Ray tasks, through a bridge process."""

    def __init__(
        self,
        site: Site,
        *,
        cluster: Mapping[str, Any],
        options: Mapping[str, Any],
        letter: Mapping[str, Any],
        slots: int,
    ) -> None:
        self.slots = slots
        self.trouble: str | None = None
        self._site = site
        self._cluster = dict(cluster)
        self._options = dict(options)
        self._experiment = ExperimentPaths(site.experiment)
        self._token_file = site.jobs / f"{FILE_PREFIX}{uuid4().hex[:12]}.token"
        self._letter = {**letter, **self._of_the_site(), "token": uuid4().hex}
        self._jobs: dict[str, RayJob] = {}
        self._lost: list[Gone] = []
        self._asked_at = 0.0
        self._bridge = self._open_bridge()

    def _of_the_site(self) -> Message:
        return {
            "worker": list(self._site.worker),
            "folder": str(self._site.folder),
            "variables": dict(self._site.variables),
            "experiment": str(self._site.experiment),
            "token_file": str(self._token_file.absolute()),
        }

    def _open_bridge(self) -> BridgeClient:
        self._site.jobs.mkdir(parents=True, exist_ok=True)
        if not self._jobs:
            # Files of earlier commands: no task outlived them.
            for path in self._site.jobs.glob(f"{FILE_PREFIX}*"):
                path.unlink(missing_ok=True)
        self._token_file.write_text(self._letter["token"])
        return BridgeClient(self._cluster, self._site.jobs / LOG)

    @property
    def nodes(self) -> list[dict[str, float]]:
        """The resources of each node, as Ray names them."""
        return self._bridge.nodes

    def earlier_jobs(self) -> list[Batch]:
        """Return no jobs: Ray ends tasks with the command that submitted them."""
        return []

    def submit(self, batches: Sequence[Batch]) -> None:
        """Start a task for each batch.

        Raises:
            ExecutorError: The connection was lost, and the cluster cannot be reached again.
        """
        if not self._bridge.is_up:
            self._lose_all()
            self._bridge.close()
            self._bridge = self._open_bridge()
        for batch in batches:
            self._list(batch).write_text("".join(f"{run}\n" for run in batch.runs))
            self._jobs[batch.key] = RayJob(batch)
            letter = {**self._letter, "job": batch.key, "list": str(self._list(batch).absolute())}
            name = f"rlexp {self._experiment.name} {batch.key}"
            options = {**self._options, "name": name}
            self._bridge.send({"do": "submit", "letter": letter, "options": options})

    def poll(self, seconds: float) -> list[Gone]:
        """Wait up to `seconds` for a job to end; writes the files that come back meanwhile."""
        deadline, gone = time.monotonic() + seconds, self._lost
        self._lost = []
        while not gone:
            self._ask_to_stop()
            try:
                message = self._bridge.receive(deadline - time.monotonic())
            except (EOFError, OSError):
                return self._bridge_ended(deadline)
            if message is None:
                break
            gone += self._handle(message)
        return gone

    def _bridge_ended(self, deadline: float) -> list[Gone]:
        """The jobs that ended with the bridge process, which are all."""
        self._lose_all()
        gone, self._lost = self._lost, []
        if not gone:
            time.sleep(max(0.0, deadline - time.monotonic()))
        return gone

    def reason(self, key: str) -> None:
        """Return None: Ray does not say why a task waits."""
        del key

    def stop(self) -> None:
        """Ask every job to end itself, and cancel waiting jobs."""
        for key in self._jobs:
            self._bridge.send({"do": "stop", "job": key})
        self._cancel([key for key, job in self._jobs.items() if not job.begun], force=False)

    def kill(self) -> None:
        """End every job."""
        for key in self._jobs:
            self._bridge.send({"do": "kill", "job": key})
        deadline = time.monotonic() + 3.0
        while self._jobs and time.monotonic() < deadline:
            self.poll(0.2)
        self._cancel(list(self._jobs), force=True)
        for key in list(self._jobs):
            self._finish(key)

    def leave(self) -> None:
        """Refuse: no Ray task goes on without its command.

        Raises:
            ExecutorError: Always; the message says what to do instead.
        """
        raise ExecutorError(DETACHED)

    def close(self) -> None:
        """End all jobs, the bridge process, and a cluster that it started."""
        for key in list(self._jobs):
            self._finish(key)
        self._bridge.close()
        with suppress(OSError):
            self._token_file.unlink()

    def _handle(self, message: Message) -> list[Gone]:
        if "gone" in message:
            key = message["gone"]
            refusal = self._finish(key)
            reason = message["reason"] if refusal is None else f"{message['reason']}; {refusal}"
            return [Gone(key, reason)]
        job = self._jobs.get(message["from"])
        # A late message of a job that has ended: its runs may belong to another job by now.
        if job is None:
            return []
        if "begun" in message:
            job.begun = True
            if not message["shared"]:
                self._guarded(job, lambda: self._upload(job))
        elif message["run"] in job.intakes and job.refusal is None:
            intake = job.intakes[message["run"]]
            self._guarded(job, lambda: intake.take_in(message["parcel"], message.get("kept")))
        return []

    def _guarded(self, job: RayJob, act: Callable[[], None]) -> None:
        """Execute an action for a job; an error ends the job, and not the command."""
        try:
            act()
        except (OSError, RecordError) as error:
            job.refusal = str(error)
            self._bridge.send({"do": "kill", "job": job.batch.key})

    def _upload(self, job: RayJob) -> None:
        """Claim the runs of a job on a node without the command's folder, and send their files."""
        for run in job.batch.runs:
            paths = self._experiment.run(run)
            if not take_run(job, paths):
                continue
            # As at the start of every attempt: an old stop request must not end the new one.
            paths.stop.unlink(missing_ok=True)
            attempts = paths.attempts()
            before = attempts[-1].number if attempts else 0
            job.intakes[run] = Intake(paths, job.batch.key, before)
        runs = [self._experiment.run(run) for run in job.intakes]
        parcel = pack(uploaded_files(self._experiment, runs))
        message = {"do": "begin", "runs": list(job.intakes), "parcel": parcel}
        self._bridge.send({**message, "job": job.batch.key})

    def _ask_to_stop(self) -> None:
        """Send new stop requests to the runs on nodes without the command's folder."""
        if time.monotonic() - self._asked_at < ASK_EVERY:
            return
        self._asked_at = time.monotonic()
        for key, job in self._jobs.items():
            for run in job.intakes:
                text = stop_request(self._experiment.run(run))
                if text and job.stops.get(run) != text:
                    job.stops[run] = text
                    self._bridge.send({"do": "ask", "job": key, "run": run, "stop": text})

    def _finish(self, key: str) -> str | None:
        """Release the claims of an ended job; returns why files of it were refused, if any were."""
        job = self._jobs.pop(key, None)
        if job is None:
            return None
        for claim in job.claims:
            claim.release()
        with suppress(OSError):
            self._list(job.batch).unlink()
        return job.refusal

    def _lose_all(self) -> None:
        if not self._jobs:
            return
        reason = f"the connection to Ray was lost: {self._bridge.last_output_line()}"
        for key in list(self._jobs):
            self._finish(key)
            self._lost.append(Gone(key, reason))

    def _cancel(self, jobs: list[str], *, force: bool) -> None:
        if jobs:
            self._bridge.send({"do": "cancel", "jobs": jobs, "force": force})

    def _list(self, batch: Batch) -> Path:
        return self._site.jobs / f"{FILE_PREFIX}{batch.key}.runs"
