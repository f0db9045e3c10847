"""Results as data frames: one tidy row each, with the numbers that the commands show."""

import json
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from command_line import typed
from quick_parts import quick_parts
from stored_runs import Stored, completed, configuration, evaluated, failed, stored
from stored_sweeps import StoredSweep, finished_sweep

import rlexp
from rlexp.app.commands.judge.evaluate import PolicyEvaluation
from rlexp.app.commands.look.show import ExperimentDetails, RunDetails
from rlexp.app.commands.train.extend import ExtendOutcome
from rlexp.app.commands.train.run import RunOutcome
from rlexp.app.commands.train.sweep import SweepOutcome
from rlexp.app.evaluation.playback import ReturnStatistics
from rlexp.app.results import document
from rlexp.errors import ConfigError
from rlexp.store.layout import Layout

LABELS = ("ppo", "a2c")


@pytest.fixture
def duel(tmp_path: Path) -> Stored:
    """Two labels with scores, measures, a failed run each, and a run that never started."""
    experiment = stored(Layout(tmp_path / "runs"), "duel", *map(configuration, LABELS), test=4)
    for label, base in zip(LABELS, (10.0, 20.0), strict=True):
        for seed in range(2):
            measures = {"success": (0.0, 1.0), "seed": (base, base)}
            final = evaluated(100, base + seed, base + seed, final=True)
            events = [
                *completed(base)[:-2],
                replace(final, measures=measures),
                completed(base)[-1],
            ]
            experiment.attempt(seed, events, label=label)
        experiment.attempt(2, failed(), label=label)
    return experiment


def shown(folder: Path, *words: str) -> Any:
    """The JSON document of a command."""
    return json.loads(typed(folder, *words, "--json").out)


def test_runs_have_the_numbers_of_the_commands(tmp_path: Path, duel: Stored) -> None:
    """Data frames of `show`, `load` and `ls` have one row for each run that `rlexp ls` lists."""
    listed = {row["run"]: row for row in shown(tmp_path, "ls", "duel")["rows"]}
    details = rlexp.show("duel", workspace=tmp_path)
    assert isinstance(details, ExperimentDetails)
    for result in (
        details,
        rlexp.load("duel", workspace=tmp_path),
        rlexp.ls("duel", workspace=tmp_path),
    ):
        frame = result.to_pandas()
        assert 8 == len(frame) == len(listed)
        for row in frame.to_dict("records"):
            run = listed[row["run"]]
            same = ("label", "task", "phase", "seed", "state", "step", "steps")
            assert [run[name] for name in same] == [row[name] for name in same]
            assert run["failure"] == (None if pd.isna(row["failure"]) else row["failure"])
            assert run["score"] == (None if math.isnan(row["score"]) else row["score"])
            assert run["measure_means"].get("success", None) == number(row["success"])
            assert run["measure_means"].get("seed", None) == number(row["measure.seed"])
        assert {"duel"} == {*frame["experiment"]}
        assert {*LABELS} == {*frame["algorithm"]}
        assert [0.5] * 8 == frame["algorithm.learning_rate"].tolist()


def number(value: float) -> float | None:
    """A number of a data frame; None for an empty cell."""
    return None if math.isnan(value) else value


def test_failed_and_missing_runs_are_rows_without_a_score(tmp_path: Path, duel: Stored) -> None:
    """No run is left out of a data frame, and a run without a score has NaN."""
    frame = rlexp.load("duel", workspace=tmp_path).to_pandas()
    assert {"completed": 4, "failed": 2, "planned": 2} == frame["state"].value_counts().to_dict()
    assert {"completed"} == {*frame.dropna(subset="score")["state"]}
    assert "float64" == str(frame["score"].dtype)


def test_scores_are_those_of_the_summary(tmp_path: Path, duel: Stored) -> None:
    """`scores` maps labels to the scores by seed that `rlexp show` has."""
    details = rlexp.show("duel", workspace=tmp_path)
    assert isinstance(details, ExperimentDetails)
    expected = {"ppo": {0: 10.0, 1: 11.0}, "a2c": {0: 20.0, 1: 21.0}}
    assert expected == details.scores == rlexp.compare("duel", workspace=tmp_path).scores
    (phase,) = shown(tmp_path, "show", "duel")["phases"]
    in_json = {c["label"]: {int(k): v for k, v in c["scores"].items()} for c in phase["cells"]}
    assert expected == in_json
    loaded = rlexp.load("duel", workspace=tmp_path)
    assert list(expected["a2c"].values()) == loaded.scores("a2c").tolist()


