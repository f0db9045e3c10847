"""A program that trains by itself asks a sweep for runs, and tells their scores."""

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import rlexp as command
from command_line import typed

import rlexp
from rlexp.app.sweeps.ask_and_tell import DueRun, SweepStudy
from rlexp.errors import RlexpError
from rlexp.store.layout import ExperimentPaths, Layout
from rlexp.store.runs import read_run, read_spec

SEEDS = {"tuning": 3, "selection": 2, "test": 3}
Score = Callable[[DueRun], float]


def study_in(folder: Path, **keywords: Any) -> SweepStudy:
    """A small study of random search."""
    settings: dict[str, Any] = {
        "space": {"rate": "tag(log, interval(1e-4, 1e-1))", "layers": (1, 2, 3)},
        "default": {"rate": 1e-3, "layers": 2, "gamma": 0.99},
        "task": "robot",
        "tuner": "random",
        "sweep": {"trials": 8, "promoted": 0.25, "finalists": 2},
        "seeds": SEEDS,
        "budget": {"steps": 500},
    }
    return rlexp.sweep_study("mine", workspace=folder, **{**settings, **keywords})


def trained(run: DueRun) -> float:
    """A score that rises with the layers and varies by seed."""
    return (
        10.0 * float(run.settings["layers"])
        - float(run.settings["rate"])
        + random.Random(run.seed).random()
    )


def go_on(study: SweepStudy, score: Score = trained) -> list[DueRun]:
    """Train what the study asks for until it is done; returns the runs in their order."""
    runs = []
    while (run := study.ask()) is not None:
        runs.append(run)
        study.tell(run.trial, run.seed, score(run))
    return runs


