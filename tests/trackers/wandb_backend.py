"""W&B for the behaviour suite of trackers: its client and core with a test server."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

from backends import Backend, ShownRun
from wandb_server import WandBServer, wandb_server
from wandb_storage import StoredRun
from warm_processes import Warm, warm_process

from rlexp.trackers import TrackedExperiment, TrackedRun, Tracker, wandb
from rlexp.trackers.parameters import flattened
from rlexp.trackers.wandb import WandB

KEY = "0123456789abcdef" * 2 + "canaries"
"""A key that occurs only in the headers of requests."""
PRELOAD = ("wandb", "wandb.cli.cli", "wandb.apis.public.service_api", "psutil", "rlexp.trackers")
"""The modules that W&B's processes import."""
SYNC = """\
import os, sys, wandb
from wandb.cli.cli import cli
try:
    cli(prog_name="wandb")
finally:
    wandb.teardown()
    sys.stdout.flush()
    sys.stderr.flush()
    # A normal exit would remove the folder that the warm process created.
    os._exit(0)
"""
"""The same as `python -m wandb`, in a process that was forked from a warm one."""


@dataclass(frozen=True)
class WandBBackend:
    """A test server, and the mode in which runs reach it."""

    server: WandBServer
    mode: Literal["online", "offline"]
    timeout: float = 4.0

    def tracker(self) -> Tracker:
        """See `Backend.tracker`."""
        return WandB(base_url=self.server.url, mode=self.mode, timeout=self.timeout)

    def shown_runs(self, experiment: TrackedExperiment, run: TrackedRun) -> Sequence[ShownRun]:
        """See `Backend.shown_runs`; offline folders are synced first."""
        self.sync_new(experiment)
        stored = self.server.runs.get(run.id)
        return [shown_run(stored)] if stored is not None else []

    def aggregates(self, experiment: TrackedExperiment) -> Mapping[str, float]:
        """See `Backend.aggregates`; the values come from the table of the summary run."""
        self.sync_new(experiment)
        (stored,) = [
            run
            for run in self.server.runs.values()
            if run.about["jobType"] == "summary" and run.about["displayName"] == experiment.name
        ]
        table = json.loads(stored.uploaded[stored.summary["aggregates"]["path"]])
        rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
        return {row["label"]: row["IQM"] for row in rows if row["IQM"] is not None}

    def stop(self) -> None:
        """See `Backend.stop`."""
        if self.mode == "online":
            self.server.stop()

    def start(self) -> None:
        """See `Backend.start`."""
        self.server.heal()

    def sync(self, experiment: TrackedExperiment) -> str:
        """Sync the offline folders with W&B's own command, and return its output."""
        folder = experiment.folder / "wandb"
        with warm_wandb().Popen(
            [sys.executable, "-c", SYNC, "sync", str(folder)],
            env={**os.environ, "WANDB_BASE_URL": self.server.url},
            cwd=experiment.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            return process.communicate(timeout=60)[0]

    def sync_new(self, experiment: TrackedExperiment) -> None:
        if unsynced(experiment.folder / "wandb"):
            output = self.sync(experiment)
            assert not unsynced(experiment.folder / "wandb"), output


def unsynced(folder: Path) -> list[Path]:
    """The offline folders that were not synced yet."""
    logs = folder.glob("offline-run-*/*.wandb")
    return [log.parent for log in logs if not log.with_suffix(".wandb.synced").exists()]


def shown_run(stored: StoredRun) -> ShownRun:
    """A run as the pages of W&B show it."""
    settings: dict[str, Any] = {key: item["value"] for key, item in stored.config.items()}
    score = stored.summary.get("score")
    return ShownRun(
        points=[(name, step, float(value)) for name, step, value in stored.points],
        score=None if score is None else float(score),
        state=stored.summary.get("state", ""),
        # The name of a group in W&B begins with the name of the experiment.
        group=stored.about["groupName"].partition("/")[2],
        settings={key: str(value) for key, value in flattened(settings).items()},
    )


def warm_wandb() -> Warm:
    """A process that has imported W&B, from which others are forked."""
    return warm_process(PRELOAD)


@contextmanager
def forked_wandb() -> Iterator[None]:
    """Fork W&B's processes from the warm one instead of starting them."""
    with patch.object(wandb, "subprocess", warm_wandb()):
        yield


@contextmanager
def wandb_online_backend(folder: Path) -> Iterator[Backend]:
    """A backend of W&B online."""
    with _environment(folder), wandb_server() as server:
        yield WandBBackend(server, "online")


@contextmanager
def wandb_offline_backend(folder: Path) -> Iterator[Backend]:
    """A backend of W&B offline, synced by `wandb sync`."""
    with _environment(folder), wandb_server() as server:
        yield WandBBackend(server, "offline")


@contextmanager
def _environment(folder: Path) -> Iterator[None]:
    """Variables of a user with a key and without any settings of W&B."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("WANDB_")
    }
    home = {"HOME": str(folder), "NETRC": str(folder / "netrc"), "WANDB_API_KEY": KEY}
    with patch.dict(os.environ, {**inherited, **home}, clear=True):
        yield
