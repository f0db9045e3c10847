"""Runs in MLflow are complete and without repetition after any failure."""

import getpass
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from mlflow_backend import SqliteBackend, bookkeeping, mlflow_backend
from tracked_samples import (
    START_TIME,
    aggregate,
    experiment_of,
    points,
    preserved_environment,
    push_rows,
    run_end,
    run_of,
    sample_rows,
)

from rlexp.errors import TrackerUnreachable
from rlexp.trackers import (
    ExperimentSummary,
    SyncPosition,
    TrackedExperiment,
    TrackedRun,
    TrackerConnection,
)


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteBackend]:
    """A SQLite file for this module; each test has an experiment of its own."""
    pytest.importorskip("mlflow")
    with (
        preserved_environment(),
        mlflow_backend(tmp_path_factory.mktemp("mlflow")) as sqlite_backend,
    ):
        yield sqlite_backend


@pytest.fixture
def experiment(backend: SqliteBackend) -> TrackedExperiment:
    """An experiment that only this test uses."""
    return experiment_of(backend.project)


@contextmanager
def open_tracker(
    backend: SqliteBackend, experiment: TrackedExperiment, **settings: Any
) -> Iterator[TrackerConnection]:
    """A tracker, opened as another process would open it."""
    sink = backend.tracker(**settings).open(experiment)
    yield sink
    sink.close()


def only_run(backend: SqliteBackend, run: TrackedRun) -> Any:
    """The one run that MLflow has."""
    (mlflow_run,) = backend.runs("run", run.id)
    return mlflow_run


def test_a_run_says_what_it_is(backend: SqliteBackend, experiment: TrackedExperiment) -> None:
    """A run has its tags, parameters, artifacts, status, score and the run of its group."""
    run = run_of(experiment, label="dqn", group="study", phase="tuning", seed=3, trial=12)
    model = backend.project / "normalisation.npz"
    model.write_bytes(b"mean")
    with open_tracker(backend, experiment) as sink:
        push_rows(sink, run, sample_rows([10, 20]))
        sink.end(run, run_end(files={"normalisation.npz": model, "spec.json": model}))
    mlflow_run, parents = only_run(backend, run), backend.parents(experiment)
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
        "mlflow.parentRunId": parents["study"].info.run_id,
    }
    assert tags.items() <= mlflow_run.data.tags.items()
    assert "failure" not in mlflow_run.data.tags
    kept = bookkeeping(mlflow_run)
    assert (kept["run"], kept["experiment"], kept["step"]) == (run.id, experiment.id, 20)
    assert mlflow_run.info.run_name == "trial 12 tuning seed 3"
    (dataset,) = [item.dataset for item in mlflow_run.inputs.dataset_inputs]
    assert (dataset.name, dataset.digest) == ("CartPole-v1", "tuning seed 3")
    assert (mlflow_run.info.status, mlflow_run.data.metrics["score"]) == ("FINISHED", 475.5)
    assert (mlflow_run.info.start_time, mlflow_run.info.end_time) == (
        START_TIME * 1000,
        (START_TIME + 100) * 1000,
    )
    assert mlflow_run.data.params["layers.1"] == "64"
    names = backend.artifacts(mlflow_run)
    assert sorted(names) == ["configuration.json", "model", "provenance.json", "spec.json"]
    assert backend.artifact(mlflow_run, "model/normalisation.npz") == b"mean"
    assert json.loads(backend.artifact(mlflow_run, "configuration.json")) == run.configuration
    assert json.loads(backend.artifact(mlflow_run, "provenance.json")) == run.provenance
    definition = backend.artifact(parents["study"], "experiment.json")
    assert json.loads(definition) == experiment.definition


def test_a_run_and_its_parent_name_user_and_command(
    backend: SqliteBackend, experiment: TrackedExperiment
) -> None:
    """MLflow shows who pushed a run, and the command of rlexp as its source."""
    with open_tracker(backend, experiment) as sink:
        sink.begin(run_of(experiment), SyncPosition())
    for shown in (only_run(backend, run_of(experiment)), backend.parents(experiment)["ppo"]):
        assert shown.data.tags["mlflow.source.name"] == "rlexp run"
        assert shown.data.tags["mlflow.user"] == getpass.getuser()


def test_a_parent_spans_its_runs(backend: SqliteBackend, experiment: TrackedExperiment) -> None:
    """The run of a group starts with the first run below it, and ends with the last one."""
    with open_tracker(backend, experiment) as sink:
        for seed, end in ((0, 300), (1, 200)):
            run = run_of(experiment, seed, started=START_TIME + 50, group_started=START_TIME + 7)
            push_rows(sink, run, sample_rows([10]))
            sink.end(run, run_end(time=START_TIME + end))
        sink.summarise(ExperimentSummary(aggregates=[aggregate()], groups=["ppo"]))
    info = backend.parents(experiment)["ppo"].info
    assert (info.start_time, info.end_time) == (
        (START_TIME + 7) * 1000,
        (START_TIME + 300) * 1000,
    )


