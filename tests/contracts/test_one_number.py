"""An aggregate is the same on every surface, to the last digit shown."""

import csv
import html
import json
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest
from quick_parts import quick_parts
from stored_runs import PROVENANCE, STARTED, completed
from stored_sweeps import WORDS as SWEEP
from stored_sweeps import StoredSweep, finished_sweep
from typer.testing import CliRunner

import rlexp
from rlexp.app.execution.request import read_request
from rlexp.app.exporting.huggingface import ModelCard, describe_result, render_card
from rlexp.app.reading.headline_aggregate import HeadlineAggregate, read_headline_aggregate
from rlexp.app.reporting.evidence import collect_evidence
from rlexp.app.reporting.mirror_entry import answer_reader
from rlexp.app.reporting.next_commands import card_and_sequential
from rlexp.app.tracking.run_labels import RunLabels
from rlexp.app.tracking.tracked_records import read_summary, tracked_experiment
from rlexp.app.workspace import Workspace
from rlexp.cli.every_command import app
from rlexp.config.config_files import packaged_root
from rlexp.config.report_settings import read_report
from rlexp.metrics.estimate import Estimate
from rlexp.metrics.estimate_text import ends, every_run, sentence, with_ends
from rlexp.protocol.seeds import Phase
from rlexp.records.events import RunStarted
from rlexp.reports.analysis.estimates import aggregates, per_task
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.formats.as_json import as_json_value
from rlexp.store.journal import JournalWriter
from rlexp.store.layout import Layout
from rlexp.store.runs import new_attempt, write_experiment, write_run
from rlexp.text import format_number
from rlexp.trackers import TrackedAggregate
from rlexp.trackers.interval_figure import draw_intervals
from rlexp.trackers.mlflow_summary import _aggregate_metrics as numbers_in_mlflow
from rlexp.trackers.mlflow_summary import _aggregate_tags as tags_in_mlflow
from rlexp.trackers.tensorboard import TensorBoardSink
from rlexp.trackers.wandb_requests import summary_request

CARTPOLE, ACROBOT = "CartPole-v1", "Acrobot-v1"
SCORES = {
    ("a2c", CARTPOLE): (110.25, 420.5, 500.0, 333.0, 61.75),
    ("ppo", CARTPOLE): (480.0, 497.5, 491.25, 500.0, 470.0),
    ("a2c", ACROBOT): (-310.0, -95.5, -500.0, -120.0, -101.0),
    ("ppo", ACROBOT): (-90.5, -88.0, -93.25, -85.0, -99.0),
}
SHORT = ("budget.steps=100", "budget.evaluation_every=50", "budget.final_episodes=2")
EXPERIMENTS = {
    "two": ("environment=cartpole", "seeds.test=2"),
    "three": ("environment=cartpole", "seeds.test=3"),
    "five": ("environment=cartpole", "seeds.test=5"),
    "tasks": ("environment=cartpole,acrobot", "seeds.test=3"),
}


@dataclass(frozen=True, slots=True)
class Study:
    """A workspace with finished experiments of made-up runs."""

    workspace: Workspace

    def output(self, *words: str, code: int = 0) -> str:
        """The output of a command that must end with this exit code."""
        result = CliRunner().invoke(app, list(words), catch_exceptions=False)
        assert code == result.exit_code, result.output
        return result.stdout

    def json(self, *words: str) -> Any:
        """The JSON output of the command line."""
        return json.loads(self.output(*words, "--json"))

    def estimates(self, name: str) -> dict[tuple[str, str], Estimate]:
        """The estimate of every label on every task of an experiment, from the Python API."""
        loaded = rlexp.load(self.workspace.folder / "runs" / name)
        tasks = (CARTPOLE, ACROBOT) if name == "tasks" else (CARTPOLE,)
        by_label_and_task = {(k, t): loaded.estimate(k, t) for k in ("a2c", "ppo") for t in tasks}
        return {key: value for key, value in by_label_and_task.items() if value is not None}

    def command(self, name: str) -> list[str]:
        """The command that made an experiment."""
        return ["algorithm=a2c,ppo", f"experiment={name}", *EXPERIMENTS[name], *SHORT]

    def store(self, name: str) -> None:
        """Store the runs of an experiment with made-up scores."""
        request = read_request(self.command(name), self.workspace)
        paths = self.workspace.layout.experiment(name)
        write_experiment(paths, request.experiment)
        for configuration, spec in request.experiment.specs(Phase.TEST):
            run = paths.run(spec.name)
            write_run(run, spec)
            attempt = new_attempt(run, {"allowed": []}, PROVENANCE, "")
            started = RunStarted(time=STARTED, attempt=1, pid=1, host="here")
            score = SCORES[configuration.label, configuration.task][spec.seed]
            with closing(JournalWriter(attempt.journal)) as journal:
                for event in (started, *completed(score)):
                    journal.append(event)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Study]:
    """Experiments of two labels with two, three and five runs, on one or two tasks."""
    folder = tmp_path_factory.mktemp("study")
    stored_study = Study(Workspace(folder, Layout(folder / "runs")))
    with pytest.MonkeyPatch.context() as monkeypatch:
        quick_parts(monkeypatch)
        monkeypatch.chdir(folder)
        for name in EXPERIMENTS:
            stored_study.store(name)
        yield stored_study


