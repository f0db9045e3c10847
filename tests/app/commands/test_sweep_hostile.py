"""The output of sweeps after failures, or before they have results."""

from pathlib import Path

import pytest
from command_line import rlexp
from quick_parts import quick_parts
from stored_runs import console
from stored_sweeps import StoredSweep, stored_sweep

from rlexp.app.commands.compare import CompareRequest, compare
from rlexp.app.commands.report import ReportRequest, report
from rlexp.app.commands.status import status
from rlexp.app.commands.sweep import SweepOptions
from rlexp.app.sweeps.progress import SweepMonitor, remaining_steps
from rlexp.cli.sweep import execute as sweep
from rlexp.engine.sweep_source import SweepStage
from rlexp.errors import ConfigError
from rlexp.protocol.spec import RunSpec

quick = pytest.fixture(autouse=True)(quick_parts)

GRID = (
    "tuner=grid",
    "algorithm.n_epochs=choice(1, 2)",
    "algorithm.learning_rate=0.001",
    "sweep.trials=20",
)


def output_of(made: StoredSweep) -> str:
    """The output of `rlexp status` on a sweep."""
    return rlexp(made.study.folder, "status", "made_up").out


def never(_: RunSpec) -> None:
    """The score of a run that fails."""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tuner=tpe", "tuner.startup=-1"], "tuner.startup=-1"),
        (["tuner=nsga2"], "tuner=nsga2 needs several objectives"),
        (["tuner=cma_es", "sweep.objective=[score,auc]"], "tuner=cma_es optimises one objective"),
        (["pruner=median", "pruner.startup_trials=x"], "pruner.startup_trials"),
        (["sweep.storage=foo"], "sweep.storage is not the URL of a database"),
    ],
)
def test_refused_sweep_leaves_nothing_behind(tmp_path: Path, words: list[str], said: str) -> None:
    """The name of a refused sweep can be used by a correct command."""
    made = stored_sweep(tmp_path)
    for options in (SweepOptions(dry_run=True), SweepOptions()):
        with pytest.raises(ConfigError, match=said.replace("[", r"\[")):
            sweep(None, [*made.words, *words], options, made.study, console())
    assert not made.paths.folder.exists()


def test_selection_runs_belong_to_their_trials(tmp_path: Path) -> None:
    """Runs that score finalists again are not reported as damage."""
    made = stored_sweep(tmp_path)
    search = len(made.go_on(until=SweepStage.SEARCH).records)
    made.go_on(runs=search + 1)
    said = output_of(made)
    assert "selection 1/4 runs" in said
    assert "damaged" not in said
    listed = rlexp(tmp_path, "ls", "made_up").out
    rows = [line for line in listed.splitlines() if "ppo-selection" in line]
    assert 1 == len(rows)
    assert "trial " in rows[0]
    made.go_on()
    assert "damaged" not in output_of(made)


def test_a_grid_ends_after_its_last_point(tmp_path: Path) -> None:
    """The status has the stage at which the command ended, and no further trials."""
    made = stored_sweep(tmp_path, *GRID)
    sweeping = made.go_on(until=SweepStage.SEARCH)
    assert sweeping.stage is SweepStage.SELECTION
    assert "selection 0/2 runs: 3/3 trials (3 complete)" in output_of(made)


def test_a_sweep_without_a_possible_winner_is_stopped(tmp_path: Path) -> None:
    """No remaining time is shown, and text and JSON have the reason."""
    made = stored_sweep(tmp_path, "sweep.stop_after=3", score=never)
    made.go_on()
    said = output_of(made)
    assert "stopped: 3 trials in a row failed alike, from trial 0 on: a loss is NaN" in said
    assert " left" not in said
    (experiment,) = status("made_up", made.study).experiments
    assert experiment.sweep is not None
    assert str(experiment.sweep.stopped).startswith("3 trials in a row")
    assert experiment.sweep.seconds_left is None