def test_a_parent_has_the_parameters_that_its_runs_share(
    backend: SqliteBackend, experiment: TrackedExperiment
) -> None:
    """A parameter that differs between tasks is not on the run of the label; nor is noise."""
    configurations = [
        {
            "label": "ppo",
            "task": t,
            "algorithm": {"gamma": 0.9, "_target_": "x"},
            "budget": {"n": n},
        }
        for t, n in (("A", 1), ("B", 2))
    ]
    defined = replace(experiment, definition={"configurations": configurations})
    unused: dict[str, object] = {
        "sde": False,
        "target_kl": None,
        "wrappers": [],
        "_target_": "x.Y",
    }
    run = run_of(defined, configuration={"algorithm": {"gamma": 0.9, **unused}, "seed": 3})
    with open_tracker(backend, defined) as sink:
        sink.begin(run, SyncPosition())
    assert backend.parents(experiment)["ppo"].data.params == {"algorithm.gamma": "0.9"}
    shown = only_run(backend, run)
    assert shown.data.params == {"algorithm.gamma": "0.9"}
    assert shown.info.run_name == "ppo test seed 0 on CartPole-v1"


def test_the_runs_of_a_sweep_share_what_is_not_searched(
    backend: SqliteBackend, experiment: TrackedExperiment
) -> None:
    """The run of a sweep has no parameter that its trials search."""
    algorithm = {"gamma": 0.9, "learning_rate": 0.1}
    definition = {
        "configurations": [{"label": "default", "task": "A", "algorithm": algorithm}],
        "sweep": {"space": [{"key": "algorithm.learning_rate", "type": "real"}]},
    }
    sweep = replace(experiment, definition=definition, is_sweep=True)
    run = run_of(sweep, group=sweep.name, configuration={"algorithm": algorithm}, trial=4)
    with open_tracker(backend, sweep) as sink:
        sink.begin(run, SyncPosition())
    assert backend.parents(sweep)[sweep.name].data.params == {"algorithm.gamma": "0.9"}


def test_a_label_that_becomes_known_is_corrected(
    backend: SqliteBackend, experiment: TrackedExperiment
) -> None:
    """A run that was pushed under another label has its name, tags and parent after the next."""
    early = run_of(experiment, label="ppo", group="ppo")
    with open_tracker(backend, experiment) as sink:
        push_rows(sink, early, sample_rows([10]))
    late = replace(early, label="tuned", group="tuned")
    with open_tracker(backend, experiment) as sink:
        sink.begin(late, SyncPosition())
    shown, parents = only_run(backend, late), backend.parents(experiment)
    assert ("tuned test seed 0", "tuned") == (shown.info.run_name, shown.data.tags["label"])
    assert shown.data.tags["mlflow.parentRunId"] == parents["tuned"].info.run_id


def test_groups_are_parents(backend: SqliteBackend, experiment: TrackedExperiment) -> None:
    """Runs of a group have one parent run, whichever process pushed them."""
    runs = [run_of(experiment, seed, group="ab"[seed % 2]) for seed in range(4)]
    for run in runs:
        with open_tracker(backend, experiment) as sink:
            push_rows(sink, run, sample_rows([10]))
    parents = backend.parents(experiment)
    assert sorted(parents) == ["a", "b"]
    parent_ids = [only_run(backend, run).data.tags["mlflow.parentRunId"] for run in runs]
    assert parent_ids == [parents[run.group].info.run_id for run in runs]


def test_experiments_of_one_name_stay_apart(backend: SqliteBackend) -> None:
    """Equal names in two folders are one MLflow experiment with two groups of runs."""
    first, second = (experiment_of(backend.project, name="same") for _ in range(2))
    for experiment in (first, second):
        with open_tracker(backend, experiment) as sink:
            push_rows(sink, run_of(experiment), sample_rows([10]))
    runs_by_experiment = [backend.runs("experiment", e.id) for e in (first, second)]
    assert [len(runs) for runs in runs_by_experiment] == [2, 2]
    assert len({run.info.experiment_id for runs in runs_by_experiment for run in runs}) == 1
    parents = [backend.parents(e)["ppo"].info.run_id for e in (first, second)]
    assert len(set(parents)) == 2


def test_a_cursor_that_was_never_written(
    backend: SqliteBackend, experiment: TrackedExperiment
) -> None:
    """After a kill before the position was stored, each point is in MLflow once."""
    run, rows = run_of(experiment), sample_rows(range(10, 2010, 10))
    with open_tracker(backend, experiment) as sink:
        push_rows(sink, run, rows[:150])
    later_rows = [replace(row, time=row.time + 5000) for row in rows]
    with open_tracker(backend, experiment) as sink:
        assert sink.begin(run, SyncPosition()).step == 1500
        push_rows(sink, run, later_rows)
        sink.end(run, run_end())
    assert sorted(backend.points(only_run(backend, run))) == points(rows)


