"""The results of an experiment on the MLflow runs of its groups."""

import math
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from mlflow_backend import Embedded, mlflow_backend
from tracked_samples import (
    aggregate,
    ended,
    estimate,
    experiment_of,
    pushed,
    rows,
    run_of,
    variables_kept,
)

from rlexp.errors import TrackerRefused
from rlexp.trackers import (
    ExperimentSummary,
    TrackedAggregate,
    TrackedExperiment,
    TrackedRun,
    TrackedWinner,
)

SVG = '<svg xmlns="http://www.w3.org/2000/svg"/>'


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


def summarise(
    backend: Embedded, experiment: TrackedExperiment, *told: TrackedAggregate, **more: Any
) -> dict[str, Any]:
    """Say how the experiment stands; returns the runs of its groups."""
    settings = {key: more.pop(key) for key in ("register",) if key in more}
    with closing(backend.tracker(**settings).open(experiment)) as sink:
        groups = more.pop("groups", ["ppo"])
        sink.summarise(ExperimentSummary(aggregates=told, groups=groups, **more))
    return backend.parents(experiment)


def history(backend: Embedded, run: Any, key: str) -> list[float]:
    """Every value that a metric ever had, oldest first."""
    told = backend.client().get_metric_history(run.info.run_id, key)
    return [m.value for m in sorted(told, key=lambda m: m.timestamp)]


def test_an_aggregate_is_on_its_group(backend: Embedded, experiment: TrackedExperiment) -> None:
    """Numbers are metrics, the method is in tags, figures and reports are artifacts."""
    page = backend.project / "page.html"
    page.write_text("<html>")
    told = summarise(
        *(backend, experiment, aggregate(failed=1)),
        groups=["ppo", "a2c"],
        figures={"intervals": SVG},
        files={"report.html": page, "data/scores.csv": page},
    )
    metrics = {"iqm": 450.0, "iqm_low": 400.0, "iqm_high": 500.0, "n": 3.0, "planned": 3.0}
    assert told["ppo"].data.metrics == {**metrics, "failed": 1.0, "missing": 0.0}
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
    assert tags.items() <= told["ppo"].data.tags.items()
    assert told["ppo"].info.status == "FINISHED"
    assert told["a2c"].data.metrics == {}
    assert backend.artifact(told["ppo"], "figures/intervals.svg") == SVG.encode()
    assert backend.artifact(told["ppo"], "report/data/scores.csv") == b"<html>"


def test_tasks_have_keys_of_their_own(backend: Embedded, experiment: TrackedExperiment) -> None:
    """With several tasks each key contains the task, and the key without it is cleared."""
    summarise(backend, experiment, aggregate())
    both = aggregate(), aggregate(task="Acrobot-v1", estimate=estimate(-80.0, method="exact"))
    found = summarise(backend, experiment, *both)["ppo"].data
    assert found.metrics["iqm/CartPole-v1"] == 450.0
    assert found.metrics["iqm/Acrobot-v1"] == -80.0
    assert math.isnan(found.metrics["iqm"])
    assert found.tags["method/Acrobot-v1"] == "exact"
    assert "method" not in found.tags


def test_what_has_not_changed_is_not_written(
    backend: Embedded, experiment: TrackedExperiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A changed value is the newest even if the clock goes back; others are kept."""
    for value in (450.0, 450.0, 460.0):
        found = summarise(backend, experiment, aggregate(estimate=estimate(value)))
    monkeypatch.setattr(time, "time", lambda: 1_000_000_000.0)
    for value in (455.0, 455.0):
        found = summarise(backend, experiment, aggregate(estimate=estimate(value)))
    assert history(backend, found["ppo"], "iqm") == [450.0, 460.0, 455.0]
    assert found["ppo"].data.metrics["iqm"] == 455.0
    assert history(backend, found["ppo"], "n") == [3.0]


def test_no_score_any_more(backend: Embedded, experiment: TrackedExperiment) -> None:
    """Numbers of an aggregate without scores are cleared."""
    summarise(backend, experiment, aggregate())
    gone = aggregate(n=0, missing=3, estimate=None)
    for _ in range(2):
        found = summarise(backend, experiment, gone)["ppo"]
    assert math.isnan(found.data.metrics["iqm"])
    assert len(history(backend, found, "iqm")) == 2
    assert found.data.metrics["missing"] == 3.0
    assert "method" not in found.data.tags
    assert found.info.status == "RUNNING"


def test_another_aggregate_may_lead(backend: Embedded, experiment: TrackedExperiment) -> None:
    """Numbers of the earlier aggregate are cleared."""
    for name in ("median", "mean"):
        found = summarise(backend, experiment, aggregate(metric=name, title=name))["ppo"].data
    assert found.metrics["mean"] == 450.0
    assert math.isnan(found.metrics["median"])


def test_a_group_with_more_runs_goes_on(backend: Embedded, experiment: TrackedExperiment) -> None:
    """The group's run is running again until the next summary."""
    summarise(backend, experiment, aggregate())
    with closing(backend.tracker().open(experiment)) as sink:
        pushed(sink, run_of(experiment), rows([10]))
    assert backend.parents(experiment)["ppo"].info.status == "RUNNING"
    assert summarise(backend, experiment, aggregate())["ppo"].info.status == "FINISHED"


def finished(backend: Embedded, experiment: TrackedExperiment, **settings: Any) -> TrackedRun:
    """A run that was mirrored, with its model."""
    run, model = run_of(experiment), backend.project / "model.zip"
    model.write_bytes(b"model")
    with closing(backend.tracker(**settings).open(experiment)) as sink:
        pushed(sink, run, rows([10]))
        sink.end(run, ended(files={"model.zip": model}))
    return run


def test_a_winner_is_registered_once(backend: Embedded, experiment: TrackedExperiment) -> None:
    """The model is one version with its results, after any number of calls."""
    winner = TrackedWinner(trial=4, parameters={}, run=finished(backend, experiment))
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
    (run,) = backend.runs("rlexp.run", f"{experiment.id[:24]}{0:08x}")
    assert version.run_id == run.info.run_id


def test_a_winner_without_a_model(backend: Embedded, experiment: TrackedExperiment) -> None:
    """The missing model is an error after everything else was written."""
    run = finished(backend, experiment, models=False)
    winner = TrackedWinner(trial=4, parameters={}, run=run)
    with pytest.raises(TrackerRefused, match="has no model"):
        summarise(backend, experiment, aggregate(), winner=winner, register="none")
    assert backend.aggregates(experiment) == {"ppo": 450.0}