def decisions(
    folder: Path,
) -> tuple[list[dict[str, Any]], dict[str, Any], dict[str, float | None]]:
    """The trials, the choice and the scores that a folder holds, without times."""
    paths = ExperimentPaths(folder / "runs" / "mine")
    trials = [json.loads(line) for line in paths.trials.read_text().splitlines()]
    for trial in trials:
        trial.pop("seconds", None)
    scores = {r.folder.name: read_run(r, read_spec(r)).record.score for r in paths.runs()}
    return trials, json.loads(paths.selection.read_text()), scores


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[DueRun]]:
    """The folder of a study without interruptions, and its runs."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, go_on(study_in(folder))


def test_a_study_follows_the_protocol_of_a_sweep(whole: tuple[Path, list[DueRun]]) -> None:
    """Screening, promotion, selection and test follow each other, and no two phases share a seed."""
    folder, runs = whole
    phases = [run.phase for run in runs]
    assert sorted(phases, key=["tuning", "selection", "test"].index) == phases
    screened = runs[:8]
    assert [*range(8)] == [run.trial for run in screened]
    assert 1 == len({run.seed for run in screened})
    promoted = [run for run in runs[8:] if run.phase == "tuning"]
    # A quarter of eight trials on two more seeds each.
    assert 4 == len(promoted)
    best = sorted(screened, key=trained, reverse=True)[:2]
    assert {run.trial for run in best} == {run.trial for run in promoted}
    seeds = {phase: {r.seed for r in runs if r.phase == phase} for phase in set(phases)}
    assert {"tuning": 3, "selection": 2, "test": 3} == {k: len(v) for k, v in seeds.items()}
    assert 8 == len(set().union(*seeds.values()))
    winner = study_in(folder).winner
    tests = {run.trial for run in runs if run.phase == "test"}
    assert {winner, 0} == tests
    assert {"rate", "layers", "gamma"} == {*runs[0].settings}
    assert 500 == runs[0].steps


def test_scores_on_test_seeds_change_no_choice(
    whole: tuple[Path, list[DueRun]], tmp_path: Path
) -> None:
    """Other scores on test seeds leave the trials and the choice as they are."""
    go_on(study_in(tmp_path), lambda run: -trained(run) if run.phase == "test" else trained(run))
    trials, choice, _ = decisions(whole[0])
    assert (trials, choice) == decisions(tmp_path)[:2]


def test_a_program_that_is_killed_goes_on(
    whole: tuple[Path, list[DueRun]], tmp_path: Path
) -> None:
    """A process that dies at any write, and the same program again, give the same records."""
    for writes in (3, 17, 60, 140):
        folder = tmp_path / str(writes)
        if (pid := os.fork()) == 0:
            _die_after(writes, folder)
        assert 9 == os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        open_run = study_in(folder).ask()
        assert open_run == study_in(folder).ask()
        go_on(study_in(folder))
        assert decisions(whole[0]) == decisions(folder)
        assert "match the ledger" in command(folder, "verify", "mine").out
        assert [] == [*(folder / "runs" / "mine").glob(".import-*")]


def _die_after(writes: int, folder: Path) -> None:
    """Train in this process until it has synchronised this number of files, and end it there."""
    fsync, left = os.fsync, iter(range(writes))

    def sync(descriptor: Any) -> None:
        if next(left, None) is None:
            os._exit(9)
        fsync(descriptor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", sync)
        go_on(study_in(folder))
    os._exit(1)


def test_a_new_study_for_every_call_changes_nothing(
    whole: tuple[Path, list[DueRun]], tmp_path: Path
) -> None:
    """Calls of two studies of one folder in turn give the records of one study."""
    first, second = study_in(tmp_path), study_in(tmp_path)
    while (run := first.ask()) is not None:
        assert run == second.ask()
        second.tell(run.trial, run.seed, trained(run))
        first, second = second, first
    assert decisions(whole[0]) == decisions(tmp_path)


def test_trials_in_parallel_are_told_in_any_order(tmp_path: Path) -> None:
    """With a lag, several runs are due, and the order in which they are told changes no trial."""
    sweep = {"trials": 8, "promoted": 0.25, "lag": 2}
    for name, order in (("forwards", 1), ("backwards", -1)):
        study = study_in(tmp_path / name, sweep=sweep, tuner="tpe")
        assert 3 == len(study.due())
        while runs := study.due():
            run = runs[::order][0]
            study.tell(run.trial, run.seed, trained(run))
    assert decisions(tmp_path / "forwards") == decisions(tmp_path / "backwards")


def test_failed_trainings_are_visible_and_never_win(tmp_path: Path) -> None:
    """NaN, infinity and told failures are failed runs with a reason; the trial cannot win."""
    study, failed = study_in(tmp_path), dict[int, str]()
    while (run := study.ask()) is not None:
        if run.phase == "tuning" and run.settings["layers"] == 3 and len(failed) < 3:
            match len(failed):
                case 0:
                    study.tell(run.trial, run.seed, float("nan"))
                case 1:
                    study.tell(run.trial, run.seed, float("inf"))
                case _:
                    study.tell_failure(run.trial, run.seed, "the arm\nbroke")
            failed[run.trial] = ("the score is nan", "the score is inf", "the arm broke")[
                len(failed)
            ]
            assert study.ask() != run
        else:
            study.tell(run.trial, run.seed, trained(run))
    assert 3 == len(failed)
    assert study.winner not in failed
    listed = command(tmp_path, "ls", "mine", "--where", "state=failed").out
    assert 3 == listed.count(" failed ")
    shown = command(tmp_path, "status", "mine").out
    assert "3 failed" in shown
    again = command(tmp_path, "report", "mine", "--format", "md", "--output", str(tmp_path / "r"))
    assert again.code == 0
    report = (tmp_path / "r" / "report.md").read_text()
    assert all(reason in report for reason in failed.values())


def test_commands_that_read_work_on_a_study(whole: tuple[Path, list[DueRun]]) -> None:
    """Status, show, best, ls, compare, report and verify read a study as any sweep."""
    folder, runs = whole
    winner = study_in(folder).winner
    assert f"chosen tuned (trial {winner})" in command(folder, "status", "mine").out
    assert "tuned" in command(folder, "show", "mine").out
    assert f"trial {winner}) was chosen from 8 trials" in command(folder, "best", "mine").out
    assert len(runs) == len(command(folder, "ls", "mine", "--json").content["rows"])
    assert "tuned" in command(folder, "compare", "mine").out
    verified = command(folder, "verify", "mine").out
    assert f"{len(runs)} of {len(runs)} attempts match the ledger" in verified
    command(folder, "report", "mine", "--format", "md", "--output", str(folder / "page"))
    page = (folder / "page" / "report.md").read_text()
    assert "trained by the program that asked for them" in page
    assert "imported from other tools" not in page
    assert "algorithm.imported" not in page.partition("Every hyperparameter")[2].partition("#")[0]


def test_commands_that_train_leave_a_study_alone(tmp_path: Path) -> None:
    """Resume, sweep and run --from-sweep refuse a study on one line; resume of all skips it."""
    study = study_in(tmp_path)
    run = study.ask()
    assert run is not None
    study.tell(run.trial, run.seed, 1.0)
    for words in (
        ("resume", "mine"),
        ("run", "--from-sweep", "mine", "--trial", "0"),
        ("sweep", "algorithm.gamma=0.9,0.99", "experiment=mine"),
        ("best", "mine", "--format", "args"),
    ):
        with pytest.raises(RlexpError, match=r"trained by the program that asks .*sweep_study"):
            command(tmp_path, *words)
    assert "nothing to continue" in typed(tmp_path, "resume").out
    # A test is no script of the workspace, so that no command continues the study.
    assert "rlexp resume" not in command(tmp_path, "status", "mine").out


def test_a_script_is_the_command_that_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unfinished study that a script of the workspace trains names the script."""
    import __main__

    (tmp_path / "train.py").touch()
    monkeypatch.setattr(__main__, "__file__", str(tmp_path / "train.py"), raising=False)
    monkeypatch.setattr("sys.argv", ["train.py", "--fast"])
    study = study_in(tmp_path)
    run = study.ask()
    assert run is not None
    study.tell(run.trial, run.seed, 1.0)
    with monkeypatch.context() as inside:
        inside.chdir(tmp_path)
        assert "python train.py --fast" in command(tmp_path, "show", "mine").out


