"""The command's side: which jobs are out, what came back of them, and what they are told."""

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
from rlexp.executors.ray.intake import Intake
from rlexp.executors.ray.messages import Message, Piece, pack, pair, read_below
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.lease import Held, take

OF_THE_EXPERIMENT = ("experiment.json", "trials.jsonl", "selection.json", "adaptive.json")
OF_THE_RUN = ("spec.json", "attempts", "checkpoints", "replay")
LEFT_BEHIND = frozenset({"log.txt", "files", "progress.bin"})
"""Of earlier attempts: nothing is continued from these."""


def baggage(experiment: ExperimentPaths, runs: Iterable[RunPaths]) -> Iterator[Piece]:
    """The files that runs are executed from: definition, orders, attempts, checkpoints."""
    names = list(OF_THE_EXPERIMENT)
    for run in runs:
        names.append(f"{experiment.orders.name}/{run.folder.name}.json")
        for word in OF_THE_RUN:
            names += _files(experiment.folder, f"{run.folder.name}/{word}")
    for name in names:
        piece = read_below(experiment.folder, name)
        if piece is not None:
            yield piece


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
class Out:
    """A job that is out.

    Attributes:
        begun: Whether it has said that it runs.
        intakes: Its runs that are executed apart from our folder, whose claims are held here.
        stops: The last request to stop that each of them was told.
        refusal: What of it was refused.
    """

    batch: Batch
    begun: bool = False
    intakes: dict[str, Intake] = field(default_factory=dict)
    claims: list[Held] = field(default_factory=list)
    stops: dict[str, str] = field(default_factory=dict)
    refusal: str | None = None


def take_run(out: Out, paths: RunPaths) -> bool:
    """Take a run for a node: its claim, and its lease, by which it is seen to be alive.

    Returns:
        Whether both were free.
    """
    held = list[Held]()
    for path in (paths.claim, paths.lease):
        lease = take(path, f"run {paths.folder.name}", now=time.time())
        if lease is None:
            for one in held:
                one.release()
            return False
        held.append(lease)
    out.claims += held
    return True


def asked_of(paths: RunPaths) -> str:
    """The request to stop in a run's folder, or nothing."""
    try:
        return paths.stop.read_text()
    except (OSError, ValueError):
        return ""


START_LIMIT = 120.0
"""Seconds that a cluster may take to answer."""
END_LIMIT = 10.0
"""Seconds that a cluster of our own gets to end."""
SAID = 240
"""Characters of what went wrong that are repeated."""


