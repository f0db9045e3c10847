"""The Optuna study of a sweep shows its best trials, and what was decided after the search."""

from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState
from quick_parts import quick_parts
from stored_sweeps import StoredSweep, stored_sweep

from rlexp.app.sweeps.mirrored import metric_names, mirrored_sweep
from rlexp.engine.sweep_source import SweepSource, SweepStage
from rlexp.exchange.optuna_study import OptunaStudyMirror, redirect_library_logs
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.protocol.sweep import Sweep
from rlexp.store.runs import read_definition
from rlexp.store.sweeps import read_selection

quick = pytest.fixture(autouse=True)(quick_parts)


def lucky(spec: RunSpec) -> float:
    """A score that rises with the epochs, with luck on the first tuning seed."""
    lucky_run = spec.phase is Phase.TUNING and spec.seed == 0
    return 10.0 * float(spec.algorithm["n_epochs"]) + (1000.0 if lucky_run else spec.seed)


def study_of(sweep: StoredSweep, source: SweepSource) -> optuna.Study:
    """The study after an update of its mirror, as Optuna loads it."""
    redirect_library_logs()
    mirrored, journal = mirrored_sweep(source, "made_up"), sweep.study.folder / "optuna.journal"
    mirror = OptunaStudyMirror(
        None,
        journal=journal,
        name="made_up",
        space=defined(sweep).space,
        directions=("maximize",),
        metric_names=metric_names(defined(sweep)),
    )
    mirror.sync(mirrored.trials, mirrored.attributes, mirrored.notes)
    mirror.close()
    backend = JournalFileBackend(str(journal))
    return optuna.load_study(study_name="made_up", storage=JournalStorage(backend))


def system_attributes(study: optuna.Study) -> dict[str, Any]:
    """The attributes in which the dashboard finds its notes."""
    return study._storage.get_study_system_attrs(study._study_id)


def defined(sweep: StoredSweep) -> Sweep:
    """The definition of a sweep."""
    definition = read_definition(sweep.paths).sweep
    assert definition is not None
    return definition


def test_a_screening_score_is_never_the_best(tmp_path: Path) -> None:
    """At every stage, the best trial of Optuna has its value over all tuning seeds."""
    sweep = stored_sweep(tmp_path, score=lucky)
    study = study_of(sweep, sweep.go_on(runs=6))
    with pytest.raises(ValueError, match="No trials are completed"):
        _ = study.best_trial
    assert {TrialState.RUNNING} == {trial.state for trial in study.trials}
    assert all(t.user_attrs["promotion"] == "undecided" for t in study.trials[:6])
    study = study_of(sweep, sweep.go_on(until=SweepStage.SEARCH))
    assert study.best_trial.value == pytest.approx(
        10.0 * study.best_trial.params["algorithm.n_epochs"] + (1000 + 1 + 2) / 3
    )
    assert 3 == len(study.best_trial.user_attrs["scores"])
    assert study.best_trial.user_attrs["screening"] > study.best_trial.value


def test_trials_that_were_not_promoted_are_pruned_with_their_screening_value(
    tmp_path: Path,
) -> None:
    """A screened trial has no value in the study; its attributes say what it scored, and why."""
    sweep = stored_sweep(tmp_path)
    study = study_of(sweep, sweep.go_on())
    states = [trial.state for trial in study.trials]
    assert (2, 6) == (states.count(TrialState.COMPLETE), states.count(TrialState.PRUNED))
    for trial in study.trials:
        attributes = trial.user_attrs
        assert attributes["screening"] == attributes["scores"][0]
        if trial.state is TrialState.PRUNED:
            assert (None, "not promoted") == (trial.values, attributes["promotion"])
            assert "screened on 1 of 3 tuning seeds" in attributes["reason"]
        else:
            assert "promoted" == attributes["promotion"]


