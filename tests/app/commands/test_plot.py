"""`rlexp plot` draws the numbers of the report's learning curves, and what else was measured."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from command_line import give, give_json, rlexp
from quick_parts import quick_parts
from stored_runs import (
    STARTED,
    Stored,
    completed,
    configuration,
    ended,
    evaluated,
    failed,
    stored,
    study,
)
from stored_sweeps import finished_sweep, stored_sweep

from rlexp.app.commands.judge.report import ReportRequest, report
from rlexp.app.commands.look.plot import MOST_NEAR, Plot, PlotRequest, list_metrics, plot
from rlexp.app.workspace import Workspace
from rlexp.engine.sweep_source import SweepStage
from rlexp.errors import ConfigError, ProtocolError, RecordError, RlexpError
from rlexp.protocol.budget import Budget
from rlexp.protocol.seeds import Phase
from rlexp.records.events import Ending, Event, Measured
from rlexp.reports.drawing.blocks import FigureLine

quick = pytest.fixture(autouse=True)(quick_parts)

FEW = ("curve_repetitions=100",)
LOSSES = {0: (9.0, 1.0), 1: (5.0, 3.0), 2: (7.0, 2.0)}
"""Losses of seeds 0 to 2 at steps 40 and 80."""


def measured(step: int, **metrics: float) -> Measured:
    """Metrics of the learner, with `train/` before their names."""
    logged = {f"train/{name}": value for name, value in metrics.items()}
    return Measured(time=STARTED + step, step=step, metrics=logged)


def learned(score: float, *losses: float) -> list[Event]:
    """The events of a completed run with losses every 40 steps."""
    events = [measured(40 * k, loss=loss, kl=0.5) for k, loss in enumerate(losses, 1)]
    return sorted([*events, *completed(score)[:2]], key=lambda e: e.time) + completed(score)[2:]


@pytest.fixture
def alpha(tmp_path: Path) -> Stored:
    """Two labels: ppo with losses on three seeds; a2c with two runs, of which one failed."""
    labels = map(configuration, ("ppo", "a2c"))
    experiment = stored(study(tmp_path).layout, "alpha", *labels)
    for seed, losses in LOSSES.items():
        experiment.attempt(seed, learned(100.0 * (seed + 1), *losses))
    experiment.complete(0, 40.0, label="a2c")
    experiment.attempt(1, failed(), label="a2c")
    return experiment


def drawn(folder: Path, *targets: str, **options: Any) -> Plot:
    """The result of the use case with few resamples."""
    request = PlotRequest(targets=targets or ("alpha",), overrides=FEW, **options)
    return plot(request, study(folder))


def aggregate(shown: Plot, label: str = "ppo") -> FigureLine:
    """The line of a label."""
    lines = shown.tasks[0].figure.lines
    return next(line for line in lines if line.label == label and not line.faint)


def everything(folder: Path) -> set[Path]:
    """Every file of a workspace without the catalogue, which is a cache."""
    return {p for p in folder.rglob("*") if not p.name.startswith(".")}


def test_a_plot_has_the_numbers_of_the_report(alpha: Stored, tmp_path: Path) -> None:
    """Lines and bands are those of the learning curves in the report, bit for bit."""
    request = ReportRequest(
        targets=("alpha",),
        formats=("json",),
        output=str(tmp_path / "out"),
        overrides=(*FEW, "section=[curves]"),
    )
    report(request, study(tmp_path))
    (part,) = json.loads((tmp_path / "out" / "report.json").read_text())["parts"]
    figure = next(b for b in part["blocks"] if b["kind"] == "lines")
    assert (
        figure == give_json(tmp_path, "plot", "plot", "alpha", "--set", *FEW)["tasks"][0]["figure"]
    )


def test_runs_are_counted_and_missing_ones_are_named(alpha: Stored, tmp_path: Path) -> None:
    """Each label has its number of runs; failed and missing runs stand beside the curves."""
    shown = drawn(tmp_path)
    ppo, a2c = shown.tasks[0].bands
    assert (3, 3, (3, 3), 0.95, 100) == (ppo.planned, ppo.n, ppo.runs, ppo.level, ppo.repetitions)
    assert (3, 2, None) == (a2c.planned, a2c.n, a2c.method)
    assert "1 of 3 runs without an evaluation (1 planned)" in a2c.note
    assert ("a2c: not completed: 1 failed (nan), 1 planned",) == shown.remarks
    assert "100 resamples of whole runs, seed 0" in shown.caption


def test_losses_are_aligned_and_aggregated(alpha: Stored, tmp_path: Path) -> None:
    """The line of a logged metric is the interquartile mean over runs at each step."""
    shown = drawn(tmp_path, metric="train/loss")
    line = aggregate(shown)
    assert (40.0, 80.0) == line.x
    # Of three runs 3/4 of one are cut at each end: (9 + 4 · 7 + 5) / 6 and (1 + 4 · 2 + 3) / 6.
    assert (7.0, 2.0) == pytest.approx(line.y)
    assert line.low is not None
    assert {(9.0, 1.0), (5.0, 3.0), (7.0, 2.0)} == {
        single.y for single in shown.tasks[0].figure.lines if single.faint
    }
    assert "a2c: — (3 of 3 runs without a value" in shown.tasks[0].figure.note


def test_hours_begin_at_the_start_of_each_run(alpha: Stored, tmp_path: Path) -> None:
    """Over hours, x is the time since the start of a run, for evaluations and for losses."""
    assert pytest.approx((50 / 3600, 100 / 3600)) == aggregate(drawn(tmp_path, x="hours")).x
    shown = drawn(tmp_path, x="hours", metric="train/loss")
    assert pytest.approx((40 / 3600, 80 / 3600)) == aggregate(shown).x


def test_a_label_is_a_target(alpha: Stored, tmp_path: Path) -> None:
    """EXPERIMENT/LABEL draws one label."""
    assert ("a2c",) == drawn(tmp_path, "alpha/a2c").labels


def test_single_runs_are_targets_with_their_own_names(alpha: Stored, tmp_path: Path) -> None:
    """EXPERIMENT/RUN draws one run, alone or beside a label; a repeated target counts once."""
    name = alpha.run(1).folder.name
    shown = drawn(tmp_path, "alpha/a2c", f"alpha/{name}", f"runs/alpha/{name}/")
    assert ("a2c", name) == shown.labels
    assert (75.0, 150.0) == aggregate(shown, name).y
    assert (100.0, 200.0) != aggregate(shown, name).y
    assert "1 of 1 run; no band: one run alone shows no spread" in shown.tasks[0].bands[1].note


def test_a_run_that_is_not_of_the_test_phase_is_drawn(alpha: Stored, tmp_path: Path) -> None:
    """A tuning run that is named is drawn in its own phase."""
    paths = alpha.complete(0, 3.0, phase=Phase.TUNING)
    assert "tuning" == drawn(tmp_path, f"alpha/{paths.folder.name}").phase


@pytest.mark.parametrize("other", ["test", "experiment", "option"])
def test_phases_are_never_mixed(alpha: Stored, tmp_path: Path, other: str) -> None:
    """A tuning run is refused beside a test run, an experiment without one, and `--phase test`."""
    tuning = f"alpha/{alpha.complete(0, 3.0, phase=Phase.TUNING).folder.name}"
    beta = stored(study(tmp_path).layout, "beta", configuration("dqn"))
    beta.complete(0, 1.0, label="dqn")
    further = {
        "test": [f"alpha/{alpha.run(0).folder.name}"],
        "experiment": ["beta"],
        "option": [],
    }[other]
    phase = "test" if other == "option" else None
    with pytest.raises(ProtocolError, match="runs of different phases are never shown together"):
        drawn(tmp_path, tuning, *further, phase=phase)


def test_a_sweep_shows_its_winner_and_its_default(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Of a sweep, the test runs are drawn; trials need `--phase tuning`."""
    finished_sweep(tmp_path, tmp_path_factory)
    assert {"tuned", "default"} == set(drawn(tmp_path, "made_up").labels)
    assert "tuning" == drawn(tmp_path, "made_up", phase="tuning").phase