def as_json(estimate: Estimate) -> Any:
    """An estimate in JSON form."""
    return json.loads(json.dumps(asdict(estimate)))


def in_table(estimate: Estimate) -> str:
    """An estimate in table form: the value, and the interval if there is one."""
    value_text = format_number(estimate.estimate, estimate.digits)
    return value_text if estimate.low is None else f"{value_text} {ends(estimate, 0)}"


def rows_of(text: str, *words: str) -> list[str]:
    """The lines of a text that contain all these words."""
    return [line for line in text.splitlines() if all(word in line for word in words)]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_run_and_show_equal_python(study: Study, name: str) -> None:
    """`run` and `show` print the estimates of the Python API, and say where runs are too few."""
    expected = study.estimates(name)
    run_text = study.output("run", *study.command(name), "--full")
    show_text = study.output("show", name, "--full")
    short = [study.output("run", *study.command(name)), study.output("show", name)]
    for (label, _), estimate in expected.items():
        assert all(rows_of(text, label, in_table(estimate)) for text in short)
        line = sentence("IQM", estimate)
        assert f"  {line}\n" in run_text
        assert f"  {line}\n" in show_text
        assert every_run(estimate) in line
        # The number of runs stands before the reason, and once.
        has_note = "; too few runs for an interval)" in line and line.count("n = 2") == 1
        assert (name == "two") == has_note == (estimate.low is None)
    cells = study.json("run", *study.command(name))["summary"]["cells"]
    (phase,) = study.json("show", name)["phases"]
    for printed_cells in (cells, phase["cells"]):
        estimates = {(c["label"], c["task"]): c["estimate"] for c in printed_cells}
        assert {key: as_json(value) for key, value in expected.items()} == estimates


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_lists_show_the_same(study: Study, name: str) -> None:
    """`ls --group` shows value, interval and few runs; `status` shows no aggregate."""
    table, rows = study.output("ls", name, "--group"), study.json("ls", name, "--group")["rows"]
    for (label, task), estimate in study.estimates(name).items():
        (line,) = rows_of(table, label, task)
        assert f"{format_number(estimate.estimate, estimate.digits)} (n = " in line
        assert every_run(estimate) in line
        for end in (estimate.low, estimate.high):
            assert ("—" if end is None else format_number(end, estimate.digits)) in line
        (row,) = [r for r in rows if (r["label"], r["task"]) == (label, task)]
        assert as_json(estimate) == row["interval"]
        assert (row["estimate"], row["low"]) == (estimate.estimate, estimate.low)
    assert ("too few runs for an interval (n = 2)" in table) == (name == "two")
    assert "IQM" not in study.output("status", name)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_comparisons_show_the_same(study: Study, name: str) -> None:
    """`compare` shows the estimates of the Python API in text and in JSON."""
    text, document = study.output("compare", name, "--full"), study.json("compare", name)
    blocks = {b.get("name"): b for part in document["parts"] for b in part["blocks"]}
    rows = {(row[1], row[0]): row for row in blocks["tasks"]["rows"]}
    for (label, task), estimate in study.estimates(name).items():
        assert as_json(estimate) == rows[label, task][3]
        assert rows_of(text, task, label, in_table(estimate), every_run(estimate))
    assert ("too few runs for an interval (n = 2)" in text.lower()) == (name == "two")
    if name == "tasks":
        assert "6 of 6: 3 on each of 2 tasks" in text
    else:
        leading = {row[0]: row[2] for row in blocks["aggregates"]["rows"]}
        expected = {label: as_json(value) for (label, _), value in study.estimates(name).items()}
        assert expected == leading


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_format_of_a_report_shows_the_same(study: Study, name: str) -> None:
    """The HTML, CSV, LaTeX, Markdown and JSON of a report show the same estimates."""
    formats = "html,csv,latex,md,json"
    study.output("report", name, "--format", formats, "--set", "section=[tasks,aggregates]")
    files = {
        p.name: p for p in (study.workspace.folder / "reports" / name).rglob("*") if p.is_file()
    }
    texts = {key: path.read_text() for key, path in files.items()}
    page = html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", texts["report.html"])))
    latex = re.sub(r"[{}$\\~]|numprint|text|thinspace", "", texts["tasks.tex"])
    document = json.loads(texts["report.json"])
    blocks = {b.get("name"): b for part in document["parts"] for b in part["blocks"]}
    for (label, task), estimate in study.estimates(name).items():
        (json_row,) = [r for r in blocks["tasks"]["rows"] if r[:2] == [task, label]]
        assert as_json(estimate) == json_row[3]
        assert in_table(estimate) in page
        assert every_run(estimate) in page
        assert rows_of(
            texts["report.md"].replace("\\", ""),
            task,
            label,
            in_table(estimate),
            every_run(estimate),
        )
        assert in_table(estimate).replace("−", "-") in latex.replace("−", "-")
        csv_row = next(
            r
            for r in csv.DictReader(texts["tasks.csv"].splitlines())
            if (r["task"], r["label"]) == (task, label)
        )
        csv_ends = [csv_row[f"IQM {key}"] for key in ("estimate", "low", "high", "reason")]
        numbers = (estimate.estimate, estimate.low, estimate.high)
        expected = ["" if value is None else repr(value) for value in numbers]
        assert [*expected, estimate.reason or ""] == csv_ends
    note = "too few runs for an interval (n = 2)"
    for text in (page, latex, texts["report.md"], texts["tasks.csv"], texts["report.json"]):
        assert (name == "two") == (note in text.lower())