def test_the_same_rows_again(backend: SqliteBackend, experiment: TrackedExperiment) -> None:
    """After repeated pushes of the same rows, each point is in MLflow once."""
    run = run_of(experiment)
    rows = sample_rows([10, 20], nan=math.nan, high=math.inf, low=-math.inf, plain=1.5)
    with open_tracker(backend, experiment) as sink:
        sink.begin(run, SyncPosition())
        for _ in range(3):
            assert sink.push(run, rows).step == 20
    stored_points = sorted(backend.points(only_run(backend, run)), key=str)
    assert str(stored_points) == str(sorted(points(rows), key=str))


def test_a_run_that_exists_twice(backend: SqliteBackend, experiment: TrackedExperiment) -> None:
    """Of several runs from a repeated request, only the one with points stays."""
    run, rows = run_of(experiment), sample_rows([10, 20])
    with open_tracker(backend, experiment) as sink:
        push_rows(sink, run, rows)
        client = backend.client()
        for _ in range(2):
            client.create_run(
                experiment_id_of(backend, experiment), tags={"rlexp": f'{{"run":"{run.id}"}}'}
            )
        sink.end(run, run_end())
    assert sorted(backend.points(only_run(backend, run))) == points(rows)


def experiment_id_of(backend: SqliteBackend, experiment: TrackedExperiment) -> str:
    """The id that MLflow gave to an experiment."""
    mlflow_experiment = backend.client().get_experiment_by_name(experiment.name)
    assert mlflow_experiment is not None
    return str(mlflow_experiment.experiment_id)


def test_a_run_that_was_deleted(backend: SqliteBackend, experiment: TrackedExperiment) -> None:
    """A run that was deleted in MLflow is pushed again from the start."""
    run, rows = run_of(experiment), sample_rows([10, 20])
    with open_tracker(backend, experiment) as sink:
        push_rows(sink, run, rows)
    backend.client().delete_run(only_run(backend, run).info.run_id)
    with open_tracker(backend, experiment) as sink:
        assert sink.begin(run, SyncPosition(step=20)).step == -1
        sink.push(run, rows)
    assert sorted(backend.points(only_run(backend, run))) == points(rows)


def test_a_run_that_vanishes_is_reported(
    backend: SqliteBackend, experiment: TrackedExperiment
) -> None:
    """A run that vanishes during a push is an error at its end."""
    run = run_of(experiment)
    with open_tracker(backend, experiment) as sink:
        push_rows(sink, run, sample_rows([10]))
        backend.client().delete_run(only_run(backend, run).info.run_id)
        with pytest.raises(TrackerUnreachable, match="uploaded again"):
            sink.end(run, run_end())


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
    backend: SqliteBackend, experiment: TrackedExperiment, state: str, status: str
) -> None:
    """The status is MLflow's, and a tag has the state of rlexp."""
    run, score = run_of(experiment), 1.5 if state == "completed" else None
    with open_tracker(backend, experiment) as sink:
        push_rows(sink, run, sample_rows([10]))
        sink.end(run, run_end(state=state, score=score))
    mlflow_run = only_run(backend, run)
    assert (mlflow_run.info.status, mlflow_run.data.tags["state"]) == (status, state)
    assert mlflow_run.data.metrics.get("score") == score


def test_a_run_that_goes_on(backend: SqliteBackend, experiment: TrackedExperiment) -> None:
    """A continued run is running again, and its old failure is removed when it completes."""
    run = run_of(experiment)
    with open_tracker(backend, experiment) as sink:
        push_rows(sink, run, sample_rows([10]))
        sink.end(run, run_end(state="failed", failure="crashed", reason="x" * 9000, score=None))
    failed_tags = only_run(backend, run).data.tags
    assert failed_tags["failure"] == "crashed"
    assert "sha256:" in failed_tags["reason"]
    continued_run = replace(run, provenance={"command": ["rlexp", "resume"]})
    with open_tracker(backend, experiment) as sink:
        sink.begin(continued_run, SyncPosition())
        assert only_run(backend, run).info.status == "RUNNING"
        sink.push(continued_run, sample_rows([20]))
        sink.end(continued_run, run_end(attempts=2))
    mlflow_run = only_run(backend, run)
    assert (mlflow_run.info.status, mlflow_run.data.tags["attempts"]) == ("FINISHED", "2")
    assert not {"failure", "reason"} & mlflow_run.data.tags.keys()
    assert json.loads(backend.artifact(mlflow_run, "provenance.json")) == continued_run.provenance


def test_models_are_not_uploaded(backend: SqliteBackend, experiment: TrackedExperiment) -> None:
    """With models=false everything except the model is uploaded."""
    run, model = run_of(experiment), backend.project / "model.zip"
    model.write_bytes(b"model")
    with open_tracker(backend, experiment, models=False) as sink:
        sink.begin(run, SyncPosition())
        sink.end(run, run_end(files={"model.zip": model, "spec.json": model}))
    names = backend.artifacts(only_run(backend, run))
    assert sorted(names) == ["configuration.json", "provenance.json", "spec.json"]
