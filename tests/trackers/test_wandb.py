"""W&B online: its client and core with a test server."""

import base64
import json
import math
import platform
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from backends import rows_of
from tracked_samples import estimate
from wandb_backend import KEY, WandBBackend, wandb_online_backend
from wandb_samples import SVG, aggregate, experiment_in, run_end, tracked_run
from wandb_storage import StoredRun

from rlexp.trackers import (
    ExperimentSummary,
    SyncPosition,
    TrackedAnswer,
    TrackedPhase,
    TrackedRun,
    TrackerConnection,
)
from rlexp.trackers.wandb import WandB

STEPS = list(range(0, 101, 10))


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


def stored_run(backend: WandBBackend, run: TrackedRun) -> StoredRun:
    """The run that the server has stored."""
    return backend.server.runs[run.id]


def test_several_open_runs_are_shown_completely(
    backend: WandBBackend, sink: TrackerConnection
) -> None:
    """Runs that are open at once keep separate points, names, groups, settings and ends."""
    runs = [tracked_run(seed) for seed in (3, 4)]
    for run in runs:
        assert sink.begin(run, SyncPosition()).step == -1
    for start in (0, 50):
        for run in runs:
            sink.push(run, rows_of(range(start, start + 50, 10), loss=run.seed))
    assert sink.end(runs[0], run_end()).step == 90
    sink.end(runs[1], run_end(state="failed", score=None, failure="nan", reason="a nan\nindeed"))
    for run in runs:
        points = [("loss", step, run.seed) for step in range(0, 100, 10)]
        assert stored_run(backend, run).points == points
    first, second = (stored_run(backend, run) for run in runs)
    fields = [first.about[key] for key in ("displayName", "groupName", "jobType", "project")]
    assert fields == ["cartpole PPO seed 3", "cartpole/PPO", "test", "rlexp"]
    config = {key: item["value"] for key, item in first.config.items()}
    assert config["algorithm"] == {"learning_rate": 0.1, "layers": [64, 64]}
    assert (config["seed"], config["commit"]) == (3, "c0ffee")
    assert any(metric.get("5") for metric in config["_wandb"]["m"]), "no step metric"
    assert (first.summary["score"], first.summary["state"], first.exit_code) == (5, "completed", 0)
    assert (second.summary["failure"], second.exit_code) == ("nan", 1)


def test_non_finite_values_arrive(backend: WandBBackend, sink: TrackerConnection) -> None:
    """NaN and infinite values arrive unchanged."""
    run = replace(tracked_run(), configuration={"algorithm": {"bounds": [math.inf, math.nan]}})
    sink.begin(run, SyncPosition())
    sink.push(run, rows_of([0], a=math.nan, b=math.inf, c=-math.inf, d=1e300))
    sink.end(run, run_end(score=math.nan))
    (line,) = stored_run(backend, run).history
    assert math.isnan(line["a"])
    assert (line["b"], line["c"], line["d"]) == (math.inf, -math.inf, 1e300)
    assert stored_run(backend, run).summary["score"] == "NaN"
    assert stored_run(backend, run).config["algorithm"]["value"] == {"bounds": ["Infinity", "NaN"]}


