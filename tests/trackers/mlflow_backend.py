"""MLflow for the tests of trackers: a SQLite file, or a real server with PostgreSQL."""

import atexit
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from unittest.mock import patch

from backends import Point, ShownRun
from faulty_proxy import PASS, REFUSE, FaultyProxy, proxy_of
from postgresql_server import Server, binaries, free_port, running_server
from warm_processes import Forked, Warm, warm_process

from rlexp.trackers import TrackedExperiment, TrackedRun
from rlexp.trackers.mlflow import MLflow

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

LARGEST = 1.7976931348623157e308
"""The number that MLflow's databases store in place of infinity."""
START_TIMEOUT = 180.0
"""Seconds that a server may take to start on a busy machine."""
SERVER_VARIABLES = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    # Job execution would start eight processes that no test needs.
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
}
PRELOAD = (
    *("mlflow.cli", "mlflow.server.handlers", "mlflow.store.tracking.sqlalchemy_store"),
    *("mlflow.store.db.utils", "uvicorn.main", "fastapi", "psycopg", "alembic.command"),
)
"""The modules that a server imports."""
SERVE = """\
import os, mlflow.server, uvicorn
from mlflow.cli import cli

def serve(command, extra_env, **_):
    os.environ.update(extra_env)
    uvicorn.main(command[3:])

mlflow.server._exec_cmd = serve
cli(prog_name="mlflow")
"""
"""The same as `python -m mlflow`, without a second process that imports every module again."""


@dataclass(slots=True)
class MlflowReader:
    """The data in MLflow, read by its own client and not through the tracker."""

    uri: str

    def runs(self, key: str, value: str) -> list["Run"]:
        """All runs whose bookkeeping has this value, in any experiment."""
        client = self.client()
        experiments = [e.experiment_id for e in client.search_experiments()]
        runs = client.search_runs(experiments, f'tags.`rlexp` LIKE \'%"{key}":"{value}"%\'')
        return list(runs)

    def points(self, run: "Run") -> list[Point]:
        """Every point of a run except its score."""
        client = self.client()
        keys = [key for key in run.data.metrics if key != "score"]
        histories = [client.get_metric_history(run.info.run_id, key) for key in keys]
        return [(m.key, m.step, _value(m.value)) for history in histories for m in history]

    def shown_runs(self, experiment: TrackedExperiment, run: TrackedRun) -> Sequence[ShownRun]:
        """See `Backend.shown_runs`."""
        return [
            ShownRun(
                points=self.points(mlflow_run),
                score=mlflow_run.data.metrics.get("score"),
                state=mlflow_run.data.tags.get("state", mlflow_run.info.status),
                group=bookkeeping(mlflow_run)["group"],
                settings=mlflow_run.data.params,
            )
            for mlflow_run in self.runs("run", run.id)
        ]

    def parents(self, experiment: TrackedExperiment) -> dict[str, "Run"]:
        """The runs that represent groups, by group."""
        runs = self.runs("experiment", experiment.id)
        parents = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
        assert set(Counter(bookkeeping(run)["group"] for run in parents).values()) <= {1}
        return {bookkeeping(run)["group"]: run for run in parents}

    def aggregates(self, experiment: TrackedExperiment) -> Mapping[str, float]:
        """See `Backend.aggregates`."""
        parents = self.parents(experiment)
        return {g: r.data.metrics["iqm"] for g, r in parents.items() if "iqm" in r.data.metrics}

    def artifact(self, run: "Run", path: str) -> bytes:
        """The content of an artifact."""
        with tempfile.TemporaryDirectory() as folder:
            client = self.client()
            return Path(client.download_artifacts(run.info.run_id, path, folder)).read_bytes()

    def artifacts(self, run: "Run", folder: str | None = None) -> list[str]:
        """The paths of a run's artifacts."""
        return [f.path for f in self.client().list_artifacts(run.info.run_id, folder)]

    def client(self) -> "MlflowClient":
        """A new client of MLflow."""
        from mlflow import MlflowClient

        return MlflowClient(self.uri, self.uri)


@dataclass(slots=True)
class SqliteBackend(MlflowReader):
    """MLflow's SQLite file in a folder."""

    project: Path

    def tracker(self, **settings: Any) -> MLflow:
        """A tracker that writes to the file."""
        return MLflow(uri=self.uri, **settings)

    def stop(self) -> None:
        """A file cannot be stopped."""

    def start(self) -> None:
        """A file needs no start."""


