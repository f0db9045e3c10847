"""The next commands that `rlexp compare` prints work when pasted."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from comparisons import NEAR, comparison_output, steps, with_scores
from quick_parts import quick_parts
from stored_runs import Stored, failed, study

from rlexp.app.workspace import Workspace
from rlexp.cli.every_command import app
from rlexp.protocol.seeds import Phase
from rlexp.store.runs import read_experiment

quick = pytest.fixture(autouse=True)(quick_parts)


@pytest.fixture
def empty_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """An empty workspace, which is the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RLEXP_RUNS", raising=False)
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "home"))
    return study(tmp_path)


@pytest.fixture
def output_of(empty_workspace: Workspace) -> Callable[..., str]:
    """The text output of a comparison."""
    return partial(comparison_output, empty_workspace)


def replace_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace training by a function that takes no time."""

    def train(paths: Any, phase: Phase, plan: Any, *_: object) -> None:
        experiment = read_experiment(paths)
        for configuration, spec in experiment.specs(phase):
            if spec in plan.missing:
                score = 100.0 * (configuration.label == "ppo") + spec.seed
                Stored(paths, experiment).complete(spec.seed, score, label=configuration.label)

    monkeypatch.setattr("rlexp.app.execution.launch.execute_missing_runs", train)
    # The plug-ins of stored configurations lack settings, so they cannot be built.
    monkeypatch.setattr(
        "rlexp.app.commands.judge.sequential_launch.check_compatibility", lambda *_: None
    )


def test_printed_commands_work(
    empty_workspace: Workspace,
    output_of: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The pasted commands write the report and decide the sequential comparison."""
    replace_training(monkeypatch)
    with_scores(empty_workspace, {"ppo": (100.0, 101.0), "a2c": (0.0, 1.0)})
    report, sequential = steps(output_of("alpha", overrides=("alpha=0.1", "metric=[iqm,mean]")))
    assert ["report", "compare"] == [report[0], sequential[0]]
    app(report, standalone_mode=False)
    assert (empty_workspace.folder / "reports" / "alpha" / "report.html").stat().st_size > 0
    app(sequential, standalone_mode=False)
    output = capsys.readouterr().out
    assert "ppo is better than a2c, decided at interim analysis 1 of 5" in output
    after_report, after_sequential = steps(output)
    assert ["compare", "alpha", *report[2:]] == after_report
    assert ["compare", "alpha"] == after_sequential
    app(after_sequential, standalone_mode=False)
    output = capsys.readouterr().out
    assert "ppo is better than a2c" in output
    assert ["report"] == [step[0] for step in steps(output) if "--full" not in step]


def test_a_frozen_design_is_continued(
    empty_workspace: Workspace, output_of: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The suggested command repeats the options of the frozen design, not the current ones."""
    replace_training(monkeypatch)
    with_scores(empty_workspace, {"ppo": (100.0, 1.0), "a2c": (0.0, 101.0)})
    request = ["compare", "alpha", "--adaptive", "--group", "3", "--interims", "2", "--seed", "7"]
    app([*request, "--set", "repetitions=300", "--alpha", "0.2"], standalone_mode=False)
    *_, sequential = steps(output_of("alpha", overrides=("alpha=1e-9",)))
    expected = "--group 3 --interims 2 --alpha 0.2 --family holm --seed 7 --set repetitions=300"
    assert ["compare", "alpha", "--adaptive", *expected.split()] == sequential
    app(sequential, standalone_mode=False)
    output = output_of("alpha", overrides=("alpha=1e-9",))
    assert "To see the decisions of the interim analyses: rlexp compare alpha --adaptive" in output


@pytest.mark.parametrize("reason", ["listed", "experiments", "tuning", "failed"])
def test_a_command_that_would_be_refused_is_not_printed(
    empty_workspace: Workspace, output_of: Callable[..., str], reason: str
) -> None:
    """A sequential comparison that would be refused is not suggested."""
    experiment = with_scores(empty_workspace, NEAR)
    targets, phase = ["alpha"], None
    match reason:
        case "listed":
            definition = json.loads(experiment.paths.definition.read_text())
            definition["seeds"]["test"] = [0, 1, 2]
            experiment.paths.definition.write_text(json.dumps(definition))
        case "experiments":
            with_scores(empty_workspace, NEAR, "beta")
            targets.append("beta")
        case "tuning":
            phase = "tuning"
            for label in NEAR:
                experiment.complete(0, 1.0, label=label, phase=Phase.TUNING)
        case "failed":
            failing = with_scores(empty_workspace, NEAR, "beta", test=4)
            failing.attempt(3, failed(), label="a2c")
            targets = ["beta"]
    text = output_of(*targets, phase=phase)
    assert "--adaptive" not in text
    (report,) = steps(text)
    app(report, standalone_mode=False)
