"""Each tracker shows at the end of a sweep what one push at the end would have shown."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pytest
from backends import Backend
from in_full import IN_FULL
from mlflow_backend import SqliteBackend, bookkeeping, mlflow_backend
from quick_parts import quick_parts
from stored_sweeps import StoredSweep, stored_sweep
from tensorboard_backend import TensorBoardBackend, tensorboard_backend
from wandb_backend import WandBBackend, forked_wandb, wandb_offline_backend

from rlexp.app.reading.headline_aggregate import HeadlineAggregate
from rlexp.app.reporting.mirror_entry import answer_reader
from rlexp.app.tracking import run_labels
from rlexp.app.tracking.mirror_client import destination_of
from rlexp.app.tracking.mirror_process import Uploader
from rlexp.app.workspace import Workspace
from rlexp.errors import RecordError
from rlexp.records.annotation import Annotation
from rlexp.store.annotations import change_annotation
from rlexp.store.journal import JournalWriter
from rlexp.store.layout import ExperimentPaths
from rlexp.store.tracker_positions import TrackerPositions, experiment_identity
from rlexp.trackers import TrackedExperiment

quick = pytest.fixture(autouse=True)(quick_parts)

SMALL = (
    *("sweep.trials=3", "sweep.promoted=1", "sweep.finalists=2", "sweep.lag=0"),
    *("seeds.tuning=2", "seeds.selection=2", "seeds.test=2", "budget.steps=100"),
)
OPENED: dict[str, Callable[[Path], AbstractContextManager[Backend]]] = {
    "mlflow": mlflow_backend,
    "tensorboard": tensorboard_backend,
    "wandb offline": wandb_offline_backend,
}
Shown = Mapping[str, Mapping[str, Any]]
"""What a tracker shows of each run, by the name of the run's folder or its id."""


@pytest.fixture(params=sorted(OPENED))
def backends(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Backend, Backend]]:
    """Two services of one kind: the first gets many pushes, the second gets one."""
    with ExitStack() as stack:
        stack.enter_context(forked_wandb())
        folders = [tmp_path / name for name in ("first", "second")]
        for folder in folders:
            folder.mkdir()
        first, second = (stack.enter_context(OPENED[request.param](folder)) for folder in folders)
        yield first, second


@pytest.fixture
def sweep(tmp_path: Path) -> StoredSweep:
    """A sweep of three trials with two finalists, of which no run has started."""
    return stored_sweep(tmp_path / "study", *SMALL)


def uploader(paths: ExperimentPaths, backend: Backend) -> Uploader:
    """What the process of a mirror uses, as if it had just started."""
    tracker = backend.tracker()
    cursors = TrackerPositions(paths, "tracker", destination_of(tracker, paths))
    cursors.folder.mkdir(parents=True, exist_ok=True)
    workspace = Workspace.here(folder=paths.folder.parent.parent)
    return Uploader(paths, tracker, cursors, HeadlineAggregate(), answer_reader(workspace))


def finish(pushing: Uploader) -> None:
    """Push for the last time, as at the end of a command."""
    pushing.push_all(last=True)
    pushing.summarise()
    pushing.close()
    assert not pushing.refused


def sync(paths: ExperimentPaths, backend: Backend) -> None:
    """Push everything as `rlexp sync` does."""
    pushing = uploader(paths, backend)
    if not pushing.is_current():
        finish(pushing)