def test_scores_on_several_tasks_name_the_task(tmp_path: Path) -> None:
    """With several tasks, the scores of a label are kept apart by task."""
    tasks = [configuration("ppo", task) for task in ("CartPole-v1", "Acrobot-v1")]
    both = stored(Layout(tmp_path / "runs"), "both", *tasks, test=1)
    for task, score in zip(tasks, (1.0, -2.0), strict=True):
        one = replace(both, experiment=replace(both.experiment, configurations=(task,)))
        one.complete(0, score)
    details = rlexp.show("both", workspace=tmp_path)
    assert isinstance(details, ExperimentDetails)
    assert {"ppo on CartPole-v1": {0: 1.0}, "ppo on Acrobot-v1": {0: -2.0}} == details.scores
    assert ["CartPole-v1", "Acrobot-v1"] == details.to_pandas()["environment.id"].tolist()


def test_a_comparison_has_a_row_for_each_pair(tmp_path: Path, duel: Stored) -> None:
    """The data frame of a comparison is the table of tests in its JSON document."""
    (row,) = rlexp.compare("duel", workspace=tmp_path).to_pandas().to_dict("records")
    parts = shown(tmp_path, "compare", "duel")["parts"]
    (table,) = [b for p in parts for b in p["blocks"] if b.get("name") == "pairs"]
    titles = [column["title"] for column in table["columns"]]
    (expected,) = [dict(zip(titles, values, strict=True)) for values in table["rows"]]
    difference = expected["difference"]
    assert [difference["estimate"], difference["method"], difference["n"]] == [
        row[f"difference {name}"] for name in ("estimate", "method", "n")
    ]
    same = ("first", "second", "runs", "permutation p", "adjusted p", "verdict")
    assert [expected[name] for name in same] == [row[name] for name in same]


def test_lists_have_their_rows_and_the_asked_columns(tmp_path: Path, duel: Stored) -> None:
    """A list of experiments or configurations has its rows, with intervals and asked keys."""
    (experiment,) = rlexp.ls(workspace=tmp_path).to_pandas().to_dict("records")
    assert ("duel", 8, 4, 2) == tuple(
        experiment[n] for n in ("experiment", "planned", "done", "failed")
    )
    grouped = rlexp.ls(group=True, columns="budget.steps", workspace=tmp_path).to_pandas()
    assert [100, 100] == grouped["budget.steps"].tolist()
    rows = shown(tmp_path, "ls", "--group")["rows"]
    for name in ("estimate", "low", "high", "n"):
        assert [row[name] for row in rows] == grouped[name].astype(object).where(
            grouped[name].notna(), None
        ).tolist()
    assert {"t with bootstrap standard error"} == {*grouped["method"]}
    assert 0 == len(rlexp.ls(where="experiment=other", workspace=tmp_path).to_pandas())


def test_a_run_has_a_row_for_each_evaluation(tmp_path: Path, duel: Stored) -> None:
    """The data frame of a run has its evaluations, the final one last."""
    name = f"duel/{duel.run(0).folder.name}"
    details = rlexp.show(name, workspace=tmp_path)
    assert isinstance(details, RunDetails)
    frame = details.to_pandas()
    evaluations = shown(tmp_path, "show", name)["evaluations"]
    assert [e["mean"] for e in evaluations] == frame["mean"].tolist()
    assert "final" == frame["policy"].iloc[-1]


def test_a_plot_has_a_row_for_each_point(tmp_path: Path, duel: Stored) -> None:
    """The data frame of a plot has the points of the aggregate of each label."""
    frame = rlexp.plot("duel", workspace=tmp_path).to_pandas()
    (task,) = shown(tmp_path, "plot", "duel")["tasks"]
    lines = [line for line in task["figure"]["lines"] if not line["faint"]]
    points = [
        (line["label"], x, y) for line in lines for x, y in zip(line["x"], line["y"], strict=True)
    ]
    assert points == list(zip(frame["label"], frame["steps"], frame["value"], strict=True))
    assert [n for band in task["bands"] for n in band["runs"]] == frame["runs"].tolist()


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> StoredSweep:
    """A finished sweep of made-up scores."""
    return finished_sweep(tmp_path_factory.mktemp("searched"), tmp_path_factory)