def test_a_sweep_without_test_runs_names_the_command_for_its_trials(tmp_path: Path) -> None:
    """The command has the phase, and the packages that this command may import."""
    stored_sweep(tmp_path).go_on(until=SweepStage.SEARCH)
    request = PlotRequest(targets=("made_up",))
    with pytest.raises(RecordError) as refused:
        plot(request, Workspace.here(("json",), folder=tmp_path))
    assert "rlexp plot made_up --allow-import json --phase tuning" == refused.value.command


def test_the_list_names_everything_that_was_measured(alpha: Stored, tmp_path: Path) -> None:
    """`--list-metrics` counts runs and values, and each listed metric can be drawn."""
    listed = list_metrics(PlotRequest(targets=("alpha",)), study(tmp_path))
    rows = {m.metric: (m.runs, m.values, m.first, m.last) for m in listed.metrics}
    assert "eval/mean_reward" == next(iter(rows))
    assert (3, 6, 40, 80) == rows["train/loss"]
    assert (5, 9, 50, 100) == rows["eval/mean_reward"]
    for name in rows:
        assert drawn(tmp_path, metric=name).tasks
    assert "train/loss" in give(tmp_path, "plot", "alpha", "--list-metrics")


def test_an_unknown_metric_names_the_nearest(alpha: Stored, tmp_path: Path) -> None:
    """One line names at most eight metrics, the nearest first, and a command that lists all."""
    many = {f"m{k}": 1.0 for k in range(20)}
    alpha.attempt(2, [measured(10, **many), *completed(1.0)], label="a2c")
    with pytest.raises(ConfigError) as caught:
        drawn(tmp_path, metric="los")
    assert "nearest: train/loss, " in str(caught.value)
    assert MOST_NEAR == len(caught.value.allowed)
    assert "\n" not in str(caught.value)
    assert caught.value.command is not None
    give(tmp_path, *shlex.split(caught.value.command)[1:])


