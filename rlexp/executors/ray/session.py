"""The command's side: which jobs are out, what came back of them, and what they are told."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from rlexp.errors import ExecutorError, RecordError
from rlexp.executors import Batch, Gone, Site
from rlexp.executors.ray.baggage import baggage
from rlexp.executors.ray.intake import Intake
from rlexp.executors.ray.link import Link
from rlexp.executors.ray.mailbox import Message
from rlexp.executors.ray.messages import pack
from rlexp.executors.ray.out import Out, asked_of, take_run
from rlexp.store.layout import ExperimentPaths

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
