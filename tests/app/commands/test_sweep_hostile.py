"""The output of sweeps is correct after failures and before results exist."""

import json
from collections import Counter
from pathlib import Path

import pytest
from command_line import rlexp
from last_words import last_words
from quick_parts import quick_parts
from stored_runs import console
from stored_sweeps import WORDS, StoredSweep, stored_sweep

from rlexp.app.commands.judge.compare import CompareRequest, compare
from rlexp.app.commands.judge.report import ReportRequest, report
from rlexp.app.commands.look.status import status
from rlexp.app.commands.train.sweep import SweepOptions
from rlexp.app.sweeps.progress import SweepMonitor, expected_runs, remaining_steps
from rlexp.app.sweeps.request import read_sweep
from rlexp.app.tracking.run_labels import RunLabels
from rlexp.cli.train.sweep import execute as sweep
from rlexp.engine.sweep_source import SweepStage
from rlexp.errors import ConfigError, RecordError
from rlexp.protocol.spec import RunSpec

quick = pytest.fixture(autouse=True)(quick_parts)

GRID = (
    "tuner=grid",
    "algorithm.n_epochs=choice(1, 2)",
    "algorithm.learning_rate=0.001",
    "sweep.trials=20",
)


def output_of(stored: StoredSweep) -> str:
    """The output of `rlexp status` on a sweep."""
    return rlexp(stored.study.folder, "status", "made_up").out


def never(_: RunSpec) -> None:
    """No score, as for a run that fails."""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tuner=tpe", "tuner.startup=-1"], "tuner.startup=-1"),
        (["tuner=nsga2"], "tuner=nsga2 needs several objectives"),
        (["tuner=cma_es", "sweep.objective=[score,auc]"], "tuner=cma_es optimises one objective"),
        (["pruner=median", "pruner.startup_trials=x"], "pruner.startup_trials"),
        (["sweep.storage=foo"], "sweep.storage is not the URL of a database"),
    ],
)
def test_refused_sweep_leaves_nothing_behind(
    tmp_path: Path, words: list[str], message: str
) -> None:
    """A refused sweep writes no folder, so its name stays free."""
    stored = stored_sweep(tmp_path)
    for options in (SweepOptions(dry_run=True), SweepOptions()):
        with pytest.raises(ConfigError, match=message.replace("[", r"\[")):
            sweep(None, last_words(*stored.words, *words), options, stored.study, console())
    assert not stored.paths.folder.exists()


def test_selection_runs_belong_to_their_trials(tmp_path: Path) -> None:
    """Selection runs belong to their trial and are not reported as damaged."""
    stored = stored_sweep(tmp_path)
    search = len(stored.go_on(until=SweepStage.SEARCH).records)
    stored.go_on(runs=search + 1)
    output = output_of(stored)
    assert "selection 1/4 runs" in output
    assert "damaged" not in output
    listing = rlexp(tmp_path, "ls", "made_up").out
    rows = [line for line in listing.splitlines() if "ppo-selection" in line]
    assert 1 == len(rows)
    assert "trial " in rows[0]
    stored.go_on()
    assert "damaged" not in output_of(stored)


def test_screening_runs_with_fewer_episodes_belong_to_their_trials(tmp_path: Path) -> None:
    """Screening runs with episodes of their own have their trial in lists, trackers and the progress."""
    stored = stored_sweep(tmp_path, "sweep.screening_episodes=1")
    sweeping = stored.go_on()
    screening = [spec for spec in stored.made if spec.budget["final_episodes"] == 1]
    assert 8 == len(screening)
    labels = RunLabels(stored.paths)
    for spec in screening:
        trial = next(n for n in range(8) if spec in sweeping.runs_of(n))
        assert trial == labels.describe(spec).trial
    listing = rlexp(tmp_path, "ls", "made_up").out
    rows = [line for line in listing.splitlines() if "ppo-tuning-0" in line]
    assert [8] == list({len(rows), sum("trial " in row for row in rows)})
    assert "damaged" not in output_of(stored)
    assert "stray" not in listing


