"""Runs in MLflow: complete and without repetition after any failure."""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from mlflow_backend import Embedded, mlflow_backend
from tracked_samples import (
    BEGUN,
    ended,
    experiment_of,
    points,
    pushed,
    rows,
    run_of,
    variables_kept,
)

from rlexp.errors import TrackerUnreachable
from rlexp.trackers import SyncPosition, TrackedExperiment, TrackedRun, TrackerConnection


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """A SQLite file for this module; each test has an experiment of its own."""
    pytest.importorskip("mlflow")
    with variables_kept(), mlflow_backend(tmp_path_factory.mktemp("mlflow")) as opened:
        yield opened


@pytest.fixture
def experiment(backend: Embedded) -> TrackedExperiment:
    """An experiment of this test's own."""
    return experiment_of(backend.project)


@contextmanager
def opened(
    backend: Embedded, experiment: TrackedExperiment, **settings: Any
) -> Iterator[TrackerConnection]:
    """A tracker, as a process of its own would open it."""
    sink = backend.tracker(**settings).open(experiment)
    yield sink
    sink.close()


def one(backend: Embedded, run: TrackedRun) -> Any:
    """The one run that MLflow has."""
    (found,) = backend.runs("rlexp.run", run.id)
    return found


def test_a_run_says_what_it_is(backend: Embedded, experiment: TrackedExperiment) -> None:
    """Tags, parameters, artifacts, status and score are below the group's run."""
    run = run_of(experiment, label="dqn", group="study", phase="tuning", seed=3, trial=12)
    model = backend.project / "normalisation.npz"
    model.write_bytes(b"mean")
    with opened(backend, experiment) as sink:
        pushed(sink, run, rows([10, 20]))
        sink.end(run, ended(files={"normalisation.npz": model, "spec.json": model}))
    found, parents = one(backend, run), backend.parents(experiment)
    tags = {
        "label": "dqn",
        "task": "CartPole-v1",
        "phase": "tuning",
        "seed": "3",
        "trial": "12",
        "fingerprint": "f" * 64,
        "mlflow.source.git.commit": "c" * 40,
        "state": "completed",
        "weights": "a" * 64,
        "attempts": "1",
        "rlexp.experiment": experiment.id,
        "rlexp.step": "20",
        "mlflow.parentRunId": parents["study"].info.run_id,
    }
    assert tags.items() <= found.data.tags.items()
    assert "failure" not in found.data.tags
    assert found.info.run_name == "dqn tuning seed 3 of trial 12"
    assert (found.info.status, found.data.metrics["score"]) == ("FINISHED", 475.5)
    assert (found.info.start_time, found.info.end_time) == (BEGUN * 1000, (BEGUN + 100) * 1000)
    assert found.data.params["layers.1"] == "64"
    names = backend.artifacts(found)
    assert sorted(names) == ["configuration.json", "model", "provenance.json", "spec.json"]
    assert backend.artifact(found, "model/normalisation.npz") == b"mean"
    assert json.loads(backend.artifact(found, "configuration.json")) == run.configuration
    assert json.loads(backend.artifact(found, "provenance.json")) == run.provenance
    definition = backend.artifact(parents["study"], "experiment.json")
    assert json.loads(definition) == experiment.definition


def test_mlflow_adds_nothing(backend: Embedded, experiment: TrackedExperiment) -> None:
    """MLflow adds no user, source or command to the records' content."""
    with opened(backend, experiment) as sink:
        sink.begin(run_of(experiment), SyncPosition())
    found = one(backend, run_of(experiment))
    own = {key for key in found.data.tags if key.startswith("mlflow.")}
    assert own == {"mlflow.runName", "mlflow.parentRunId", "mlflow.source.git.commit"}


def test_groups_are_parents(backend: Embedded, experiment: TrackedExperiment) -> None:
    """Runs of a group are below one run, whichever process pushed them."""
    runs = [run_of(experiment, seed, group="ab"[seed % 2]) for seed in range(4)]
    for run in runs:
        with opened(backend, experiment) as sink:
            pushed(sink, run, rows([10]))
    parents = backend.parents(experiment)
    assert sorted(parents) == ["a", "b"]
    above = [one(backend, run).data.tags["mlflow.parentRunId"] for run in runs]
    assert above == [parents[run.group].info.run_id for run in runs]


def test_experiments_of_one_name_stay_apart(backend: Embedded) -> None:
    """Equal names in two folders are one MLflow experiment with two groups of runs."""
    first, second = (experiment_of(backend.project, name="same") for _ in range(2))
    for experiment in (first, second):
        with opened(backend, experiment) as sink:
            pushed(sink, run_of(experiment), rows([10]))
    shown = [backend.runs("rlexp.experiment", e.id) for e in (first, second)]
    assert [len(runs) for runs in shown] == [2, 2]
    assert len({run.info.experiment_id for runs in shown for run in runs}) == 1
    parents = [backend.parents(e)["ppo"].info.run_id for e in (first, second)]
    assert len(set(parents)) == 2