def summary_of(study: Study, name: str) -> list[TrackedAggregate]:
    """The aggregates that trackers receive, also written to TensorBoard."""
    paths = study.workspace.layout.experiment(name)
    labels = RunLabels(paths)
    experiment = tracked_experiment(paths, labels)
    summary, _ = read_summary(
        paths, experiment, labels, HeadlineAggregate(), answer_reader(study.workspace)
    )
    card, _ = card_and_sequential(name, None, study.workspace)
    assert card is not None
    assert summary.answer is not None
    assert (card.text, card.basis) == (summary.answer.text, summary.answer.basis)
    tracked_aggregates = summary.aggregates
    rows = summary_request(experiment, summary)["rows"]
    for aggregate, row in zip(tracked_aggregates, rows, strict=True):
        assert aggregate.estimate is not None
        numbers = (aggregate.estimate.estimate, aggregate.estimate.low, aggregate.estimate.high)
        assert (*numbers, aggregate.in_words) == (*row[7:10], row[-1])
    TensorBoardSink(study.workspace.folder / "tensorboard" / name, experiment).summarise(summary)
    return list(tracked_aggregates)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_trackers_receive_the_same(study: Study, name: str) -> None:
    """MLflow, W&B, TensorBoard and the interval figure receive the same aggregates."""
    expected, tracked_aggregates = study.estimates(name), summary_of(study, name)
    assert expected == {(a.label, a.task): a.estimate for a in tracked_aggregates}
    for aggregate in tracked_aggregates:
        estimate = expected[aggregate.label, aggregate.task]
        expected_metrics = {
            "score": estimate.estimate,
            "iqm": estimate.estimate,
            "iqm_low": estimate.low,
            "iqm_high": estimate.high,
        }
        mlflow_metrics = numbers_in_mlflow([aggregate])
        assert {k: v for k, v in expected_metrics.items() if v is not None} == {
            k: v for k, v in mlflow_metrics.items() if k.startswith(("iqm", "score"))
        }
        tags = tags_in_mlflow([aggregate])
        assert (sentence("IQM", estimate), estimate.reason) == (tags["in_words"], tags["reason"])
        assert in_table(estimate) in draw_intervals([aggregate])
        scalars = in_tensorboard(study, name, aggregate)
        assert scalars["~ aggregate/in words"] == sentence("IQM", estimate)
        assert scalars["~ aggregate/iqm"] == pytest.approx(estimate.estimate, rel=1e-6)
        assert scalars["score"] == scalars["~ aggregate/iqm"]
        assert ("~ aggregate/low" in scalars) == (estimate.low is not None)


