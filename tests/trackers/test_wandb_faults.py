"""W&B online with killed processes and failing servers stores each row once."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from backends import rows_of
from in_full import long
from wandb_backend import WandBBackend, wandb_online_backend
from wandb_samples import experiment_in, run_end, tracked_run
from wandb_storage import SUMMARY, StoredRun

from rlexp.errors import RlexpError, TrackerRefused, TrackerUnreachable
from rlexp.trackers import SyncPosition, TrackedRun, TrackerConnection

STEPS = list(range(0, 101, 10))
PROCESS = "rlexp.trackers.wandb_process"


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[WandBBackend]:
    """A backend of W&B online."""
    with wandb_online_backend(tmp_path) as backend:
        assert isinstance(backend, WandBBackend)
        yield backend


@pytest.fixture
def sink(backend: WandBBackend, tmp_path: Path) -> Iterator[TrackerConnection]:
    """An open tracker."""
    opened = backend.tracker().open(experiment_in(tmp_path))
    yield opened
    opened.close()


def losses(backend: WandBBackend, run: TrackedRun) -> list[int]:
    """The steps of the points of `loss` that the server has."""
    return [step for name, step, _ in backend.server.runs[run.id].points if name == "loss"]


def processes() -> list[psutil.Process]:
    """The process that serves W&B, followed by W&B's core."""
    (first,) = [p for p in psutil.Process().children() if PROCESS in p.cmdline()]
    return [first, *first.children(recursive=True)]


def retry(action: Callable[[], SyncPosition]) -> SyncPosition:
    """Repeat an action while W&B is unreachable, as the mirror does."""
    for _ in range(2):
        with suppress(TrackerUnreachable):
            return action()
    return action()


@contextmanager
def pushing(backend: WandBBackend, folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """A process that has pushed the first five rows."""
    script = Path(__file__).with_name("wandb_killed.py")
    command = [sys.executable, str(script), backend.server.url, "online", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "pushed\n"
        yield process


def test_a_killed_process_loses_and_doubles_nothing(
    backend: WandBBackend, sink: TrackerConnection, tmp_path: Path
) -> None:
    """After kill -9 another process continues the run, and each row is stored once."""
    with pushing(backend, tmp_path) as process:
        children = psutil.Process(process.pid).children(recursive=True)
        assert len(children) == 2
        process.kill()
    _, alive = psutil.wait_procs(children, timeout=5)
    assert not alive, "something outlived the process"
    run = tracked_run()
    stored_step = sink.begin(run, SyncPosition()).step
    sink.push(run, rows_of([step for step in STEPS if step > stored_step], loss=1.0))
    assert sink.end(run, run_end()).step == 100
    assert losses(backend, run) == STEPS
    # The run continues after its end, with a cursor that lags behind.
    assert sink.begin(run, SyncPosition(step=20)).step == 100
    sink.push(run, rows_of([110, 120], loss=1.0))
    sink.end(run, run_end(state="interrupted", score=None))
    assert losses(backend, run) == [*STEPS, 110, 120]
    assert backend.server.runs[run.id].summary["state"] == "interrupted"


def test_rows_outlive_wandbs_own_process(backend: WandBBackend, sink: TrackerConnection) -> None:
    """After a kill of W&B's process or core, its rows are pushed by the next process."""
    run = tracked_run()
    sink.begin(run, SyncPosition())
    sink.push(run, rows_of(STEPS[:4], loss=1.0))
    for process in processes():
        process.kill()
    retry(lambda: sink.push(run, rows_of(STEPS[4:8], loss=1.0)))
    core = processes()[-1]
    assert "wandb-core" in core.name()
    core.kill()
    retry(lambda: sink.push(run, rows_of(STEPS[8:], loss=1.0)))
    retry(lambda: sink.end(run, run_end()))
    assert losses(backend, run) == STEPS


@long
def test_a_server_that_goes_and_comes(backend: WandBBackend, sink: TrackerConnection) -> None:
    """Rows that are pushed during an outage are stored once the server is back."""
    run = tracked_run()
    sink.begin(run, SyncPosition())
    sink.push(run, rows_of(STEPS[:4], loss=1.0))
    backend.stop()
    reached = sink.push(run, rows_of(STEPS[4:], loss=1.0))
    assert reached.step == -1, "nothing is safe yet"
    start = time.monotonic()
    with pytest.raises(TrackerUnreachable, match="no answer in time"):
        sink.end(run, run_end())
    assert time.monotonic() - start < 3 * backend.timeout
    backend.start()
    assert sink.end(run, run_end()).step == 100
    assert losses(backend, run) == STEPS


@pytest.mark.parametrize(
    ("fault", "error"), [(403, TrackerRefused), ("garbage", TrackerUnreachable)]
)
def test_lost_uploads_are_noticed(
    backend: WandBBackend, sink: TrackerConnection, fault: int | str, error: type[RlexpError]
) -> None:
    """Rejected uploads, which W&B does not report, are noticed and repeated."""
    run = tracked_run()
    sink.begin(run, SyncPosition())
    sink.push(run, rows_of(STEPS, loss=1.0))
    backend.server.fault, backend.server.where = fault, "/files/"
    with pytest.raises(error):
        sink.end(run, run_end())
    backend.server.heal()
    sink.end(run, run_end())
    assert losses(backend, run) == STEPS


def test_a_summary_before_the_rows(backend: WandBBackend, sink: TrackerConnection) -> None:
    """A stored summary with a later step does not make W&B drop the rows."""
    run = tracked_run()
    early_run = StoredRun(run.id, "rlexp", config={"_wandb": {"value": {"t": {"1": [1]}}}})
    early_run.write(SUMMARY, 0, [json.dumps({"_step": 50})])
    backend.server.runs[run.id] = early_run
    assert sink.begin(run, SyncPosition()).step == -1
    sink.push(run, rows_of(STEPS, loss=1.0))
    sink.end(run, run_end())
    assert losses(backend, run) == STEPS