def test_a_cursor_that_was_never_written(backend: Embedded, experiment: TrackedExperiment) -> None:
    """After a kill before the position was stored, each point is there once."""
    run, told = run_of(experiment), rows(range(10, 2010, 10))
    with opened(backend, experiment) as sink:
        pushed(sink, run, told[:150])
    later = [replace(row, time=row.time + 5000) for row in told]
    with opened(backend, experiment) as sink:
        assert sink.begin(run, SyncPosition()).step == 1500
        pushed(sink, run, later)
        sink.end(run, ended())
    assert sorted(backend.points(one(backend, run))) == points(told)


def test_the_same_rows_again(backend: Embedded, experiment: TrackedExperiment) -> None:
    """A push whose answer was lost is repeated: each point is there once."""
    run = run_of(experiment)
    told = rows([10, 20], nan=math.nan, high=math.inf, low=-math.inf, plain=1.5)
    with opened(backend, experiment) as sink:
        sink.begin(run, SyncPosition())
        for _ in range(3):
            assert sink.push(run, told).step == 20
    found = sorted(backend.points(one(backend, run)), key=str)
    assert str(found) == str(sorted(points(told), key=str))


def test_a_run_that_is_there_twice(backend: Embedded, experiment: TrackedExperiment) -> None:
    """Of two runs from a repeated request, only the one with points stays."""
    run, told = run_of(experiment), rows([10, 20])
    with opened(backend, experiment) as sink:
        pushed(sink, run, told)
        client = backend.client()
        for _ in range(2):
            client.create_run(one_experiment(backend, experiment), tags={"rlexp.run": run.id})
        sink.end(run, ended())
    assert sorted(backend.points(one(backend, run))) == points(told)


def one_experiment(backend: Embedded, experiment: TrackedExperiment) -> str:
    """The id that MLflow gave to an experiment."""
    found = backend.client().get_experiment_by_name(experiment.name)
    assert found is not None
    return str(found.experiment_id)


def test_a_run_that_was_deleted(backend: Embedded, experiment: TrackedExperiment) -> None:
    """A run that was deleted in MLflow is pushed again from the start."""
    run, told = run_of(experiment), rows([10, 20])
    with opened(backend, experiment) as sink:
        pushed(sink, run, told)
    backend.client().delete_run(one(backend, run).info.run_id)
    with opened(backend, experiment) as sink:
        assert sink.begin(run, SyncPosition(step=20)).step == -1
        sink.push(run, told)
    assert sorted(backend.points(one(backend, run))) == points(told)


def test_a_run_that_vanishes_is_reported(backend: Embedded, experiment: TrackedExperiment) -> None:
    """A run that vanishes during a push is an error at its end."""
    run = run_of(experiment)
    with opened(backend, experiment) as sink:
        pushed(sink, run, rows([10]))
        backend.client().delete_run(one(backend, run).info.run_id)
        with pytest.raises(TrackerUnreachable, match="uploaded again"):
            sink.end(run, ended())


@pytest.mark.parametrize(
    ("state", "status"),
    [
        ("completed", "FINISHED"),
        ("pruned", "FINISHED"),
        ("failed", "FAILED"),
        ("interrupted", "KILLED"),
        ("lost", "KILLED"),
    ],
)
def test_how_a_run_ends(
    backend: Embedded, experiment: TrackedExperiment, state: str, status: str
) -> None:
    """The status is MLflow's, and tags have rlexp's state."""
    run, score = run_of(experiment), 1.5 if state == "completed" else None
    with opened(backend, experiment) as sink:
        pushed(sink, run, rows([10]))
        sink.end(run, ended(state=state, score=score))
    found = one(backend, run)
    assert (found.info.status, found.data.tags["state"]) == (status, state)
    assert found.data.metrics.get("score") == score


def test_a_run_that_goes_on(backend: Embedded, experiment: TrackedExperiment) -> None:
    """A continued run is running again, and its old failure is removed when it completes."""
    run = run_of(experiment)
    with opened(backend, experiment) as sink:
        pushed(sink, run, rows([10]))
        sink.end(run, ended(state="failed", failure="crashed", reason="x" * 9000, score=None))
    failed = one(backend, run).data.tags
    assert failed["failure"] == "crashed"
    assert "sha256:" in failed["reason"]
    newer = replace(run, provenance={"command": ["rlexp", "resume"]})
    with opened(backend, experiment) as sink:
        sink.begin(newer, SyncPosition())
        assert one(backend, run).info.status == "RUNNING"
        sink.push(newer, rows([20]))
        sink.end(newer, ended(attempts=2))
    found = one(backend, run)
    assert (found.info.status, found.data.tags["attempts"]) == ("FINISHED", "2")
    assert not {"failure", "reason"} & found.data.tags.keys()
    assert json.loads(backend.artifact(found, "provenance.json")) == newer.provenance


def test_models_are_kept_back(backend: Embedded, experiment: TrackedExperiment) -> None:
    """With models=false everything except the model is uploaded."""
    run, file = run_of(experiment), backend.project / "model.zip"
    file.write_bytes(b"model")
    with opened(backend, experiment, models=False) as sink:
        sink.begin(run, SyncPosition())
        sink.end(run, ended(files={"model.zip": file, "spec.json": file}))
    names = backend.artifacts(one(backend, run))
    assert sorted(names) == ["configuration.json", "provenance.json", "spec.json"]
