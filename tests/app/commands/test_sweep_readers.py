"""Status, report, trials and Optuna storage of a sweep can be read and agree."""

import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import give_json, rlexp
from last_words import last_words
from quick_parts import quick_parts
from stored_runs import console, output
from stored_sweeps import finished_sweep, stored_sweep

from rlexp.app.commands.judge.report import ReportRequest, report
from rlexp.app.commands.train.sweep import SweepOptions, read_stage
from rlexp.app.reporting.evidence import collect_evidence
from rlexp.app.sweeps.request import read_sweep
from rlexp.app.sweeps.retrain import SweepTrial, request_trial_again
from rlexp.cli.train.sweep import execute as sweep
from rlexp.engine.sweep_source import SweepStage
from rlexp.errors import ConfigError, RecordError
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.records.selection import configuration_name
from rlexp.store.runs import write_experiment
from rlexp.store.sweeps import read_selection, read_trials
from rlexp.text import format_parameters

quick = pytest.fixture(autouse=True)(quick_parts)
OLDER = "sweep.objective=lowest_score"


def test_steps_and_scores_of_the_evidence_are_consistent(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The steps of trials are those of tuning runs, and the winner has a score on every seed."""
    stored = finished_sweep(tmp_path, tmp_path_factory)
    evidence = collect_evidence(["made_up"], Phase.TEST, stored.study)
    (sweep_evidence,) = evidence.sweeps
    tuning = [s for s in stored.made if s.phase is Phase.TUNING]
    assert (
        100 * len(tuning)
        == sweep_evidence.costs["tuning"].steps
        == sum(t.spent for t in sweep_evidence.trials)
    )
    assert sweep_evidence.costs["tuning"].steps == max(t.ended_at for t in sweep_evidence.trials)
    assert {"tuned", "default"} == set(evidence.labels)
    assert sweep_evidence.selection is not None
    winner = sweep_evidence.trials[sweep_evidence.selection.winner]
    assert (True, 3) == (winner.eligible, len(winner.scores))
    assert sum(winner.scores.values()) / 3 == winner.value
    assert (
        max(t.parameters["algorithm.n_epochs"] for t in sweep_evidence.trials if t.eligible)
        == (winner.parameters["algorithm.n_epochs"])
    )
    assert 2 == sum(t.eligible for t in sweep_evidence.trials)


def test_a_list_has_no_aggregate_over_the_trials_of_a_search(tmp_path: Path) -> None:
    """The scores of different trials are never put together, in a sweep that has no test runs."""
    stored = stored_sweep(tmp_path)
    stored.go_on(until=SweepStage.SEARCH)
    (row,) = give_json(tmp_path, "listing", "ls")["rows"]
    assert ("tuning", None, None) == (row["phase"], row["estimate"], row["interval"])


def test_screened_trials_ended_before_promoted_ones(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A promoted trial ends with its last run, after all trials were screened."""
    stored = finished_sweep(tmp_path, tmp_path_factory)
    (sweep_evidence,) = collect_evidence(["made_up"], Phase.TEST, stored.study).sweeps
    screened = [t.ended_at for t in sweep_evidence.trials if not t.eligible]
    promoted = [t.ended_at for t in sweep_evidence.trials if t.eligible]
    assert max(screened) <= 800 < min(promoted)
    assert 800 + 2 * 2 * 100 == max(promoted)


def test_status_shows_the_progress_of_a_sweep(tmp_path: Path) -> None:
    """Text and JSON have the stage, the trials, the best trial and the cost."""
    stored = stored_sweep(tmp_path)
    stored.go_on(runs=4)
    printed = rlexp(tmp_path, "status", "made_up").out
    assert "made_up (unfinished): " in printed
    assert "search: 4/8 trials (4 complete)" in printed
    assert "400 environment steps" in printed
    (experiment,) = rlexp(tmp_path, "status", "--json").document("status")["experiments"]
    counts = {"planned": 8, "ended": 4, "by_state": {"complete": 4}, "running": 0, "unfinished": 0}
    assert (counts, "search") == (experiment["sweep"]["trials"], experiment["sweep"]["stage"])
    assert [0, 1, 2, 3] == [trial["number"] for trial in experiment["sweep"]["latest"]]
    assert "4/8 trials" in rlexp(tmp_path, "status", "made_up", "--watch").out


def test_status_and_show_have_one_best_trial_and_its_parameters(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Of the latest trials at most one is the best so far, and all have their parameters."""
    stored = finished_sweep(tmp_path, tmp_path_factory)
    folder, trials = stored.study.folder, read_trials(stored.paths)
    (experiment,) = rlexp(folder, "status", "--json").document("status")["experiments"]
    sweep_document = experiment["sweep"]
    winner = sweep_document["winner"]
    assert dict(trials[winner].parameters) == sweep_document["parameters"]
    for trial in sweep_document["latest"]:
        assert dict(trials[trial["number"]].parameters) == trial["parameters"]
        assert (trial["number"] == sweep_document["best"]["trial"]) == trial["best"]
        if trial["best"]:
            assert (3, sweep_document["best"]["value"]) == (trial["seeds"], trial["value"])
    for command in ("status", "show"):
        printed = rlexp(folder, command, "made_up").out
        assert f"{configuration_name(winner, winner)}: learning_rate=" in printed
        assert printed.count("the best so far") <= 1


def test_of_two_trials_that_led_only_the_second_is_the_best(tmp_path: Path) -> None:
    """A trial that was the best when it ended is not called so after a better trial."""

    def rises(spec: RunSpec) -> float:
        made.append(spec)
        return float(len(made))

    made: list[RunSpec] = []
    stored = stored_sweep(tmp_path, score=rises)
    stored.go_on(runs=4)
    printed = rlexp(tmp_path, "status", "made_up").out
    assert 1 == printed.count("the best so far")
    assert "trial 3 complete 4.00 on 1 seed, the best so far · learning_rate=" in printed
    assert "best trial 3: learning_rate=" in printed


def test_ls_has_the_parameters_of_each_trial(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Each run of a sweep has the parameters of its trial, and conditions can name them."""
    stored = finished_sweep(tmp_path, tmp_path_factory)
    folder, trials = stored.study.folder, read_trials(stored.paths)
    rows = rlexp(folder, "ls", "made_up", "--json").document("listing")["rows"]
    for row in rows:
        name = row["label"]
        selection = read_selection(stored.paths)
        assert selection is not None
        numbers = {"default": 0, "tuned": selection.winner}
        number = numbers[name] if name in numbers else int(name.removeprefix("trial "))
        assert format_parameters(trials[number].parameters) == row["parameters"]
    epochs = f"n_epochs={trials[0].parameters['algorithm.n_epochs']}"
    assert "trial 0" in rlexp(folder, "ls", "made_up", "--where", f"parameters~{epochs}").out
    assert "n_epochs=" in rlexp(folder, "ls", "made_up", "--group").out
    stored.paths.trials.write_text("damaged\n")
    assert "n_epochs=" not in rlexp(folder, "ls", "made_up").out


def test_a_finished_sweep_shows_its_outcome_and_runs_nothing(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    """A repeated command prints the winner and the cost of a finished sweep and runs nothing."""
    stored = finished_sweep(tmp_path, tmp_path_factory)
    before = len(stored.paths.runs())
    assert 0 == sweep(None, stored.words, SweepOptions(), stored.study, console())
    printed = output(capsys)
    for text in ("nothing to run", "tuned is trial", "Scores by phase", "Cost: tuning 12 runs"):
        assert text in printed
    assert before == len(stored.paths.runs())
    commands = [line.partition(": ")[2] for line in printed.splitlines() if line.startswith("To ")]
    assert ["show", "report", "best", "run", "compare"] == [
        shlex.split(command)[1] for command in commands
    ]


def test_a_dry_run_of_a_sweep_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--dry-run` shows the maximum number of runs and creates no folder."""
    stored = stored_sweep(tmp_path)
    assert 0 == sweep(None, stored.words, SweepOptions(dry_run=True), stored.study, console())
    printed = output(capsys)
    # 8 trials on 1 seed; 2 on 2 more seeds and on 2 selection seeds; 2 on 3 test seeds.
    assert "at most 22 runs × 100 environment steps" in printed
    assert "2 finalists on 2 selection seeds" in printed
    assert not (tmp_path / "runs").exists()


def test_more_trials_after_the_selection_are_refused(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """More trials are refused once the winner is selected."""
    stored = finished_sweep(tmp_path, tmp_path_factory)
    with pytest.raises(RecordError, match="has chosen its winner"):
        sweep(
            None,
            last_words(*stored.words, "sweep.trials=20"),
            SweepOptions(),
            stored.study,
            console(),
        )


def test_every_trial_can_be_trained_again(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Each trial can be trained again with other seeds; without a number, it is the winner."""
    stored = finished_sweep(tmp_path, tmp_path_factory)
    trials = read_trials(stored.paths)
    for number in (0, 5):
        request = request_trial_again(
            SweepTrial("made_up", number), ["seeds.test=4"], stored.study
        )
        (configuration,) = request.experiment.configurations
        original = trials[number].configuration
        assert original is not None
        assert original.fingerprint == configuration.fingerprint
        assert (f"made_up-trial-{number}", 4) == (
            request.experiment.name,
            request.experiment.seeds.test,
        )
    selection = read_selection(stored.paths)
    assert selection is not None
    winner = request_trial_again(SweepTrial("made_up", None), ["budget.steps=200"], stored.study)
    assert f"made_up-trial-{selection.winner}" == winner.experiment.name
    assert 200 == winner.experiment.configurations[0].budget.steps


def test_a_tenth_is_that_of_the_trials_budget(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """`tenth` is a tenth of the budget of the trial, or of the budget in the command."""
    stored, word = finished_sweep(tmp_path, tmp_path_factory), "budget.evaluation_every=tenth"
    for arguments, steps in (([word], 100), ([word, "budget.steps=200"], 200)):
        request = request_trial_again(SweepTrial("made_up", 0), arguments, stored.study)
        budget = request.experiment.configurations[0].budget
        assert (steps, steps // 10) == (budget.steps, budget.evaluation_every)


@pytest.mark.parametrize(
    ("trial", "word", "message"),
    [
        (99, "seeds.test=1", "has no trial 99: it has the trials 0 … 7"),
        (0, "algorithm=a2c", "are those of algorithm=ppo"),
        (0, "seeds.test=0", "seeds.test is empty"),
    ],
)
def test_impossible_requests_of_a_trial_are_refused(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, trial: int, word: str, message: str
) -> None:
    """An unknown trial, another algorithm and an empty plan are refused."""
    stored = finished_sweep(tmp_path, tmp_path_factory)
    with pytest.raises((RecordError, ConfigError), match=message):
        request_trial_again(SweepTrial("made_up", trial), [word], stored.study)


def test_before_the_selection_the_best_trial_is_trained(tmp_path: Path) -> None:
    """Before the selection, the best screened trial is trained."""
    stored = stored_sweep(tmp_path)
    stored.go_on(runs=5)
    trials = read_trials(stored.paths)[:5]
    best = max(trials, key=lambda t: t.parameters["algorithm.n_epochs"])
    request = request_trial_again(SweepTrial("made_up", None), [], stored.study)
    assert f"made_up-trial-{best.number}" == request.experiment.name


def test_a_trial_trained_during_the_search_uses_other_seeds(tmp_path: Path) -> None:
    """During the search, another root of seeds keeps the test seeds of the sweep unused."""
    stored = stored_sweep(tmp_path)
    stored.go_on(runs=5)
    roots = [
        request_trial_again(
            SweepTrial("made_up", 1), arguments, stored.study
        ).experiment.seeds.root
        for arguments in ([], ["seeds.root=7"], ["phase=tuning", "seeds.tuning=1"])
    ]
    assert [1, 7, 0] == roots
    with pytest.raises(ConfigError, match="its test seeds must stay unused until then"):
        request_trial_again(SweepTrial("made_up", 1), ["seeds.root=0"], stored.study)
    stored.go_on()
    assert (
        0 == request_trial_again(SweepTrial("made_up", 1), [], stored.study).experiment.seeds.root
    )


def test_a_systematic_failure_stops_the_sweep(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Trials that all fail stop the sweep with the reason, the log and exit code 1."""
    stored = stored_sweep(tmp_path, "sweep.stop_after=3", score=lambda _: None)
    stored.go_on()
    assert 1 == sweep(None, [*stored.words], SweepOptions(), stored.study, console())
    captured = capsys.readouterr()
    assert "3 trials in a row failed alike, from trial 0 on: a loss is NaN" in captured.err
    assert "Traceback: it broke" in captured.err
    assert "--retry" in captured.out


def test_the_report_of_a_sweep_has_its_sections(tmp_path: Path) -> None:
    """The report has the winner, the history, parallel coordinates and importances."""
    stored = stored_sweep(tmp_path, "sweep.trials=30")
    stored.go_on()
    report(ReportRequest(targets=("made_up",)), stored.study)
    page = (tmp_path / "reports" / "made_up" / "report.html").read_text()
    for text in (
        "Tuned configuration",
        "Optimisation history",
        "Parallel",
        "PED-ANOVA",
        "n_epochs",
    ):
        assert text in page


def test_ls_and_show_stay_short(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """`ls` names only the first trials of a sweep, and `show` has only its test runs."""
    stored = finished_sweep(tmp_path, tmp_path_factory)
    folder = stored.study.folder
    assert "trial 0, trial 1, trial 2, trial 3 and 6 more" in rlexp(folder, "ls").out
    printed = rlexp(folder, "show", "made_up", "--full").out
    assert "tuned on CartPole-v1, test seeds" in printed
    assert "tuning seeds" not in printed
    short = rlexp(folder, "show", "made_up").out
    assert "Mean score by phase" not in short
    assert "Optimism of tuning" in short
    assert "n_epochs=" in short
    assert len(short.splitlines()) <= 24


def test_show_and_best_print_the_same_optimism(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Both commands print one line, with equal digits."""
    folder = finished_sweep(tmp_path, tmp_path_factory).study.folder
    lines = [
        line.strip().rstrip(".")
        for command in ("show", "best")
        for line in rlexp(folder, command, "made_up").out.splitlines()
        if "Optimism of tuning" in line
    ]
    assert [lines[0]] * 2 == lines


def test_ls_never_averages_trials(tmp_path: Path) -> None:
    """During the search, an experiment has no score, and each trial is a configuration."""
    stored = stored_sweep(tmp_path)
    stored.go_on(runs=4)
    (row,) = rlexp(tmp_path, "ls", "--json").document("listing")["rows"]
    assert (None, None) == (row["estimate"], row["interval"])
    groups = rlexp(tmp_path, "ls", "--group", "--json").document("listing")["rows"]
    assert {("tuning", 1)} == {(row["phase"], row["n"]) for row in groups}
    assert 4 == len({row["label"] for row in groups})


def test_a_new_sweep_declares_its_direction_with_a_measure(tmp_path: Path) -> None:
    """`lowest_score` is refused with the words that declare a direction, and nothing is written."""
    for score, words in (
        ("final", "environment.measures.NAME.direction=minimise sweep.objective=NAME"),
        ("cost", "environment.measures.cost.direction=minimise sweep.objective=score"),
    ):
        sweep = stored_sweep(tmp_path, OLDER, f"budget.score={score}")
        with pytest.raises(ConfigError, match="is of older versions") as error:
            sweep.go_on()
        assert str(error.value).endswith(words)
    assert not sweep.paths.folder.exists()


def test_an_older_sweep_for_the_lowest_score_goes_on(tmp_path: Path) -> None:
    """A recorded sweep with the objective `lowest_score` continues and selects the lowest score."""
    new, older = stored_sweep(tmp_path), stored_sweep(tmp_path, OLDER)
    experiment = read_sweep(None, new.words, new.study).experiment
    assert experiment.sweep is not None
    plan = replace(experiment.sweep.plan, objective="lowest_score")
    write_experiment(new.paths, replace(experiment, sweep=replace(experiment.sweep, plan=plan)))
    older.go_on()
    selection, trials = read_selection(older.paths), read_trials(older.paths)
    assert selection is not None
    (chosen, *others) = [
        trials[n].parameters["algorithm.n_epochs"]
        for n in (selection.winner, *(f.number for f in selection.finalists))
    ]
    assert chosen == min(others)
    assert chosen < max(trial.parameters["algorithm.n_epochs"] for trial in trials)


def test_a_failed_selection_run_costs_a_finalist_the_win(tmp_path: Path) -> None:
    """A finalist without a score on every selection seed cannot win against a complete one."""

    def breaks(spec: RunSpec) -> float | None:
        score = 10.0 * spec.algorithm["n_epochs"]
        best = spec.phase is Phase.SELECTION and spec.algorithm["n_epochs"] == 20
        return None if best else score

    stored = stored_sweep(tmp_path, "sweep.trials=30", "sweep.stop_after=100", score=breaks)
    stored.go_on(until=SweepStage.SELECTION)
    selection = read_selection(stored.paths)
    assert selection is not None
    assert 2 == len(selection.chosen.selection)


def test_unknown_stages_are_refused() -> None:
    """An unknown stage of `--until` is refused with a suggestion."""
    assert SweepStage.SEARCH is read_stage("search")
    with pytest.raises(ConfigError, match="did you mean 'selection'"):
        read_stage("selecton")
