"""W&B offline writes folders that `wandb sync` uploads to a test server."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from backends import rows_of
from wandb_backend import WandBBackend, forked_wandb, unsynced, wandb_offline_backend
from wandb_samples import aggregate, experiment_in, run_end, tracked_run

from rlexp.errors import TrackerUnreachable
from rlexp.trackers import ExperimentSummary, SyncPosition

STEPS = list(range(0, 101, 10))


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[WandBBackend]:
    """A backend of W&B offline."""
    with forked_wandb(), wandb_offline_backend(tmp_path) as backend:
        assert isinstance(backend, WandBBackend)
        yield backend


def heal_once_failed(backend: WandBBackend) -> None:
    """Wait until the server has failed one request, then repair the server."""
    assert backend.server.failed.wait(60), "nothing was asked for"
    backend.server.heal()


def test_a_run_that_goes_on_is_joined(backend: WandBBackend, tmp_path: Path) -> None:
    """Each row of a continued run is uploaded once, whenever its folders are synced."""
    experiment, run = experiment_in(tmp_path), tracked_run()
    sink = backend.tracker().open(experiment)
    cursor, portions = SyncPosition(), [STEPS[:3], STEPS[3:6], STEPS[6:]]
    for position, steps in enumerate(portions):
        cursor = sink.begin(run, cursor)
        sink.push(run, rows_of(steps, loss=1.0))
        assert len(unsynced(experiment.folder / "wandb")) == (0, 0, 1)[position]
        if position == 1:
            assert "No runs to sync" in backend.sync(experiment), "an unfinished folder is seen"
        cursor = sink.end(run, run_end())
        assert cursor.step == steps[-1]
        if position == 0:
            backend.sync(experiment)
    sink.summarise(ExperimentSummary(aggregates=[aggregate(2.0)], groups=["PPO"]))
    sink.close()
    (shown_run,) = backend.shown_runs(experiment, run)
    assert [step for _, step, _ in shown_run.points] == STEPS
    assert (shown_run.score, shown_run.state, shown_run.group) == (5, "completed", "PPO")
    assert shown_run.settings["algorithm.learning_rate"] == "0.1"
    assert backend.aggregates(experiment) == {"PPO": 2}


def test_an_unfinished_folder_is_written_again(backend: WandBBackend, tmp_path: Path) -> None:
    """After kill -9 the folder is not synced, and the next process writes every row once."""
    script = Path(__file__).with_name("wandb_killed.py")
    command = [sys.executable, str(script), backend.server.url, "offline", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as pushing:
        assert pushing.stdout is not None
        assert pushing.stdout.readline() == "pushed\n"
        pushing.kill()
    experiment, run = experiment_in(tmp_path), tracked_run()
    assert unsynced(experiment.folder / "wandb") == []
    sink = backend.tracker().open(experiment)
    assert sink.begin(run, SyncPosition()).step == -1
    sink.push(run, rows_of(STEPS, loss=1.0))
    sink.end(run, run_end())
    # Without a stored cursor, the position comes from the folder itself.
    assert sink.begin(run, SyncPosition()).step == 100
    sink.close()
    (shown_run,) = backend.shown_runs(experiment, run)
    assert [step for _, step, _ in shown_run.points] == STEPS


def test_syncing_into_a_server_that_fails(backend: WandBBackend, tmp_path: Path) -> None:
    """A failed sync leaves the folder unsynced; a late answer uploads no row twice."""
    experiment, run = experiment_in(tmp_path), tracked_run()
    sink = backend.tracker().open(experiment)
    sink.begin(run, SyncPosition())
    sink.push(run, rows_of(STEPS, loss=1.0))
    sink.end(run, run_end())
    sink.close()
    backend.server.fault = 401
    backend.sync(experiment)
    assert len(unsynced(experiment.folder / "wandb")) == 1
    backend.server.heal()
    backend.server.fault, backend.server.where = 500, "/files/"
    healing_thread = threading.Thread(target=heal_once_failed, args=[backend])
    healing_thread.start()
    (shown_run,) = backend.shown_runs(experiment, run)
    healing_thread.join()
    assert [step for _, step, _ in shown_run.points] == STEPS


def test_online_and_offline_are_one_place(backend: WandBBackend, tmp_path: Path) -> None:
    """Online rows replace unsynced folders; offline mode after online mode is refused."""
    experiment, run = experiment_in(tmp_path), tracked_run()
    offline, online = backend.tracker(), replace(backend, mode="online").tracker()
    assert offline.destination(tmp_path) == online.destination(tmp_path)
    sink = offline.open(experiment)
    sink.begin(run, SyncPosition())
    sink.push(run, rows_of(STEPS[:3], loss=1.0))
    cursor = sink.end(run, run_end(state="interrupted"))
    sink.close()
    sink = online.open(experiment)
    cursor = sink.begin(run, cursor)
    assert cursor.step == -1
    sink.push(run, rows_of(STEPS[:6], loss=1.0))
    sink.close()
    sink = offline.open(experiment)
    with pytest.raises(TrackerUnreachable, match="began online"):
        sink.begin(run, cursor)
    sink.close()
    sink = online.open(experiment)
    stored_step = sink.begin(run, cursor).step
    sink.push(run, rows_of([step for step in STEPS if step > stored_step], loss=1.0))
    sink.end(run, run_end())
    sink.close()
    assert unsynced(experiment.folder / "wandb") == []
    assert backend.server.runs[run.id].steps == STEPS
