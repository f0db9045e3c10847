"""What `rlexp compare` sends its reader to: each printed command works as pasted."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from comparisons import NEAR, said, steps, with_scores
from quick_parts import quick_parts
from stored_runs import Stored, failed, study

from rlexp.app.workspace import Workspace
from rlexp.cli import app
from rlexp.protocol.seeds import Phase
from rlexp.store.runs import read_experiment

quick = pytest.fixture(autouse=True)(quick_parts)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """An empty study, in whose folder the command is given."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RLEXP_RUNS", raising=False)
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "home"))
    return study(tmp_path)


@pytest.fixture
def say(place: Workspace) -> Callable[..., str]:
    """What a comparison says to people."""
    return partial(said, place)


def trained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Training that takes no time."""

    def train(paths: Any, phase: Phase, plan: Any, *_: object) -> None:
        experiment = read_experiment(paths)
        for own, spec in experiment.specs(phase):
            if spec in plan.missing:
                score = 100.0 * (own.label == "ppo") + spec.seed
                Stored(paths, experiment).complete(spec.seed, score, label=own.label)

    monkeypatch.setattr("rlexp.app.execution.launch.drive", train)


def test_printed_commands_work(
    place: Workspace,
    say: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Pasted as they are: the report is written, the sequential comparison ends decided."""
    trained(monkeypatch)
    with_scores(place, {"ppo": (100.0, 101.0), "a2c": (0.0, 1.0)})
    report, sequential = steps(say("alpha", overrides=("alpha=0.1", "metric=[iqm,mean]")))
    assert ["report", "compare"] == [report[0], sequential[0]]
    app(report, standalone_mode=False)
    assert (place.folder / "reports" / "alpha" / "report.html").stat().st_size > 0
    app(sequential, standalone_mode=False)
    told = capsys.readouterr().out
    assert "ppo is better than a2c, decided at look 1 of 5" in told
    of_report, back = steps(told)
    assert ["compare", "alpha"] == of_report == back
    app(back, standalone_mode=False)
    told = capsys.readouterr().out
    assert "ppo is better than a2c" in told
    assert ["report"] == [step[0] for step in steps(told)]


def test_a_frozen_design_is_continued(
    place: Workspace, say: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command that is printed names the frozen design, whatever this comparison is told."""
    trained(monkeypatch)
    with_scores(place, {"ppo": (100.0, 1.0), "a2c": (0.0, 101.0)})
    asked = ["compare", "alpha", "--adaptive", "--group", "3", "--interims", "2", "--seed", "7"]
    app([*asked, "--set", "repetitions=300", "--alpha", "0.2"], standalone_mode=False)
    *_, sequential = steps(say("alpha", overrides=("alpha=1e-9",)))
    wanted = "--group 3 --interims 2 --alpha 0.2 --family holm --seed 7 --set repetitions=300"
    assert ["compare", "alpha", "--adaptive", *wanted.split()] == sequential
    app(sequential, standalone_mode=False)
    told = say("alpha", overrides=("alpha=1e-9",))
    assert "To see what the looks decided: rlexp compare alpha --adaptive" in told


@pytest.mark.parametrize("why", ["listed", "experiments", "tuning", "failed"])
def test_what_would_be_refused_is_not_printed(
    place: Workspace, say: Callable[..., str], why: str
) -> None:
    """No sequential comparison is offered where there can be none."""
    there = with_scores(place, NEAR)
    targets, phase = ["alpha"], None
    match why:
        case "listed":
            definition = json.loads(there.paths.definition.read_text())
            definition["seeds"]["test"] = [0, 1, 2]
            there.paths.definition.write_text(json.dumps(definition))
        case "experiments":
            with_scores(place, NEAR, "beta")
            targets.append("beta")
        case "tuning":
            phase = "tuning"
            for label in NEAR:
                there.complete(0, 1.0, label=label, phase=Phase.TUNING)
        case "failed":
            more = with_scores(place, NEAR, "beta", test=4)
            more.attempt(3, failed(), label="a2c")
            targets = ["beta"]
    text = say(*targets, phase=phase)
    assert "--adaptive" not in text
    (report,) = steps(text)
    app(report, standalone_mode=False)