def test_no_private_data_is_uploaded_and_nothing_is_printed(
    backend: WandBBackend,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No code, command, path or machine name is uploaded, and the key is only in a header."""
    monkeypatch.setenv("WANDB_RUN_ID", "of-another")
    monkeypatch.setenv("WANDB_SWEEP_ID", "of-another")
    model = tmp_path / "model.zip"
    model.write_bytes(b"the weights")
    tracker = backend.tracker()
    assert isinstance(tracker, WandB)
    sink = replace(tracker, models=True).open(experiment_in(tmp_path))
    run = tracked_run()
    sink.begin(run, SyncPosition())
    sink.push(run, rows_of(STEPS, loss=1.0))
    sink.end(run, run_end(files={"model.zip": model}))
    sink.close()
    assert list(backend.server.runs) == [run.id]
    assert set(stored_run(backend, run).uploaded) == {"wandb-summary.json", "config.yaml"}
    artifacts = backend.server.storage.artifacts.values()
    assert [(a["artifactTypeName"], a["state"]) for a in artifacts] == [
        ("configuration", "COMMITTED"),
        ("model", "COMMITTED"),
    ]
    authorized = [r for r in backend.server.traffic if "Authorization" in r.headers]
    assert authorized, "the key was never sent"
    encoded = base64.b64encode(f"api:{KEY}".encode()).decode()
    for request in backend.server.traffic:
        other_headers = {k: v for k, v in request.headers.items() if k != "Authorization"}
        sent = f"{request.path} {other_headers} {request.body.decode(errors='replace')}"
        for secret in (KEY, encoded, platform.node(), str(Path.cwd()), sys.argv[0], "of-nobody"):
            # A short name of the machine may also occur inside a random word.
            assert re.search(rf"(?<!\w){re.escape(secret)}(?!\w)", sent) is None
    remaining = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in remaining if KEY.encode() in path.read_bytes()]
    assert remaining == [model], "files stay behind"
    assert capfd.readouterr() == ("", "")


def test_the_summary_is_replaced(
    backend: WandBBackend, sink: TrackerConnection, tmp_path: Path
) -> None:
    """The summary run has the newest aggregates, and figures without scripts."""
    experiment = experiment_in(tmp_path)
    figures = {"intervals": SVG, "evil": "<svg><script>alert(1)</script></svg>"}
    for iqm in (1.0, 2.0):
        rows = [aggregate(iqm), aggregate(None, "A2C")]
        sink.summarise(ExperimentSummary(aggregates=rows, groups=["PPO"], figures=figures))
        assert backend.aggregates(experiment) == {"PPO": iqm}
    (run,) = backend.server.runs.values()
    assert run.summary["iqm/PPO/CartPole-v1"] == 2
    assert run.about["displayName"] == "cartpole"
    figure = run.summary["figures/intervals"]
    assert run.uploaded[figure["path"]].decode() == SVG
    assert not [name for name in run.summary if "evil" in name]
    assert len(set(run.steps)) == len(run.steps)


def test_runs_say_what_they_belong_to(backend: WandBBackend, sink: TrackerConnection) -> None:
    """The settings and tags of a run name its experiment, folder, phase, trial and seed."""
    run = replace(tracked_run(), label="trial 2", phase="selection", trial=2, tags=("odd", "odd"))
    sink.begin(run, SyncPosition())
    sink.end(run, run_end(training_seconds=90.0))
    stored = stored_run(backend, run)
    assert stored.about["displayName"] == "cartpole trial 2 selection seed 3"
    assert stored.about["groupName"] == "cartpole/trial 2 selection"
    assert set(stored.about["tags"]) == {"cartpole", "selection", "odd"}
    keys = ("experiment", "folder", "phase", "trial", "seed")
    assert [stored.config[key]["value"] for key in keys] == [
        *("cartpole", "runs/cartpole/ppo-3", "selection", 2, 3)
    ]
    assert stored.summary["training_seconds"] == 90


def test_tasks_have_separate_groups(backend: WandBBackend, tmp_path: Path) -> None:
    """Runs of one label on two tasks are in two groups."""
    tasks = ("CartPole-v1", "Acrobot-v1")
    definition = {"configurations": [{"task": task, "fingerprint": "f"} for task in tasks]}
    sink = backend.tracker().open(replace(experiment_in(tmp_path), definition=definition))
    for seed, task in enumerate(tasks):
        sink.begin(replace(tracked_run(seed), task=task), SyncPosition())
    groups = {stored.about["groupName"] for stored in backend.server.runs.values()}
    assert groups == {f"cartpole/PPO {task}" for task in tasks}
    sink.close()


def test_the_table_of_runs_has_the_last_and_the_best_return(
    backend: WandBBackend, sink: TrackerConnection
) -> None:
    """The summary of a run has the last and the largest mean return of its evaluations."""
    run = tracked_run()
    sink.begin(run, SyncPosition())
    for step, value in ((0, 1.0), (10, 7.0), (20, 5.0)):
        sink.push(run, rows_of([step], **{"eval/mean_reward": value}))
    sink.end(run, run_end())
    assert stored_run(backend, run).summary["eval/mean_reward"] == {"last": 5, "max": 7}


def test_a_report_is_connected_with_the_configurations(
    backend: WandBBackend, tmp_path: Path
) -> None:
    """The report is an artifact of the summary run, which shares its inputs with the runs."""
    runs = [tracked_run(seed) for seed in (3, 4)]
    defined = {"label": "PPO", "task": "CartPole-v1", "fingerprint": runs[0].fingerprint}
    experiment = replace(
        experiment_in(tmp_path),
        definition={"configurations": [{**defined, **runs[0].configuration}]},
    )
    page = tmp_path / "index.html"
    page.write_text("<p>the report</p>")
    sink = backend.tracker().open(experiment)
    for run in runs:
        sink.begin(run, SyncPosition())
        sink.end(run, run_end())
    scored = replace(aggregate(2.0), scores={4: 3.0, 3: 1.0}, unscored={5: "failed"})
    sink.summarise(
        ExperimentSummary(aggregates=[scored], groups=["PPO"], files={"index.html": page})
    )
    sink.close()
    storage = backend.server.storage
    (summary,) = [r for r in storage.runs.values() if r.about["jobType"] == "summary"]
    name = f"configuration-{runs[0].fingerprint}"
    assert sorted(storage.used) == sorted((r, name) for r in (runs[0].id, runs[1].id, summary.id))
    kinds = [a["artifactTypeName"] for a in storage.artifacts.values()]
    assert kinds.count("configuration") == 1, "equal configurations are several versions"
    (report,) = [a for a in storage.artifacts.values() if a["artifactTypeName"] == "report"]
    assert (report["runName"], report["state"]) == (summary.id, "COMMITTED")
    table = json.loads(summary.uploaded[summary.summary["scores"]["path"]])
    assert [row[:6] for row in table["data"]] == [
        ["PPO", "CartPole-v1", "test", 3, "completed", 1.0],
        ["PPO", "CartPole-v1", "test", 4, "completed", 3.0],
        ["PPO", "CartPole-v1", "test", 5, "failed", None],
    ]


def test_the_summary_run_says_the_answer(backend: WandBBackend, tmp_path: Path) -> None:
    """Its notes say which label is better and how to write the report; its values hold the phases."""
    experiment = experiment_in(tmp_path)
    scores = estimate(4.0)
    answer = TrackedAnswer(
        text="near is better than far by 20",
        basis="Five runs each",
        phases=[TrackedPhase(phase="test", planned=2, mean=scores)],
        optimism=1.5,
    )
    summary = ExperimentSummary(aggregates=[aggregate(2.0)], groups=["PPO"], answer=answer)
    sink = backend.tracker().open(experiment)
    sink.summarise(summary)
    sink.close()
    (run,) = backend.server.storage.runs.values()
    assert run.about["notes"].startswith("near is better than far by 20. Five runs each\n\n")
    assert f"`rlexp report {experiment.name}`" in run.about["notes"]
    shown = {key: run.summary[key] for key in ("answer", "winner/mean_test", "winner/optimism")}
    assert list(shown.values()) == [answer.in_words, 4.0, 1.5]
