"""Reading a sweep: its status, report, trials and Optuna storage."""

import shlex
from pathlib import Path

import pytest
from command_line import rlexp
from quick_parts import quick_parts
from stored_runs import console, output
from stored_sweeps import finished_sweep, stored_sweep

from rlexp.app.commands.report import ReportRequest, report
from rlexp.app.commands.sweep import SweepOptions, read_stage
from rlexp.app.reporting.evidence import collect_evidence
from rlexp.app.sweeps.progress import mirrored_trials
from rlexp.app.sweeps.retrain import SweepTrial, request_trial_again
from rlexp.cli.sweep import execute as sweep
from rlexp.engine.sweep_source import SweepStage
from rlexp.errors import ConfigError, RecordError
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.store.sweeps import read_selection, read_trials

quick = pytest.fixture(autouse=True)(quick_parts)


def test_steps_and_scores_of_the_evidence_are_consistent(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Steps of trials equal those of tuning runs; the winner has a score on every seed."""
    made = finished_sweep(tmp_path, tmp_path_factory)
    evidence = collect_evidence(["made_up"], Phase.TEST, made.study)
    (result,) = evidence.sweeps
    tuning = [s for s in made.made if s.phase is Phase.TUNING]
    assert 100 * len(tuning) == result.costs["tuning"].steps == sum(t.spent for t in result.trials)
    assert result.costs["tuning"].steps == max(t.ended_at for t in result.trials)
    assert {"tuned", "default"} == set(evidence.labels)
    assert result.selection is not None
    winner = result.trials[result.selection.winner]
    assert (True, 3) == (winner.eligible, len(winner.scores))
    assert sum(winner.scores.values()) / 3 == winner.value
    assert (
        max(t.parameters["algorithm.n_epochs"] for t in result.trials if t.eligible)
        == (winner.parameters["algorithm.n_epochs"])
    )
    assert 2 == sum(t.eligible for t in result.trials)


def test_screened_trials_ended_before_promoted_ones(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A promoted trial is placed at its last run, after the screening of all trials."""
    made = finished_sweep(tmp_path, tmp_path_factory)
    (result,) = collect_evidence(["made_up"], Phase.TEST, made.study).sweeps
    screened = [t.ended_at for t in result.trials if not t.eligible]
    promoted = [t.ended_at for t in result.trials if t.eligible]
    assert max(screened) <= 800 < min(promoted)
    assert 800 + 2 * 2 * 100 == max(promoted)


def test_status_shows_the_progress_of_a_sweep(tmp_path: Path) -> None:
    """Text and JSON have the stage, the trials, the best trial and the cost."""
    made = stored_sweep(tmp_path)
    made.go_on(runs=4)
    printed = rlexp(tmp_path, "status", "made_up").out
    assert "not running" in printed
    assert "search: 4/8 trials (4 complete)" in printed
    assert "400 environment steps" in printed
    (experiment,) = rlexp(tmp_path, "status", "--json").document("status")["experiments"]
    counts = {"planned": 8, "ended": 4, "by_state": {"complete": 4}, "running": 0, "unfinished": 0}
    assert (counts, "search") == (experiment["sweep"]["trials"], experiment["sweep"]["stage"])
    assert [0, 1, 2, 3] == [trial["number"] for trial in experiment["sweep"]["latest"]]
    assert "4/8 trials" in rlexp(tmp_path, "status", "made_up", "--watch").out


def test_a_finished_sweep_shows_its_outcome_and_runs_nothing(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    """Repeating the command shows winner and cost, and suggests commands that work."""
    made = finished_sweep(tmp_path, tmp_path_factory)
    before = len(made.paths.runs())
    assert 0 == sweep(None, made.words, SweepOptions(), made.study, console())
    printed = output(capsys)
    for text in ("nothing to run", "won made_up", "Scores by phase", "Cost: tuning 12 runs"):
        assert text in printed
    assert before == len(made.paths.runs())
    commands = [line.partition(": ")[2] for line in printed.splitlines() if line.startswith("To ")]
    assert ["report", "run", "sweep"] == [shlex.split(command)[1] for command in commands]


def test_a_dry_run_of_a_sweep_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--dry-run` shows the maximum number of runs and creates no folder."""
    made = stored_sweep(tmp_path)
    assert 0 == sweep(None, made.words, SweepOptions(dry_run=True), made.study, console())
    printed = output(capsys)
    # 8 screened, 2 of them on 2 further seeds and on 2 to select by, winner and default on 3.
    assert "at most 22 runs × 100 environment steps" in printed
    assert "2 finalists on 2 selection seeds" in printed
    assert not (tmp_path / "runs").exists()


def test_more_trials_after_the_selection_are_refused(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The winner is already known, so nothing is started."""
    made = finished_sweep(tmp_path, tmp_path_factory)
    with pytest.raises(RecordError, match="has chosen its winner"):
        sweep(None, [*made.words, "sweep.trials=20"], SweepOptions(), made.study, console())


def test_every_trial_can_be_trained_again(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The default trial is the winner; trial 0 works; overrides may change seeds and budget."""
    made = finished_sweep(tmp_path, tmp_path_factory)
    trials = read_trials(made.paths)
    for number in (0, 5):
        request = request_trial_again(SweepTrial("made_up", number), ["seeds.test=4"], made.study)
        (values,) = request.experiment.configurations
        there = trials[number].configuration
        assert there is not None
        assert there.fingerprint == values.fingerprint
        assert (f"made_up-trial-{number}", 4) == (
            request.experiment.name,
            request.experiment.seeds.test,
        )
    selection = read_selection(made.paths)
    assert selection is not None
    best = request_trial_again(SweepTrial("made_up", None), ["budget.steps=200"], made.study)
    assert f"made_up-trial-{selection.winner}" == best.experiment.name
    assert 200 == best.experiment.configurations[0].budget.steps


def test_a_tenth_is_that_of_the_trials_budget(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """`tenth` means a tenth of the trial's budget, or of the budget in the command."""
    made, word = finished_sweep(tmp_path, tmp_path_factory), "budget.evaluation_every=tenth"
    for arguments, steps in (([word], 100), ([word, "budget.steps=200"], 200)):
        request = request_trial_again(SweepTrial("made_up", 0), arguments, made.study)
        budget = request.experiment.configurations[0].budget
        assert (steps, steps // 10) == (budget.steps, budget.evaluation_every)


@pytest.mark.parametrize(
    ("trial", "word", "said"),
    [
        (99, "seeds.test=1", "has no trial 99: it has the trials 0 … 7"),
        (0, "algorithm.gamma=0.5", "the trial fixes algorithm"),
        (0, "environment=acrobot", "the trial fixes environment"),
        (0, "seeds.test=0", "seeds.test is empty"),
    ],
)
def test_overrides_that_change_a_trial_are_refused(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, trial: int, word: str, said: str
) -> None:
    """A trial without a sweep and overrides of its hyperparameters are refused."""
    made = finished_sweep(tmp_path, tmp_path_factory)
    with pytest.raises((RecordError, ConfigError), match=said):
        request_trial_again(SweepTrial("made_up", trial), [word], made.study)


def test_before_the_selection_the_best_trial_is_trained(tmp_path: Path) -> None:
    """A running search gives its incumbent, or its best screened trial."""
    made = stored_sweep(tmp_path)
    made.go_on(runs=5)
    trials = read_trials(made.paths)[:5]
    best = max(trials, key=lambda t: t.parameters["algorithm.n_epochs"])
    request = request_trial_again(SweepTrial("made_up", None), [], made.study)
    assert f"made_up-trial-{best.number}" == request.experiment.name


def test_a_trial_trained_during_the_search_uses_other_seeds(tmp_path: Path) -> None:
    """Its test seeds have another root, so that no test seed of the sweep is used."""
    made = stored_sweep(tmp_path)
    made.go_on(runs=5)
    roots = [
        request_trial_again(SweepTrial("made_up", 1), arguments, made.study).experiment.seeds.root
        for arguments in ([], ["seeds.root=7"], ["phase=tuning", "seeds.tuning=1"])
    ]
    assert [1, 7, 0] == roots
    with pytest.raises(ConfigError, match="its test seeds must stay unused until then"):
        request_trial_again(SweepTrial("made_up", 1), ["seeds.root=0"], made.study)
    made.go_on()
    assert 0 == request_trial_again(SweepTrial("made_up", 1), [], made.study).experiment.seeds.root


def test_the_optuna_storage_never_changes_ended_trials(tmp_path: Path) -> None:
    """The values of an ended trial stay, even if its promotion adds runs."""
    made = stored_sweep(tmp_path)
    screened = mirrored_trials(made.go_on(runs=8))
    whole = mirrored_trials(made.go_on())
    assert {"complete"} == {trial.state for trial in whole}
    assert screened == whole
    assert [1] * 8 == [len(trial.attributes["scores"]) for trial in whole]


def test_a_systematic_failure_stops_the_sweep(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The output has the reason and the log, and the exit code is 1."""
    made = stored_sweep(tmp_path, "sweep.stop_after=3", score=lambda _: None)
    made.go_on()
    assert 1 == sweep(None, [*made.words], SweepOptions(), made.study, console())
    captured = capsys.readouterr()
    assert "3 trials in a row failed alike, from trial 0 on: a loss is NaN" in captured.err
    assert "Traceback: it broke" in captured.err
    assert "--retry" in captured.out


def test_the_report_of_a_sweep_has_its_sections(tmp_path: Path) -> None:
    """The page has winner, history, parallel coordinates, importance and every trial."""
    made = stored_sweep(tmp_path, "sweep.trials=30")
    made.go_on()
    report(ReportRequest(targets=("made_up",)), made.study)
    page = (tmp_path / "reports" / "made_up" / "report.html").read_text()
    for text in (
        "Winner of the sweep",
        "Optimisation history",
        "Parallel",
        "PED-ANOVA",
        "n_epochs",
    ):
        assert text in page


def test_ls_and_show_stay_short(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A sweep is one row of `ls`, and `show` has only its test runs."""
    made = finished_sweep(tmp_path, tmp_path_factory)
    folder = made.study.folder
    assert "trial 0, trial 1, trial 2, trial 3 and 6 more" in rlexp(folder, "ls").out
    printed = rlexp(folder, "show", "made_up").out
    assert "tuned on CartPole-v1, test seeds" in printed
    assert "tuning seeds" not in printed


def test_a_failed_selection_run_costs_a_finalist_the_win(tmp_path: Path) -> None:
    """A finalist without a score on every selection seed cannot win against a complete one."""

    def breaks(spec: RunSpec) -> float | None:
        score = 10.0 * spec.algorithm["n_epochs"]
        best = spec.phase is Phase.SELECTION and spec.algorithm["n_epochs"] == 20
        return None if best else score

    made = stored_sweep(tmp_path, "sweep.trials=30", "sweep.stop_after=100", score=breaks)
    made.go_on(until=SweepStage.SELECTION)
    selection = read_selection(made.paths)
    assert selection is not None
    assert 2 == len(selection.chosen.selection)


def test_unknown_stages_are_refused() -> None:
    """`--until` accepts search, selection and test, and the error lists them."""
    assert SweepStage.SEARCH is read_stage("search")
    with pytest.raises(ConfigError, match="did you mean 'selection'"):
        read_stage("selecton")