def at_every_event(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Act whenever an event was appended to a journal."""
    append = JournalWriter.append

    def append_and_act(journal: JournalWriter, *arguments: Any, **options: Any) -> Any:
        result = append(journal, *arguments, **options)
        act()
        return result

    monkeypatch.setattr(JournalWriter, "append", append_and_act)


def shown(backend: Backend, paths: ExperimentPaths) -> Shown:
    """Everything that the service shows of the runs, without times and random ids."""
    match backend:
        case SqliteBackend():
            return _shown_by_mlflow(backend)
        case TensorBoardBackend():
            return _shown_by_tensorboard(backend)
        case WandBBackend():
            return _shown_by_wandb(backend, paths)
    raise AssertionError(backend)


def _shown_by_mlflow(backend: SqliteBackend) -> Shown:
    client = backend.client()
    runs = client.search_runs([e.experiment_id for e in client.search_experiments()])
    names = {run.info.run_id: run.info.run_name for run in runs}
    return {
        bookkeeping(run)["run"]: {
            "name": run.info.run_name,
            "status": run.info.status,
            "metrics": run.data.metrics,
            "parameters": run.data.params,
            "tags": {k: names.get(v, v) for k, v in run.data.tags.items() if k != "rlexp"},
            "group": bookkeeping(run)["group"],
            "step": bookkeeping(run).get("step"),
        }
        for run in runs
    }


def _shown_by_tensorboard(backend: TensorBoardBackend) -> Shown:
    from tensorboard_backend import _hyperparameters, _points

    return {
        str(path.relative_to(backend.folder)): {
            "points": _points(path),
            "settings": _hyperparameters(path),
        }
        for path in sorted(backend.folder.rglob("*tfevents*"))
    }


def _shown_by_wandb(backend: WandBBackend, paths: ExperimentPaths) -> Shown:
    location = destination_of(backend.tracker(), paths)
    folder = TrackerPositions(paths, "tracker", location).folder
    identity = experiment_identity(paths)
    backend.sync_new(
        TrackedExperiment(
            id=identity.id,
            name=identity.name,
            project=paths.folder.parent.parent,
            folder=folder,
            definition={},
            is_sweep=True,
        )
    )
    about = ("displayName", "groupName", "jobType", "tags")
    return {
        stored.id: {
            "about": {key: stored.about.get(key) for key in about},
            "config": {k: v["value"] for k, v in stored.config.items() if k != "_wandb"},
            "points": sorted(stored.points),
            "summary": {
                k: v for k, v in stored.summary.items() if not k.startswith(("_", "aggregates"))
            },
        }
        for stored in backend.server.runs.values()
        if stored.about["jobType"] != "summary"
    }


def differences(first: Shown, second: Shown) -> list[tuple[str, str, Any, Any]]:
    """The run, the field and both values where two services differ."""
    return [
        (run, field, first.get(run, {}).get(field), second.get(run, {}).get(field))
        for run in sorted({*first, *second})
        for field in sorted({*first.get(run, {}), *second.get(run, {})})
        if first.get(run, {}).get(field) != second.get(run, {}).get(field)
    ]


def test_a_mirror_that_lives_through_a_sweep_ends_as_one_push(
    backends: tuple[Backend, Backend], sweep: StoredSweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pushes of one mirror at every event of a sweep end in the state of one push at its end."""
    often, once = backends
    sweep.go_on(runs=0)
    live = uploader(sweep.paths, often)
    with monkeypatch.context() as patched:
        at_every_event(patched, live.push_all)
        sweep.go_on()
    finish(live)
    sync(sweep.paths, once)
    labels = {run.phase for run in sweep.made}
    assert len(labels) == 3, "a phase has no run"
    assert differences(shown(often, sweep.paths), shown(once, sweep.paths)) == []


def test_a_sync_at_every_event_ends_as_one_push(
    backends: tuple[Backend, Backend], sweep: StoredSweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A separate push at every event of a sweep ends in the state of one push at its end."""
    often, once = backends
    if isinstance(often, WandBBackend) and not IN_FULL:
        pytest.skip("takes long: make test-long")
    sweep.go_on(runs=0)
    with monkeypatch.context() as patched:
        at_every_event(patched, lambda: sync(sweep.paths, often))
        sweep.go_on()
    sync(sweep.paths, often)
    sync(sweep.paths, once)
    assert differences(shown(often, sweep.paths), shown(once, sweep.paths)) == []


def test_what_was_told_too_early_is_corrected(
    backends: tuple[Backend, Backend], sweep: StoredSweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs that were pushed while their labels were unreadable get them at the next push."""
    often, once = backends
    sweep.go_on()
    with monkeypatch.context() as patched:
        patched.setattr(run_labels, "read_experiment", _unreadable)
        sync(sweep.paths, often)
    before = shown(often, sweep.paths)
    sync(sweep.paths, often)
    sync(sweep.paths, once)
    after = shown(often, sweep.paths)
    assert differences(before, after)
    assert differences(after, shown(once, sweep.paths)) == []


def _unreadable(paths: ExperimentPaths) -> None:
    raise RecordError(f"{paths.definition} cannot be read")


def test_a_tag_given_later_is_pushed(sweep: StoredSweep, tmp_path: Path) -> None:
    """A tag that a user gives to a run after `wandb sync` is in W&B later, and all else stays."""
    with forked_wandb(), wandb_offline_backend(tmp_path) as backend:
        sweep.go_on(runs=1)
        sync(sweep.paths, backend)
        before = shown(backend, sweep.paths)
        (run,) = sweep.paths.runs()
        change_annotation(
            sweep.paths, run.folder.name, lambda _: Annotation(tags=("interesting",))
        )
        sync(sweep.paths, backend)
        after = shown(backend, sweep.paths)
        (stored,) = after.values()
        assert "interesting" in stored["about"]["tags"]
        assert [field for _, field, *_ in differences(before, after)] == ["about"]
