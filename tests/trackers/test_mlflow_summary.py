"""The results of an experiment on MLflow's runs of its groups."""

import json
import math
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from mlflow_backend import SqliteBackend, mlflow_backend
from tracked_samples import (
    aggregate,
    estimate,
    experiment_of,
    preserved_environment,
    push_rows,
    run_end,
    run_of,
    sample_rows,
)

from rlexp.errors import TrackerRefused
from rlexp.trackers import (
    ExperimentSummary,
    TrackedAggregate,
    TrackedAnswer,
    TrackedExperiment,
    TrackedPhase,
    TrackedRun,
    TrackedWinner,
)
from rlexp.trackers.mlflow_summary import NOTE
from rlexp.trackers.mlflow_uri import run_list_page

SVG = '<svg xmlns="http://www.w3.org/2000/svg"/>'


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


def summarise(
    backend: SqliteBackend,
    experiment: TrackedExperiment,
    *aggregates: TrackedAggregate,
    **arguments: Any,
) -> dict[str, Any]:
    """Push a summary of the experiment, and return the runs of its groups."""
    settings = {key: arguments.pop(key) for key in ("register",) if key in arguments}
    with closing(backend.tracker(**settings).open(experiment)) as sink:
        groups = arguments.pop("groups", ["ppo"])
        sink.summarise(ExperimentSummary(aggregates=aggregates, groups=groups, **arguments))
    return backend.parents(experiment)


def in_service(backend: SqliteBackend, experiment: TrackedExperiment) -> Any:
    """The experiment as MLflow has it."""
    return backend.client().get_experiment_by_name(experiment.name)


def history(backend: SqliteBackend, run: Any, key: str) -> list[float]:
    """Every value that a metric ever had, oldest first."""
    measurements = backend.client().get_metric_history(run.info.run_id, key)
    return [m.value for m in sorted(measurements, key=lambda m: m.timestamp)]


def test_an_aggregate_is_on_its_group(
    backend: SqliteBackend, experiment: TrackedExperiment
) -> None:
    """Numbers are metrics, methods are tags, and figures and reports are artifacts."""
    page = backend.project / "page.html"
    page.write_text("<html>")
    group_runs = summarise(
        *(backend, experiment, aggregate(failed=1)),
        groups=["ppo", "a2c"],
        figures={"intervals": SVG},
        files={"report.html": page, "data/scores.csv": page},
    )
    metrics = {
        "score": 450.0,
        "iqm": 450.0,
        "iqm_low": 400.0,
        "iqm_high": 500.0,
        "n": 3.0,
        "planned": 3.0,
    }
    assert group_runs["ppo"].data.metrics == {**metrics, "failed": 1.0, "missing": 0.0}
    tags = {
        "method": "percentile bootstrap",
        "metric": "iqm",
        "in_words": aggregate().in_words,
        "level": "0.95",
        "resampling_seed": "7",
        "phase": "test",
        "task": "CartPole-v1",
        "score_rule": "final",
    }
    assert tags.items() <= group_runs["ppo"].data.tags.items()
    assert group_runs["ppo"].info.status == "FINISHED"
    assert group_runs["a2c"].data.metrics == {}
    assert backend.artifact(group_runs["ppo"], "figures/intervals.svg") == SVG.encode()
    assert backend.artifact(group_runs["ppo"], "report/data/scores.csv") == b"<html>"


def test_tasks_have_keys_of_their_own(
    backend: SqliteBackend, experiment: TrackedExperiment
) -> None:
    """With several tasks each key contains the task, and the key without it is cleared."""
    summarise(backend, experiment, aggregate())
    aggregates = (
        aggregate(),
        aggregate(task="Acrobot-v1", estimate=estimate(-80.0, method="exact")),
    )
    data = summarise(backend, experiment, *aggregates)["ppo"].data
    assert data.metrics["iqm/CartPole-v1"] == 450.0
    assert data.metrics["iqm/Acrobot-v1"] == -80.0
    assert math.isnan(data.metrics["iqm"])
    assert data.tags["method/Acrobot-v1"] == "exact"
    assert "method" not in data.tags