@pytest.mark.parametrize(
    ("tell", "reason"),
    [
        (
            lambda s, r: s.tell(9, r.seed, 1.0),
            "study mine has no trial 9: it has the trials 0 … 1",
        ),
        (lambda s, r: s.tell(-1, r.seed, 1.0), "study mine has no trial -1"),
        (lambda s, r: s.tell(1, 5, 1.0), "has not asked for trial 1 with the seed 5: tell one of"),
        (lambda s, _: s.tell(0, 5, 1.0), "no seed of this trial is due, but of trial 1"),
        (lambda s, r: s.tell(0, r.seed, 2.0), "has the score 1.0, which is kept; the score 2.0"),
        (lambda s, r: s.tell_failure(0, r.seed), "has the score 1.0, which is kept; a failure"),
        (lambda s, r: s.tell(1, r.seed, "high"), "the score 'high' is no number"),
        (lambda s, r: s.tell(1, r.seed, True), "the score True is no number"),
        (lambda s, r: s.tell(1, r.seed, None), "the score None is no number"),
    ],
)
def test_a_wrong_tell_is_one_line_and_stores_nothing(
    tmp_path: Path, tell: Callable[[SweepStudy, DueRun], None], reason: str
) -> None:
    """An unknown trial, a wrong seed, another score and no number are refused on one line."""
    study = study_in(tmp_path)
    first = study.ask()
    assert first is not None
    study.tell(first.trial, first.seed, 1.0)
    study.tell(first.trial, first.seed, 1.0)
    run = study.ask()
    assert run is not None
    runs = {*(tmp_path / "runs" / "mine").iterdir()}
    with pytest.raises(RlexpError) as mistake:
        tell(study, run)
    assert reason in str(mistake.value)
    assert "\n" not in str(mistake.value)
    assert runs == {*(tmp_path / "runs" / "mine").iterdir()}
    assert run == study.ask()