@dataclass(slots=True)
class ServerBackend(MlflowReader):
    """A server that is reached through a proxy."""

    proxy: FaultyProxy

    def tracker(self, **settings: Any) -> MLflow:
        """A tracker that pushes to the proxy of the server."""
        return MLflow(**{"uri": self.proxy.url, "timeout": 5.0, **settings})

    def stop(self) -> None:
        """Let the proxy refuse connections."""
        self.proxy.mode = REFUSE

    def start(self) -> None:
        """Let the proxy accept connections again."""
        self.proxy.mode = PASS


@dataclass(slots=True)
class MlflowServer:
    """A real `mlflow server` that uses its own PostgreSQL server."""

    database: Server
    folder: Path
    port: int = field(default_factory=free_port)
    _process: Forked | None = None

    @property
    def uri(self) -> str:
        """The address of the server."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the server and wait until it answers."""
        with (self.folder / "log").open("ab") as log:
            self._process = self._launch(log)
        end = time.monotonic() + START_TIMEOUT
        while not self._answers():
            assert self._process.poll() is None, (self.folder / "log").read_text()[-3000:]
            assert time.monotonic() < end, "it did not start"
            time.sleep(0.1)

    def kill(self) -> None:
        """Kill the server and its workers, as a crash would."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def _launch(self, log: IO[bytes]) -> Forked:
        store = self.database.url.replace("postgresql://", "postgresql+psycopg://")
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("MLFLOW_")}
        return warm_mlflow().Popen(
            [
                *(sys.executable, "-c", SERVE, "server", "--host", "127.0.0.1"),
                *("--port", str(self.port), "--workers", "1"),
                *("--artifacts-destination", str(self.folder / "artifacts")),
            ],
            env={**inherited, **SERVER_VARIABLES, "MLFLOW_BACKEND_STORE_URI": store},
            stdin=subprocess.DEVNULL,
            stdout=log.fileno(),
            stderr=log.fileno(),
            cwd=self.folder,
            start_new_session=True,
        )

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.uri}/health", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


@contextmanager
def mlflow_backend(folder: Path) -> Iterator[SqliteBackend]:
    """A SQLite database in a folder, copied from an empty template."""
    file = folder / "mlflow.db"
    file.write_bytes(template())
    yield SqliteBackend(f"sqlite:///{file}", folder)


@contextmanager
def mlflow_server_backend(folder: Path) -> Iterator[ServerBackend]:
    """A server that all tests of a process share; each test uses its own ids."""
    server = shared_server()
    with proxy_of(server.port) as proxy:
        yield ServerBackend(server.uri, proxy)


@cache
def template() -> bytes:
    """The content of an empty database of MLflow."""
    from rlexp.trackers.mlflow_service import _make_tables

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "mlflow.db"
        _make_tables(file)
        return file.read_bytes()


def warm_mlflow() -> Warm:
    """A process that has imported MLflow, from which servers are forked."""
    with patch.dict(os.environ, SERVER_VARIABLES):
        return warm_process(PRELOAD)


@cache
def shared_server() -> MlflowServer:
    """A server that runs until the tests end."""
    programs = binaries()
    assert programs is not None
    warm_mlflow()  # Started first, because it must end after the server, its child.
    stack = ExitStack()
    atexit.register(stack.close)
    folder = Path(tempfile.mkdtemp(prefix="mlflow-"))
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    server = MlflowServer(stack.enter_context(running_server(programs)), folder)
    stack.callback(server.kill)
    server.start()
    return server


def _value(stored: float) -> float:
    if abs(stored) == LARGEST:
        return math.copysign(math.inf, stored)
    return stored


def bookkeeping(run: "Run") -> dict[str, Any]:
    """The values in the tag that only the tracker needs."""
    values: dict[str, Any] = json.loads(run.data.tags["rlexp"])
    return values


def only_run(backend: MlflowReader, experiment: TrackedExperiment, run: TrackedRun) -> ShownRun:
    """The one run that the backend has under the run's id."""
    (shown_run,) = backend.shown_runs(experiment, run)
    return shown_run