def test_what_has_not_changed_is_not_written(
    backend: SqliteBackend, experiment: TrackedExperiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only changed values are written, and the last one counts even if the clock goes back."""
    for value in (450.0, 450.0, 460.0):
        group_runs = summarise(backend, experiment, aggregate(estimate=estimate(value)))
    monkeypatch.setattr(time, "time", lambda: 1_000_000_000.0)
    for value in (455.0, 455.0):
        group_runs = summarise(backend, experiment, aggregate(estimate=estimate(value)))
    assert history(backend, group_runs["ppo"], "iqm") == [450.0, 460.0, 455.0]
    assert group_runs["ppo"].data.metrics["iqm"] == 455.0
    assert history(backend, group_runs["ppo"], "n") == [3.0]


def test_an_aggregate_that_loses_its_scores(
    backend: SqliteBackend, experiment: TrackedExperiment
) -> None:
    """Numbers of an aggregate that has no scores any more are cleared."""
    summarise(backend, experiment, aggregate())
    without_scores = aggregate(n=0, missing=3, estimate=None)
    for _ in range(2):
        group_run = summarise(backend, experiment, without_scores)["ppo"]
    assert math.isnan(group_run.data.metrics["iqm"])
    assert len(history(backend, group_run, "iqm")) == 2
    assert group_run.data.metrics["missing"] == 3.0
    assert "method" not in group_run.data.tags
    assert group_run.info.status == "RUNNING"


def test_another_aggregate_replaces_the_first(
    backend: SqliteBackend, experiment: TrackedExperiment
) -> None:
    """Numbers of an earlier aggregate are cleared."""
    for name in ("median", "mean"):
        data = summarise(backend, experiment, aggregate(metric=name, title=name))["ppo"].data
    assert data.metrics["mean"] == 450.0
    assert math.isnan(data.metrics["median"])


def test_a_group_with_more_runs_goes_on(
    backend: SqliteBackend, experiment: TrackedExperiment
) -> None:
    """The run of a group with new rows is running again until the next summary."""
    summarise(backend, experiment, aggregate())
    with closing(backend.tracker().open(experiment)) as sink:
        push_rows(sink, run_of(experiment), sample_rows([10]))
    assert backend.parents(experiment)["ppo"].info.status == "RUNNING"
    assert summarise(backend, experiment, aggregate())["ppo"].info.status == "FINISHED"


ANSWER = TrackedAnswer(
    text="ppo is better than a2c by 20",
    basis="Difference of the IQM: p = 0.01.",
    phases=[
        TrackedPhase(phase="tuning", planned=2, mean=estimate(490.0)),
        TrackedPhase(phase="test", planned=3, mean=estimate(460.0)),
    ],
    optimism=30.0,
    optimism_text="30 [10, 50]",
)


def test_the_note_answers_and_leads_to_the_report(
    backend: SqliteBackend, experiment: TrackedExperiment
) -> None:
    """The note has the answer, the numbers, and a link to the report that one run carries."""
    page = backend.project / "report.html"
    page.write_text("<html>")
    aggregates = (aggregate(failed=1), aggregate(label="a2c"))
    before = summarise(backend, experiment, *aggregates, groups=["ppo", "a2c"], answer=ANSWER)
    assert f"rlexp report {experiment.name}" in before["ppo"].data.tags["mlflow.note.content"]
    runs = summarise(
        *(backend, experiment, *aggregates),
        groups=["ppo", "a2c"],
        answer=ANSWER,
        files={"report.html": page},
    )
    for run in runs.values():
        note = run.data.tags["mlflow.note.content"]
        assert note.startswith("ppo is better than a2c by 20. Difference of the IQM: p = 0.01.")
        assert f"/runs/{runs['ppo'].info.run_id}/artifacts/report/report.html)" in note
    assert "3 of 3 test runs, 1 failed" in runs["ppo"].data.tags["mlflow.note.content"]
    assert backend.artifacts(runs["ppo"], "report") == ["report/report.html"]
    assert backend.artifacts(runs["a2c"], "report") == []


def test_the_run_of_a_sweep_carries_its_result(
    backend: SqliteBackend, experiment: TrackedExperiment
) -> None:
    """The score of a sweep is the test score of its winner; tuning is beside it."""
    sweep = replace(experiment, is_sweep=True)
    tested = run_of(sweep, label="tuned", group="tuned")
    winner = TrackedWinner(trial=4, parameters={"algorithm.gamma": 0.9}, run=tested)
    tuned = aggregate(label="tuned")
    runs = summarise(
        *(backend, sweep, tuned, aggregate(label="default", estimate=estimate(420.0))),
        groups=[sweep.name, "tuned", "default"],
        winner=winner,
        answer=ANSWER,
    )
    data = runs[sweep.name].data
    numbers = {"score": 450.0, "mean_tuning": 490.0, "mean_test": 460.0, "optimism": 30.0}
    assert numbers.items() <= data.metrics.items()
    assert {"winner": "trial 4", "winner/algorithm.gamma": "0.9"}.items() <= data.tags.items()
    assert (
        "Optimism of tuning: 30 \\[10, 50\\]. Only test scores are results."
        in (data.tags["mlflow.note.content"])
    )
    assert runs["default"].data.metrics["score"] == 420.0


def test_a_sweep_without_a_winner_has_no_score(
    backend: SqliteBackend, experiment: TrackedExperiment
) -> None:
    """The run of a sweep that still searches is running, and has no number."""
    sweep = replace(experiment, is_sweep=True)
    run = summarise(backend, sweep, groups=[sweep.name])[sweep.name]
    assert ("RUNNING", {}) == (run.info.status, run.data.metrics)
    assert "no winner yet" in run.data.tags["mlflow.note.content"]


def test_the_view_of_the_runs_shows_their_scores(
    backend: SqliteBackend, experiment: TrackedExperiment
) -> None:
    """The experiment stores the view that the address of its list of runs opens."""
    summarise(backend, experiment, aggregate())
    view = json.loads(in_service(backend, experiment).tags["mlflow.sharedViewState.rlexp"])
    shown = [f"metrics.`{name}`" for name in ("score", "iqm_low", "iqm_high", "n")]
    assert view["selectedColumns"] == view["columnOrder"] == shown
    assert run_list_page("http://host:1/", "7") == (
        "http://host:1/#/experiments/7/runs?workflowType=machine_learning&viewStateShareKey=rlexp"
    )


@pytest.mark.parametrize(("phase", "search"), [("test", "tags.`phase` = 'test'"), ("tuning", "")])
def test_the_view_of_the_curves_groups_test_runs_by_label(
    backend: SqliteBackend, experiment: TrackedExperiment, phase: str, search: str
) -> None:
    """The experiment stores the view that the link in its description opens."""
    summarise(backend, experiment, aggregate(phase=phase))
    tags = in_service(backend, experiment).tags
    view = json.loads(tags["mlflow.sharedViewState.rlexp_curves"])
    assert view["groupBy"]["groupByKeys"] == [{"mode": "tag", "groupByData": "label"}]
    assert view["searchFilter"] == search
    assert "viewStateShareKey=rlexp_curves&compareRunsMode=CHART" in tags[NOTE]


def test_the_experiment_says_the_answer_and_keeps_a_users_description(
    backend: SqliteBackend, experiment: TrackedExperiment
) -> None:
    """A new answer replaces the old one; a description that a user wrote stays."""
    for text in ("ppo is better than a2c by 20", "undecided"):
        summarise(backend, experiment, aggregate(), answer=TrackedAnswer(text=text))
        note = in_service(backend, experiment).tags[NOTE]
        assert note.startswith(f"{text}. ")
        assert note.endswith(f"Records: `runs/{experiment.name}`.")
    theirs = f"Ours.\n\n{note}\n\nRead the first line."
    identity = in_service(backend, experiment).experiment_id
    backend.client().set_experiment_tag(identity, NOTE, theirs)
    summarise(backend, experiment, aggregate(), answer=TrackedAnswer(text="new"))
    assert in_service(backend, experiment).tags[NOTE] == theirs


def finished_run(
    backend: SqliteBackend, experiment: TrackedExperiment, **settings: Any
) -> TrackedRun:
    """A run that was mirrored together with its model."""
    run, model = run_of(experiment), backend.project / "model.zip"
    model.write_bytes(b"model")
    with closing(backend.tracker(**settings).open(experiment)) as sink:
        push_rows(sink, run, sample_rows([10]))
        sink.end(run, run_end(files={"model.zip": model}))
    return run


def test_a_winner_is_registered_once(
    backend: SqliteBackend, experiment: TrackedExperiment
) -> None:
    """The model has one version with the newest results, after any number of summaries."""
    winner = TrackedWinner(trial=4, parameters={}, run=finished_run(backend, experiment))
    for iqm in (450.0, 460.0):
        summarise(
            backend,
            experiment,
            aggregate(estimate=estimate(iqm)),
            winner=winner,
            register="best 'one'",
        )
    (version,) = [v for v in backend.client().search_model_versions() if v.name == "best 'one'"]
    assert {"trial": "4", "n": "3", "iqm": "460.0"}.items() <= version.tags.items()
    assert str(version.source).endswith("/artifacts/model")
    (run,) = backend.runs("run", f"{experiment.id[:24]}{0:08x}")
    assert version.run_id == run.info.run_id


def test_a_winner_without_a_model(backend: SqliteBackend, experiment: TrackedExperiment) -> None:
    """A missing model is an error after everything else was written."""
    run = finished_run(backend, experiment, models=False)
    winner = TrackedWinner(trial=4, parameters={}, run=run)
    with pytest.raises(TrackerRefused, match="has no model"):
        summarise(backend, experiment, aggregate(), winner=winner, register="none")
    assert backend.aggregates(experiment) == {"ppo": 450.0}