def test_selection_winner_and_test_scores_are_attributes_of_the_study(tmp_path: Path) -> None:
    """The study names stage, rule, finalists, winner and default with all their scores."""
    sweep = stored_sweep(tmp_path)
    early = study_of(sweep, sweep.go_on(until=SweepStage.SEARCH)).user_attrs
    assert ("selection", False) == (early["stage"], "winner" in early)
    chosen = study_of(sweep, sweep.go_on(until=SweepStage.SELECTION)).user_attrs
    selection = read_selection(sweep.paths)
    assert selection is not None
    assert (selection.winner, selection.rule) == (
        chosen["winner"]["trial"],
        chosen["selection_rule"],
    )
    assert "test" not in chosen["winner"]
    assert [f.number for f in selection.finalists] == [f["trial"] for f in chosen["finalists"]]
    assert list(selection.chosen.selection) == chosen["winner"]["selection"]["scores"]
    done = study_of(sweep, sweep.go_on()).user_attrs
    tested = done["winner"]["test"]
    assert (3, 3, "done") == (len(tested["scores"]), tested["planned"], done["stage"])
    assert sum(tested["scores"]) / 3 == pytest.approx(tested["value"])
    assert (0, 3) == (done["default"]["trial"], len(done["default"]["test"]["scores"]))
    # The dashboard shows the first five; the study begins with two attributes of rlexp itself.
    assert ["stage", "winner", "default"] == list(done)[2:5]


def test_a_phase_that_has_not_ended_has_no_value(tmp_path: Path) -> None:
    """Scores of some test seeds are shown without a value."""
    sweep = stored_sweep(tmp_path)
    sweep.go_on(until=SweepStage.SELECTION)
    source = sweep.go_on(runs=len(sweep.made) + 1)
    tested = mirrored_sweep(source, "made_up").attributes["winner"]["test"]
    assert (None, 1) == (tested["value"], len(tested["scores"]))


def test_an_ended_trial_never_changes(tmp_path: Path) -> None:
    """From search to test, a trial that has ended in the study stays as it is."""
    sweep = stored_sweep(tmp_path)
    ended: dict[int, object] = {}
    for count in range(1, 40, 2):
        for trial in mirrored_sweep(sweep.go_on(runs=count), "made_up").trials:
            if trial.state != "running":
                assert trial == ended.setdefault(trial.number, trial)
    assert 8 == len(ended)


def test_a_promoted_trial_that_fails_is_failed(tmp_path: Path) -> None:
    """A trial whose run fails on a further seed is failed, with the reason."""

    def breaks(spec: RunSpec) -> float | None:
        best = spec.algorithm["n_epochs"] >= 10 and spec.phase is Phase.TUNING
        return None if best and spec.seed == 2 else 10.0 * float(spec.algorithm["n_epochs"])

    sweep = stored_sweep(tmp_path, "sweep.stop_after=100", score=breaks)
    trials = mirrored_sweep(sweep.go_on(until=SweepStage.SEARCH), "made_up").trials
    failed = [trial for trial in trials if trial.state == "failed"]
    assert failed
    for trial in failed:
        assert "after the trial was promoted" in trial.attributes["reason"]


def test_with_every_seed_from_the_start_trials_are_complete_at_once(tmp_path: Path) -> None:
    """Without screening, an ended trial is complete and has no word about promotion."""
    sweep = stored_sweep(tmp_path, "sweep.allocation=fixed", "sweep.trials=3")
    trials = mirrored_sweep(sweep.go_on(runs=5), "made_up").trials
    assert "complete" == trials[0].state
    assert not {"promotion", "screening"} & set(trials[0].attributes)


def test_the_note_says_that_the_best_trial_is_not_the_result(tmp_path: Path) -> None:
    """The dashboard's note of the study has the winner with its test score, and so do finalists."""
    sweep = stored_sweep(tmp_path)
    early = system_attributes(study_of(sweep, sweep.go_on(until=SweepStage.SEARCH)))
    assert "No winner is chosen yet" in early["dashboard:note_str:0"]
    study = study_of(sweep, sweep.go_on())
    winner, note = study.user_attrs["winner"], system_attributes(study)["dashboard:note_str:0"]
    assert note.startswith(f"The winner is trial {winner['trial']}.")
    assert f"{winner['test']['value']:.2f}" in note
    assert "It is not the result of the sweep" in note
    assert "rlexp report made_up" in note
    trial = study.trials[winner["trial"]]._trial_id
    assert (
        "is the winner of the sweep" in system_attributes(study)[f"dashboard:{trial}:note_str:0"]
    )
    assert ["score, all tuning seeds"] == study.metric_names


def test_a_note_that_stays_the_same_is_written_once(tmp_path: Path) -> None:
    """The version of a note, which its reader sees, rises with its text only."""
    sweep = stored_sweep(tmp_path)
    versions = [
        system_attributes(study_of(sweep, sweep.go_on()))["dashboard:note_ver"] for _ in range(2)
    ]
    assert [1, 1] == versions