def test_the_plan_names_the_episodes_of_screening_runs(tmp_path: Path) -> None:
    """The plan of a sweep names the number, and counts it for the screening runs only."""
    words = (*WORDS, "sweep.screening_episodes=1", "--dry-run")
    plan = json.loads(rlexp(tmp_path, "sweep", *words, "--json").out)
    assert 1 == plan["screening_episodes"]
    answer = rlexp(tmp_path, "sweep", *words)
    assert (
        "1 tuning seed each with 1 final episode, the best 2 on all 3" in answer.out + answer.err
    )

    stored = stored_sweep(tmp_path / "begun", "sweep.screening_episodes=1")
    default = read_sweep(None, stored.words, stored.study).experiment.defaults
    runs = expected_runs(default, stored.go_on(runs=0))
    assert {1: 8, 2: 14} == Counter(run.budget["final_episodes"] for run in runs)


ENQUEUED = "sweep.enqueue=[{algorithm.n_epochs: 19}, {algorithm.learning_rate: 0.01}]"


LENGTHENED = ("tuner=dehb", "algorithm.n_steps=8", "algorithm.batch_size=8", "sweep.trials=14")


@pytest.mark.parametrize("tuner", ["random", "tpe", "smac", "cma_es"])
def test_given_configurations_are_tried_first(tmp_path: Path, tuner: str) -> None:
    """Trials 1 and 2 are the given configurations, for every kind of tuner; a repeat adds nothing."""
    stored = stored_sweep(tmp_path, ENQUEUED, f"tuner={tuner}")
    sweeping = stored.go_on()
    default = sweeping.search.entries[0].proposal.parameters
    tried = [entry.proposal.parameters for entry in sweeping.search.entries]
    assert {**default, "algorithm.n_epochs": 19} == tried[1]
    assert {**default, "algorithm.learning_rate": 0.01} == tried[2]
    assert sweeping.selection is not None
    made = len(stored.made)
    stored.go_on()
    assert made == len(stored.made)


def test_a_given_configuration_is_repeated_with_more_steps(tmp_path: Path) -> None:
    """DEHB runs given configurations with few steps first, and lengthens exactly the better one."""
    sweeping = stored_sweep(tmp_path, ENQUEUED, *LENGTHENED).go_on()
    proposals = [entry.proposal for entry in sweeping.search.entries]
    assert 11 == proposals[1].steps
    lengthened = [p for p in proposals if p.parent == 1]
    assert [33] == [p.steps for p in lengthened]
    assert lengthened[0].parameters == proposals[1].parameters
    assert proposals[lengthened[0].number].number == proposals[-1].parent


def test_the_plan_counts_given_configurations(tmp_path: Path) -> None:
    """The plan says in text and JSON how many given configurations are tried first."""
    words = (*WORDS, ENQUEUED, "--dry-run")
    assert 2 == json.loads(rlexp(tmp_path, "sweep", *words, "--json").out)["enqueued"]
    answer = rlexp(tmp_path, "sweep", *words)
    assert "tries 2 given configurations first" in answer.out + answer.err


def test_other_given_configurations_are_another_question(tmp_path: Path) -> None:
    """A sweep that has begun refuses other given configurations, and names the difference."""
    stored = stored_sweep(tmp_path, ENQUEUED)
    stored.go_on(runs=2)
    with pytest.raises(RecordError, match=r"sweep\.plan\.enqueue: existing \[\{'algorithm"):
        sweep(None, WORDS, SweepOptions(), stored.study, console())


def test_a_grid_ends_after_its_last_point(tmp_path: Path) -> None:
    """The status of a grid counts only the points that the grid has."""
    stored = stored_sweep(tmp_path, *GRID)
    source = stored.go_on(until=SweepStage.SEARCH)
    assert source.stage is SweepStage.SELECTION
    assert "selection 0/2 runs: 3/3 trials (3 complete)" in output_of(stored)


def test_a_sweep_without_a_possible_winner_is_stopped(tmp_path: Path) -> None:
    """A stopped sweep has its reason in text and JSON and no remaining time."""
    stored = stored_sweep(tmp_path, "sweep.stop_after=3", score=never)
    stored.go_on()
    output = output_of(stored)
    assert "stopped: 3 trials in a row failed alike, from trial 0 on: a loss is NaN" in output
    assert " left" not in output
    (experiment,) = status("made_up", stored.study).experiments
    assert experiment.sweep is not None
    assert str(experiment.sweep.stopped).startswith("3 trials in a row")
    assert experiment.sweep.seconds_left is None