def test_a_tell_after_the_choice_is_refused(whole: tuple[Path, list[DueRun]]) -> None:
    """After the choice, another score of a tuning run is refused, and so is a further seed."""
    folder, runs = whole
    study = study_in(folder)
    with pytest.raises(RlexpError, match="is kept"):
        study.tell(runs[0].trial, runs[0].seed, 1e6)
    worst = min(runs[:8], key=trained).trial
    further = next(r.seed for r in runs[8:] if r.phase == "tuning")
    with pytest.raises(RlexpError, match=r"the choice of trial \d+ is final"):
        study.tell(worst, further, 1e6)


@pytest.mark.parametrize(
    ("keywords", "reason"),
    [
        ({"space": {}}, "the space is empty"),
        ({"space": {"depth": (1, 2)}}, "depth is searched and has no default"),
        ({"algorithm": "ppo"}, "a study trains with your own code"),
        ({"pruner": "median"}, "pruner needs runs that rlexp trains"),
        ({"tracker": "tensorboard"}, "tracker needs runs that rlexp trains"),
        ({"sweep": {"hours": 2.0}}, "sweep.hours needs runs that rlexp trains"),
        ({"budget": {"final_episodes": 5}}, "budget.final_episodes needs runs that rlexp trains"),
        ({"sweep": {"objective": "auc"}}, "sweep.objective needs runs that rlexp trains"),
        ({"seeds": {"tunning": 3}}, "unknown key 'seeds.tunning'"),
        ({"workspac": "x"}, "sweep_study() has no keyword 'workspac'"),
        ({"space": {"layers": "interval(3, 1)"}}, "layers"),
    ],
)
def test_a_wrong_study_is_one_line_and_writes_nothing(
    tmp_path: Path, keywords: dict[str, Any], reason: str
) -> None:
    """Settings that a study cannot have are refused on one line, before anything is written."""
    with pytest.raises(RlexpError) as mistake:
        study_in(tmp_path, **keywords)
    assert reason in str(mistake.value)
    assert "\n" not in str(mistake.value)
    assert not (tmp_path / "runs").exists()


def test_a_study_may_grow_and_not_change(whole: tuple[Path, list[DueRun]], tmp_path: Path) -> None:
    """Test seeds can be added after the choice; another space or default is refused."""
    go_on(study_in(tmp_path))
    more = go_on(study_in(tmp_path, seeds={**SEEDS, "test": 5}))
    assert {"test"} == {run.phase for run in more}
    assert 2 * len({*[run.trial for run in more]}) == len(more)
    with pytest.raises(RlexpError, match="exists with another definition"):
        study_in(tmp_path, default={"rate": 1e-2, "layers": 2, "gamma": 0.99})
    with pytest.raises(RlexpError, match="has chosen its winner, so no trials can be added"):
        study_in(tmp_path, sweep={"trials": 20, "promoted": 0.25, "finalists": 2})
    assert Layout(tmp_path / "runs").experiment("mine").selection.exists()


def test_steps_of_a_trial_are_those_of_the_tuner(tmp_path: Path) -> None:
    """A tuner with several lengths of training hands out runs with fewer steps."""
    study = study_in(tmp_path, tuner="dehb", sweep={"trials": 12}, budget={"steps": 900})
    runs = go_on(study, lambda run: trained(run) + run.steps / 1e4)
    assert len({run.steps for run in runs}) > 1
    assert {900} == {run.steps for run in runs if run.phase != "tuning"}
    assert "match the ledger" in command(tmp_path, "verify", "mine").out


def test_a_damaged_run_is_asked_for_again(tmp_path: Path) -> None:
    """A run whose journal is lost has no score, and the study asks for it again."""
    study = study_in(tmp_path)
    first = study.ask()
    assert first is not None
    study.tell(first.trial, first.seed, 1.0)
    (run,) = ExperimentPaths(tmp_path / "runs" / "mine").runs()
    (run.attempts()[-1].journal).unlink()
    assert first == study_in(tmp_path).ask()