def in_tensorboard(study: Study, name: str, aggregate: TrackedAggregate) -> dict[str, Any]:
    """The values in the TensorBoard event file of a label, by tag."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    from tensorboard.util.tensor_util import make_ndarray

    folder = study.workspace.folder / "tensorboard" / name / "~ aggregates"
    (path,) = (folder / f"{aggregate.label} {aggregate.task}").glob("*tfevents*")
    values = (v for event in EventFileLoader(str(path)).Load() for v in event.summary.value)
    contents = {value.tag: make_ndarray(value.tensor).item() for value in values}
    return {k: v.decode() if isinstance(v, bytes) else v for k, v in contents.items()}


@pytest.mark.parametrize("name", ["two", "three", "five"])
def test_the_card_of_a_model_shows_the_same(study: Study, name: str) -> None:
    """The head and the table of a model card show the same estimate."""
    for (label, task), estimate in study.estimates(name).items():
        evidence = collect_evidence([f"{name}/{label}"], Phase.TEST, study.workspace)
        parts = read_report(("metric=[iqm]",), study.workspace.folder)
        context = ReportContext(evidence=evidence, settings=parts.settings, metrics=parts.metrics)
        card = ModelCard(
            inquiry=context,
            estimates=per_task(context)[0],
            algorithm=label,
            loader="PPO",
            model="model.zip",
            folders={0: "seed-0"},
            foreign=(),
            report=False,
        )
        assert sentence("IQM", estimate) in describe_result(card)
        body = render_card(card).decode()
        assert rows_of(body.replace("\\", ""), task, in_table(estimate), every_run(estimate))


def test_a_page_over_tasks_counts_runs_by_task(study: Study) -> None:
    """An aggregate over two tasks says how many runs each of them has."""
    parts = read_report((), study.workspace.folder)
    evidence = collect_evidence(["tasks"], Phase.TEST, study.workspace)
    context = ReportContext(evidence=evidence, settings=parts.settings, metrics=parts.metrics)
    for aggregate in aggregates(context):
        assert "(n = 3 on each of 2 tasks)" in sentence("IQM", aggregate.intervals["iqm"])
        gap = aggregate.intervals["optimality_gap"]
        assert 0 <= (gap.low or 0) <= (gap.high or 0) <= 1


@pytest.fixture
def swept(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> StoredSweep:
    """A finished sweep in the current folder."""
    quick_parts(monkeypatch)
    monkeypatch.chdir(tmp_path)
    return finished_sweep(tmp_path, tmp_path_factory)


def test_a_sweep_shows_one_winner(swept: StoredSweep) -> None:
    """The outcome of a sweep, its report and `show` give the same scores."""
    sweep_study = Study(swept.study)
    report = sweep_study.json("sweep", *SWEEP)["report"]
    blocks = {b.get("name"): b for part in report["parts"] for b in part["blocks"]}
    columns = [column["title"] for column in blocks["winner-scores"]["columns"]]
    scores = [dict(zip(columns, r, strict=True)) for r in blocks["winner-scores"]["rows"]]
    parts = read_report((), sweep_study.workspace.folder)
    evidence = collect_evidence(["made_up"], Phase.TEST, sweep_study.workspace)
    context = ReportContext(evidence=evidence, settings=parts.settings, metrics=parts.metrics)
    (phase,) = sweep_study.json("show", "made_up")["phases"]
    outcome = sweep_study.output("sweep", *SWEEP, "--full")
    for aggregate in aggregates(context):
        mean = aggregate.intervals["mean"]
        (row,) = [s for s in scores if (s["label"], s["phase"]) == (aggregate.label, "test")]
        assert as_json_value(mean) == row["mean"]
        assert with_ends(mean, 0) in outcome
        (cell,) = [c for c in phase["cells"] if c["label"] == aggregate.label]
        assert as_json(aggregate.intervals["iqm"]) == cell["estimate"]


def test_the_packaged_settings_are_the_defaults(tmp_path: Path) -> None:
    """A workspace without its own settings uses the packaged ones without composing them."""
    parts = read_report((), tmp_path)
    name, metric = next(iter(parts.metrics.items()))
    assert HeadlineAggregate() == HeadlineAggregate(
        name=name,
        metric=metric,
        estimator=parts.settings.estimator,
        alpha=parts.settings.alpha,
        power=parts.settings.power,
    )


def test_a_workspace_may_set_the_leading_aggregate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A workspace can set the leading aggregate for all surfaces."""
    monkeypatch.chdir(tmp_path)
    packaged_settings = (packaged_root() / "conf" / "report.yaml").read_text()
    changed_settings = packaged_settings.replace(
        "metric: [iqm, median, mean,", "metric: [mean, iqm, median,"
    )
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "report.yaml").write_text(changed_settings.replace("50_000", "1_000"))
    custom_study = Study(Workspace(tmp_path, Layout(tmp_path / "runs")))
    custom_study.store("five")
    estimate = custom_study.estimates("five")["a2c", CARTPOLE]
    assert (1000, "mean") == (estimate.repetitions, read_headline_aggregate(tmp_path).name)
    assert f"  {sentence('mean', estimate)}\n" in custom_study.output("show", "five", "--full")
    row = custom_study.json("ls", "five", "--group", "--where", "mean<400")["rows"][0]
    assert (estimate.estimate, estimate.low) == (row["estimate"], row["low"])
    assert "mean" == row["metric"]
    blocks = [b for part in custom_study.json("compare", "five")["parts"] for b in part["blocks"]]
    rows = next(b for b in blocks if b.get("name") == "tasks")["rows"]
    assert as_json(estimate) == next(cells[3] for cells in rows if "a2c" in cells)