def test_unfinished_trials_are_not_running_without_a_command(tmp_path: Path) -> None:
    """A trial without an active command is unfinished and not running."""
    stored = stored_sweep(tmp_path)
    source = stored.go_on(runs=3)
    spec = source.take()
    assert spec is not None
    output = output_of(stored)
    assert "4/8" not in output
    assert "3/8 trials (3 complete), 1 unfinished" in output
    (experiment,) = status("made_up", stored.study).experiments
    assert experiment.sweep is not None
    assert (0, 1) == (experiment.sweep.trials.running, experiment.sweep.trials.unfinished)


def test_steps_of_lost_attempts_are_counted(tmp_path: Path) -> None:
    """The total includes environment steps of lost attempts."""
    stored = stored_sweep(tmp_path)
    source = stored.go_on(runs=2)
    monitor = SweepMonitor(source, None, 1, {"of a lost attempt": 50}, "made_up")
    assert 2 * 100 + 50 == monitor.view().steps


def test_a_halted_sweep_does_not_suggest_retry_in_vain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--retry is not suggested for combinations that would fail again."""
    arguments = [
        "sweep.space.algorithm.n_steps=[512,1024]",
        "sweep.stop_after=3",
        "seeds.selection=0",
    ]
    stored = stored_sweep(tmp_path, *arguments, "budget.steps=100", score=by_seed)
    stored.go_on()
    assert 1 == sweep(None, stored.words, SweepOptions(), stored.study, console())
    captured = capsys.readouterr()
    assert "3 trials in a row failed alike, from trial 1 on" in captured.err
    assert "--retry" not in captured.out
    assert "To write the report: rlexp report made_up" in captured.out
    assert "no result" not in captured.out


def by_seed(spec: RunSpec) -> float:
    """A score that depends only on the seed."""
    return float(spec.seed)


def test_before_the_selection_the_report_compares_no_labels(tmp_path: Path) -> None:
    """Before the selection, the report has only the search, and a comparison is refused."""
    stored = stored_sweep(tmp_path)
    stored.go_on(until=SweepStage.SEARCH)
    notices = report(ReportRequest(targets=("made_up",)), stored.study).notices
    assert any("made_up has no test run yet" in notice.text for notice in notices)
    assert not any("undecided" in notice.text.lower() for notice in notices)
    page = (tmp_path / "reports" / "made_up" / "report.html").read_text()
    assert "8 trials, no test run" in page
    assert len(page) < 500_000
    with pytest.raises(
        ConfigError, match="has no test runs to compare yet; to see its progress: rlexp status"
    ):
        compare(CompareRequest(targets=("made_up",)), stored.study)


def test_a_search_shows_no_test_scores(tmp_path: Path) -> None:
    """During the search, `rlexp show` has the progress and no empty test scores."""
    stored = stored_sweep(tmp_path)
    stored.go_on(runs=3)
    output = rlexp(tmp_path, "show", "made_up").out
    assert "search: 3/8 trials" in output
    assert "no run has a score" not in output


def test_runs_are_counted_where_the_definition_is_damaged(tmp_path: Path) -> None:
    """Without a readable definition, all runs on disk are counted."""
    stored = stored_sweep(tmp_path)
    stored.go_on(runs=3)
    stored.paths.definition.write_text("{")
    output = output_of(stored)
    assert "3 runs: 3 completed" in output
    assert "damaged: experiment.json" in output


@pytest.mark.parametrize(
    ("word", "steps"),
    [
        # 8 trials on 1 seed; 2 on 2 more seeds and on 2 selection seeds; 2 on 3 test seeds.
        ("sweep.trials=8", 800 + 400 + 400 + 600),
        ("sweep.finalists=1", 800 + 400 + 200 + 600),
        # 4 full runs, of which 1 is promoted.
        ("sweep.full_runs=4", 400 + 200 + 200 + 600),
        # The limit counts only for the steps of the search.
        ("sweep.steps=500", 500 + 400 + 600),
        ("seeds.test=0", 800 + 400 + 400),
        ("sweep.allocation=fixed", 2400 + 600 + 600),
    ],
)
def test_remaining_runs_are_counted_by_stage(tmp_path: Path, word: str, steps: int) -> None:
    """The remaining steps are the sum over all stages, and 0 after the last stage."""
    stored = stored_sweep(tmp_path, word)
    assert steps == remaining_steps(stored.go_on(runs=0))
    assert 0 == remaining_steps(stored.go_on())