def test_unfinished_trials_are_not_running_without_a_command(tmp_path: Path) -> None:
    """After kill -9 a trial is unfinished, not running."""
    made = stored_sweep(tmp_path)
    sweeping = made.go_on(runs=3)
    spec = sweeping.take()
    assert spec is not None
    said = output_of(made)
    assert "4/8" not in said
    assert "3/8 trials (3 complete), 1 unfinished" in said
    (experiment,) = status("made_up", made.study).experiments
    assert experiment.sweep is not None
    assert (0, 1) == (experiment.sweep.trials.running, experiment.sweep.trials.unfinished)


def test_steps_of_lost_attempts_are_counted(tmp_path: Path) -> None:
    """Environment steps of a killed command are in the total of the next one."""
    made = stored_sweep(tmp_path)
    sweeping = made.go_on(runs=2)
    watched = SweepMonitor(sweeping, None, 1, {"of a lost attempt": 50})
    assert 2 * 100 + 50 == watched.view().steps


def test_a_halted_sweep_does_not_suggest_retry_in_vain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Combinations that cannot be built would fail again, so --retry is not suggested."""
    arguments = ["algorithm.n_steps=choice(512, 1024)", "sweep.stop_after=3", "seeds.selection=0"]
    made = stored_sweep(tmp_path, *arguments, "budget.steps=100", score=by_seed)
    made.go_on()
    assert 1 == sweep(None, made.words, SweepOptions(), made.study, console())
    captured = capsys.readouterr()
    assert "3 trials in a row failed alike, from trial 1 on" in captured.err
    assert "--retry" not in captured.out
    assert "To write the report: rlexp report made_up" in captured.out
    assert "no result" not in captured.out


def by_seed(spec: RunSpec) -> float:
    """A score that depends only on the seed."""
    return float(spec.seed)


def test_before_the_selection_the_report_compares_no_labels(tmp_path: Path) -> None:
    """Before a winner is selected, the report has only the search."""
    made = stored_sweep(tmp_path)
    made.go_on(until=SweepStage.SEARCH)
    notices = report(ReportRequest(targets=("made_up",)), made.study).notices
    assert any("made_up has no test run yet" in notice.text for notice in notices)
    assert not any("undecided" in notice.text.lower() for notice in notices)
    page = (tmp_path / "reports" / "made_up" / "report.html").read_text()
    assert "8 trials, 0 test runs planned" in page
    assert len(page) < 500_000
    with pytest.raises(
        ConfigError, match="has no test runs to compare yet; to see its progress: rlexp status"
    ):
        compare(CompareRequest(targets=("made_up",)), made.study)


def test_a_search_shows_no_test_scores(tmp_path: Path) -> None:
    """`rlexp show` has the progress of the search and no empty test scores."""
    made = stored_sweep(tmp_path)
    made.go_on(runs=3)
    said = rlexp(tmp_path, "show", "made_up").out
    assert "search: 3/8 trials" in said
    assert "no run has a score" not in said


def test_runs_are_counted_where_the_definition_is_damaged(tmp_path: Path) -> None:
    """Without a readable definition, all runs on disk are counted."""
    made = stored_sweep(tmp_path)
    made.go_on(runs=3)
    made.paths.definition.write_text("{")
    said = output_of(made)
    assert "3 runs: 3 completed" in said
    assert "damaged: experiment.json" in said


@pytest.mark.parametrize(
    ("word", "steps"),
    [
        # 8 trials on one seed; 2 on 2 further seeds, and on 2 to select by; 2 on 3 to test.
        ("sweep.trials=8", 800 + 400 + 400 + 600),
        ("sweep.finalists=1", 800 + 400 + 200 + 600),
        # 4 full runs, of which one goes on.
        ("sweep.full_runs=4", 400 + 200 + 200 + 600),
        # Of the search, no more than its limit.
        ("sweep.steps=500", 500 + 400 + 600),
        ("seeds.test=0", 800 + 400 + 400),
        ("sweep.allocation=fixed", 2400 + 600 + 600),
    ],
)
def test_remaining_runs_are_counted_by_stage(tmp_path: Path, word: str, steps: int) -> None:
    """The maximum number of steps falls to 0 after the last stage."""
    made = stored_sweep(tmp_path, word)
    assert steps == remaining_steps(made.go_on(runs=0))
    assert 0 == remaining_steps(made.go_on())