class Link:
    """Starts the process; when the link is closed, or this process dies, it ends.

    Args:
        cluster: What `rlexp.executors.ray.bridge.cluster` needs to know.
        log: A file for what Ray prints.

    Raises:
        ExecutorError: The cluster does not answer, or cannot be started.
    """

    def __init__(self, cluster: Mapping[str, Any], log: Path) -> None:
        self._log = log
        self._address = cluster["address"]
        self._wire, descriptor = pair()
        words = [sys.executable, "-P", "-m", "rlexp.executors.ray.bridge", str(descriptor)]
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [*words, json.dumps(dict(cluster))],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(descriptor,),
            )
        os.close(descriptor)
        try:
            self.nodes = self._await_ready()
        except BaseException:
            self._process.kill()
            self.close()
            raise

    @property
    def is_up(self) -> bool:
        """Whether the process lives."""
        return self._process.poll() is None

    def send(self, message: Message) -> None:
        """Tell it something; that nobody is there is found when it is listened to."""
        with suppress(OSError):
            self._wire.send(message)

    def receive(self, seconds: float) -> Message | None:
        """What it says within so many seconds, if anything.

        Raises:
            EOFError: It is gone.
            OSError: The same, in the middle of a message.
        """
        return self._wire.receive(max(0.0, seconds))

    def close(self) -> None:
        """End it, and with it a cluster of our own."""
        self._wire.close()
        try:
            self._process.wait(END_LIMIT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def last_words(self) -> str:
        """The last line that it printed, which is the message of an exception."""
        code = self._process.wait()
        with suppress(OSError):
            text = self._log.read_bytes()[-20_000:].decode(errors="replace")
            lines = [line.strip() for line in text.splitlines() if line.strip()]
            if lines:
                return lines[-1][:SAID].rstrip(". ")
        return f"its process ended with code {code}"

    def _await_ready(self) -> list[dict[str, float]]:
        """The resources of each node, once there is a cluster."""
        deadline = time.monotonic() + START_LIMIT
        while time.monotonic() < deadline:
            try:
                message = self.receive(0.2)
            except (EOFError, OSError) as error:
                raise self._failure(self.last_words()) from error
            if message is not None:
                return list(message["nodes"])
        raise self._failure(f"it did not answer within {START_LIMIT:g} s")

    def _failure(self, reason: str) -> ExecutorError:
        own = self._address is None
        what = "a Ray cluster of its own" if own else f"the Ray cluster at {self._address}"
        return ExecutorError(
            f"{what} cannot be used: {reason}; see {self._log}, and executor.address"
        )


ASK_EVERY = 1.0
LOG = "ray.log"
OURS = "ray-"
"""What the names of files begin with that are removed with their jobs."""
DETACHED = (
    "Ray ends tasks with the command that asked for them: give the command inside tmux, "
    "or use executor=slurm or executor=pull"
)
"""Why no task outlives its command, and what to do instead."""


class RaySession:
    """Jobs as tasks of a cluster, by way of a process that talks with it."""

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
        self._token_file = site.jobs / f"{OURS}{uuid4().hex[:12]}.token"
        self._letter = {**letter, **self._of_the_site(), "token": uuid4().hex}
        self._out: dict[str, Out] = {}
        self._lost: list[Gone] = []
        self._asked_at = 0.0
        self._link = self._open()

    def _of_the_site(self) -> Message:
        return {
            "worker": list(self._site.worker),
            "folder": str(self._site.folder),
            "variables": dict(self._site.variables),
            "experiment": str(self._site.experiment),
            "token_file": str(self._token_file.absolute()),
        }

    def _open(self) -> Link:
        self._site.jobs.mkdir(parents=True, exist_ok=True)
        if not self._out:
            # No task outlived the command that wrote these.
            for left in self._site.jobs.glob(f"{OURS}*"):
                left.unlink(missing_ok=True)
        self._token_file.write_text(self._letter["token"])
        return Link(self._cluster, self._site.jobs / LOG)

    @property
    def nodes(self) -> list[dict[str, float]]:
        """The resources of each node, as Ray names them."""
        return self._link.nodes

    def known(self) -> list[Batch]:
        """None: Ray ends tasks with the command that asked for them."""
        return []

    def submit(self, batches: Sequence[Batch]) -> None:
        """Start a task for each batch.

        Raises:
            ExecutorError: The cluster cannot be reached any more, nor again.
        """
        if not self._link.is_up:
            self._lose_all()
            self._link.close()
            self._link = self._open()
        for batch in batches:
            self._list(batch).write_text("".join(f"{run}\n" for run in batch.runs))
            self._out[batch.key] = Out(batch)
            letter = {**self._letter, "job": batch.key, "list": str(self._list(batch).absolute())}
            name = f"rlexp {self._experiment.name} {batch.key}"
            options = {**self._options, "name": name}
            self._link.send({"do": "submit", "letter": letter, "options": options})

    def poll(self, seconds: float) -> list[Gone]:
        """Wait up to so many seconds for jobs to end; takes in what came back meanwhile."""
        deadline, gone = time.monotonic() + seconds, self._lost
        self._lost = []
        while not gone:
            self._ask_to_stop()
            try:
                message = self._link.receive(deadline - time.monotonic())
            except (EOFError, OSError):
                return self._end_of_the_wire(deadline)
            if message is None:
                break
            gone += self._handle(message)
        return gone

    def _end_of_the_wire(self, deadline: float) -> list[Gone]:
        """The process that talked with Ray is gone: with it, every task."""
        self._lose_all()
        gone, self._lost = self._lost, []
        if not gone:
            time.sleep(max(0.0, deadline - time.monotonic()))
        return gone

    def reason(self, key: str) -> None:
        """Ray does not say why a task waits."""
        del key

    def stop(self) -> None:
        """Ask every job to end itself, and withdraw those that wait."""
        for key in self._out:
            self._link.send({"do": "stop", "job": key})
        self._cancel([key for key, out in self._out.items() if not out.begun], force=False)

    def kill(self) -> None:
        """End every job."""
        for key in self._out:
            self._link.send({"do": "kill", "job": key})
        deadline = time.monotonic() + 3.0
        while self._out and time.monotonic() < deadline:
            self.poll(0.2)
        self._cancel(list(self._out), force=True)
        for key in list(self._out):
            self._finish(key)

    def leave(self) -> None:
        """They cannot go on.

        Raises:
            ExecutorError: Always; says what to do instead.
        """
        raise ExecutorError(DETACHED)

    def close(self) -> None:
        """End what is out, and the connection; of our own cluster, every process."""
        for key in list(self._out):
            self._finish(key)
        self._link.close()
        with suppress(OSError):
            self._token_file.unlink()

    def _handle(self, message: Message) -> list[Gone]:
        if "gone" in message:
            key = message["gone"]
            refusal = self._finish(key)
            reason = message["reason"] if refusal is None else f"{message['reason']}; {refusal}"
            return [Gone(key, reason)]
        out = self._out.get(message["from"])
        if out is None:
            return []
        if "begun" in message:
            out.begun = True
            if not message["shared"]:
                self._guarded(out, lambda: self._send_baggage(out))
        elif message["run"] in out.intakes and out.refusal is None:
            intake = out.intakes[message["run"]]
            self._guarded(out, lambda: intake.take_in(message["parcel"], message.get("kept")))
        return []

    def _guarded(self, out: Out, act: Callable[[], None]) -> None:
        """Do something for a job, which ends where that cannot be done."""
        try:
            act()
        except (OSError, RecordError) as error:
            out.refusal = str(error)
            self._link.send({"do": "kill", "job": out.batch.key})

    def _send_baggage(self, out: Out) -> None:
        """Claim the runs of a job that does not see our folder, and send what they need."""
        for run in out.batch.runs:
            paths = self._experiment.run(run)
            if not take_run(out, paths):
                continue
            # As any attempt takes back what was asked of the one before.
            paths.stop.unlink(missing_ok=True)
            attempts = paths.attempts()
            before = attempts[-1].number if attempts else 0
            out.intakes[run] = Intake(paths, out.batch.key, before)
        runs = [self._experiment.run(run) for run in out.intakes]
        parcel = pack(baggage(self._experiment, runs))
        message = {"do": "begin", "runs": list(out.intakes), "parcel": parcel}
        self._link.send({**message, "job": out.batch.key})

    def _ask_to_stop(self) -> None:
        """Pass on what was asked of runs that do not see our folder."""
        if time.monotonic() - self._asked_at < ASK_EVERY:
            return
        self._asked_at = time.monotonic()
        for key, out in self._out.items():
            for run in out.intakes:
                text = asked_of(self._experiment.run(run))
                if text and out.stops.get(run) != text:
                    out.stops[run] = text
                    self._link.send({"do": "ask", "job": key, "run": run, "stop": text})

    def _finish(self, key: str) -> str | None:
        """Let go of a job that is gone; says what of it was refused."""
        out = self._out.pop(key, None)
        if out is None:
            return None
        for claim in out.claims:
            claim.release()
        with suppress(OSError):
            self._list(out.batch).unlink()
        return out.refusal

    def _lose_all(self) -> None:
        if not self._out:
            return
        reason = f"the connection to Ray was lost: {self._link.last_words()}"
        for key in list(self._out):
            self._finish(key)
            self._lost.append(Gone(key, reason))

    def _cancel(self, jobs: list[str], *, force: bool) -> None:
        if jobs:
            self._link.send({"do": "cancel", "jobs": jobs, "force": force})

    def _list(self, batch: Batch) -> Path:
        return self._site.jobs / f"{OURS}{batch.key}.runs"