def test_values_that_are_no_numbers_are_gaps(alpha: Stored, tmp_path: Path) -> None:
    """NaN and infinite losses are gaps and are counted; a metric without any number is unknown."""
    odd = [measured(10, loss=float("inf"), nothing=float("nan")), measured(20, loss=4.0)]
    alpha.attempt(2, [*odd, *completed(1.0)], label="a2c")
    shown = drawn(tmp_path, "alpha/a2c", metric="train/loss")
    assert (None, 4.0) == aggregate(shown, "a2c").y
    assert "non-finite values: 1, in 1 of 3 runs" in shown.tasks[0].figure.note
    with pytest.raises(ConfigError, match="no run logged a finite value of 'train/nothing'"):
        drawn(tmp_path, "alpha/a2c", metric="train/nothing")


@pytest.mark.parametrize(
    ("budget", "reason"),
    [
        ({"evaluation_every": 500}, "budget.evaluation_every=500 is above budget.steps=100"),
        ({"evaluation_every": None}, "budget.evaluation_every=null leaves only the evaluation"),
        ({}, "no run has been evaluated yet (3 planned)"),
    ],
)
def test_a_plot_without_a_point_says_why(
    tmp_path: Path, budget: dict[str, Any], reason: str
) -> None:
    """Without an evaluation in training, one line says why and what to type."""
    configured = configuration()
    changed = Budget(**{**configured.budget.defining(), **budget})
    object.__setattr__(configured, "budget", changed)
    experiment = stored(study(tmp_path).layout, "alpha", configured)
    if budget:
        experiment.attempt(
            0, [measured(10, loss=1.0), evaluated(100, 1.0, final=True), ended(Ending.COMPLETED)]
        )
    with pytest.raises(RecordError) as caught:
        drawn(tmp_path)
    assert f"there is no learning curve: {reason}" in str(caught.value)
    if budget:
        assert "budget.evaluation_every=tenth" in str(caught.value)
        assert "rlexp plot alpha --list-metrics" in str(caught.value)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("alphaa",), "did you mean 'alpha'?"),
        (("alpha/x",), "alpha has no label and no run 'x' (there are: ppo, a2c)"),
        (("alpha", "--x", "days"), "there is no axis 'days' (there are: steps, hours)"),
        (("alpha", "-o", "a.gif"), "--output=a.gif must end in .png, .svg or .pdf"),
        (("alpha", "-o", "folder.png"), "--output=folder.png is a folder"),
        (("alpha", "--phase", "tests"), "did you mean 'test'?"),
        (("alpha", "--phase", "tuning"), "alpha has no tuning runs to plot"),
        (("alpha", "--level", "2"), "level=2.0: must be less than 1"),
        (("alpha", "-o", "spec.json/a.png"), "cannot be written"),
    ],
)
def test_a_mistake_is_one_line_and_changes_nothing(
    alpha: Stored, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    """Bad input is answered in one line with the words to type, and no file is written."""
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "spec.json").write_text("")
    before = everything(tmp_path)
    with pytest.raises(RlexpError) as caught:
        rlexp(tmp_path, "plot", *words)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert 2 == caught.value.exit_code
    assert before == everything(tmp_path)


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_a_picture_is_written_and_replaced(alpha: Stored, tmp_path: Path, kind: str) -> None:
    """A picture is written into a new folder, replaces a file, and has the same bytes again."""
    path = tmp_path / "pictures" / f"curves.{kind}"
    assert (path,) == drawn(tmp_path, output=str(path)).files
    content = path.read_bytes()
    path.write_text("old")
    drawn(tmp_path, output=str(path))
    assert content == path.read_bytes()
    assert content.startswith({"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[kind])


def test_the_terminal_shows_curves_counts_and_commands_that_work(
    alpha: Stored, tmp_path: Path
) -> None:
    """The output has the axes, n of each label and the caption; each printed command works."""
    printed = give(tmp_path, "plot", "alpha", "--set", *FEW)
    assert "CartPole-v1: mean return\n" in printed
    assert "a ppo: 3 of 3 runs.\n" in printed
    assert "t with bootstrap standard error" in printed
    commands = [line.split(": ", 1)[1] for line in printed.splitlines() if ": rlexp " in line]
    assert 2 == len(commands)
    for command in commands:
        give(tmp_path, *shlex.split(command)[1:])
    assert (tmp_path / "curves.png").exists()