def test_a_sweep_has_a_row_for_each_trial(
    searched: StoredSweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The data frame of a sweep has every trial with its hyperparameters; scores are test scores."""
    quick_parts(monkeypatch)
    folder = searched.study.folder
    outcome = rlexp.sweep(*searched.words, workspace=folder)
    assert isinstance(outcome, SweepOutcome)
    frame = outcome.to_pandas()
    assert outcome.trials["proposed"] == len(frame)
    best = rlexp.best("made_up", workspace=folder)
    (winner,) = frame[frame["winner"]].to_dict("records")
    assert best.trial == winner["trial"]
    parameters = best.to_pandas().set_index("parameter")["value"].to_dict()
    assert [type(row.value) for row in best.parameters] == [*map(type, parameters.values())]
    assert parameters == {name: winner[name] for name in parameters}
    (test,) = shown(folder, "show", "made_up")["phases"]
    assert "test" == test["phase"]
    in_json = {c["label"]: {int(k): v for k, v in c["scores"].items()} for c in test["cells"]}
    assert in_json == {**outcome.scores}
    runs = rlexp.load("made_up", workspace=folder).to_pandas()
    assert {"tuning", "selection", "test"} == {*runs["phase"]}
    assert {*parameters} <= {*runs.columns}


def test_a_run_outcome_has_the_rows_of_its_phase(tmp_path: Path, duel: Stored) -> None:
    """The outcome of a call and of an extension have a row for each planned run."""
    details = rlexp.show("duel", workspace=tmp_path)
    assert isinstance(details, ExperimentDetails)
    nothing: dict[str, Any] = {"problem": None, "ran": 0, "complete": False, "detached": False}
    outcome = RunOutcome(summary=details.phases[0], **nothing, interrupted=None, next=())
    pd.testing.assert_frame_equal(details.to_pandas(), outcome.to_pandas())
    assert details.scores == outcome.scores
    extended: dict[str, Any] = {"experiment": "longer", "parent": "duel", "steps": 200}
    longer = ExtendOutcome(**extended, begins={}, restarted=(), parts=(outcome,), interrupted=None)
    pd.testing.assert_frame_equal(outcome.to_pandas(), longer.to_pandas())
    assert outcome.scores == longer.scores


def test_an_evaluation_has_a_row_for_each_episode() -> None:
    """The data frame of an evaluation has the return and the length of each episode."""
    spread = ReturnStatistics.of((1.0, 3.0))
    policy: dict[str, Any] = {
        "run": "duel/x",
        "algorithm": "ppo",
        "task": "CartPole-v1",
        "checkpoint": False,
        "step": 100,
        "weights": None,
        "device": "cpu",
        "draw": 2,
        "deterministic": True,
        "normalised_observations": False,
        "n": 2,
        "ensemble": None,
        "measures": {},
        "videos": (),
        "dataset": None,
        "problem": None,
        "next": (),
    }
    evaluation = PolicyEvaluation(
        **policy, return_spread=spread, length_spread=spread, returns=(1.0, 3.0), lengths=(5, 7)
    )
    frame = evaluation.to_pandas()
    assert [(0, 1.0, 5, 2), (1, 3.0, 7, 2)] == [
        tuple(row) for row in frame[["episode", "return", "length", "draw"]].to_numpy()
    ]


def test_documents_do_not_hold_what_is_for_python_only(tmp_path: Path, duel: Stored) -> None:
    """JSON documents have neither configurations of runs nor the scores of a comparison."""
    listed = document(rlexp.ls("duel", workspace=tmp_path))["rows"]
    assert all("configuration" not in row and "score" in row for row in listed)
    assert "scores" not in document(rlexp.compare("duel", workspace=tmp_path))


def test_without_pandas_one_line_says_how_to_install_it(
    tmp_path: Path, duel: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pandas is optional: the error names the command that installs it."""
    loaded = rlexp.load("duel", workspace=tmp_path)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigError) as missing:
        loaded.to_pandas()
    assert "pip install 'rlexp[pandas]'" == missing.value.command
    assert str(missing.value).endswith("to install it: pip install 'rlexp[pandas]'")


READING: dict[str, Callable[[str], str]] = {
    "ls": lambda folder: f"rlexp.ls('duel', workspace={folder!r})",
    "show": lambda folder: f"rlexp.show('duel', workspace={folder!r})",
}


@pytest.mark.parametrize("function", READING)
def test_results_do_not_import_pandas(tmp_path: Path, duel: Stored, function: str) -> None:
    """Pandas is imported by `to_pandas` only."""
    call = READING[function](str(tmp_path))
    probe = f"import sys, rlexp; result = {call}; before = 'pandas' in sys.modules; result.to_pandas(); print(before, 'pandas' in sys.modules)"
    process = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True
    )
    assert "False True" == process.stdout.strip()
