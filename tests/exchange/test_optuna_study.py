"""A sweep as an Optuna study in a journal file and in SQLite."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mirroring import NAME, SPACE, Place, expected, mirror, plain_trials, sample_trial, study

from rlexp.exchange.optuna_study import JOURNAL, MirroredTrial, OptunaStudyMirror
from rlexp.exchange.optuna_trials import OptunaTrialState


@pytest.fixture(params=["journal", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A journal file, or a database."""
    url = f"sqlite:///{tmp_path}/s t.db" if request.param == "sqlite" else None
    with closing(Place(tmp_path, url)) as opened:
        yield opened


def test_study_equals_trials(place: Place) -> None:
    """Optuna loads every trial unchanged and finds the best one."""
    trials = [
        sample_trial(0),
        sample_trial(1, "failed", attributes={"reason": "nan: ü"}),
        sample_trial(2, "pruned"),
        sample_trial(3),
        sample_trial(4, "running"),
    ]
    place.mirror().sync(trials)
    loaded = place.study()
    assert expected(trials) == plain_trials(loaded.trials)
    assert 3 == loaded.best_trial.number
    assert [optuna.study.StudyDirection.MAXIMIZE] == loaded.directions
    assert timedelta(seconds=100.5) == loaded.trials[0].duration
    summaries = optuna.get_all_study_summaries(storage=place.storage())
    assert [(NAME, 5)] == [(summary.study_name, summary.n_trials) for summary in summaries]


def test_importances_and_data(place: Place) -> None:
    """Importances and tables of dashboards work even with a default outside its range."""
    values = {**sample_trial(0).parameters, "algorithm.learning_rate": 1.0}
    place.mirror().sync(
        [sample_trial(0, parameters=values), *(sample_trial(n) for n in range(1, 12))]
    )
    loaded = place.study()
    assert set(SPACE.keys) == set(optuna.importance.get_param_importances(loaded))
    intersection = optuna.search_space.intersection_search_space(loaded.trials)
    assert set(SPACE.keys) == set(intersection)


def test_several_objectives(place: Place) -> None:
    """Each objective has its direction."""
    trials = [
        sample_trial(0, values=(1.0, 5.0)),
        sample_trial(1, values=(0.0, 2.0)),
        sample_trial(2, "failed"),
    ]
    place.mirror(directions=("maximize", "minimize")).sync(trials)
    assert expected(trials) == place.trials()
    assert [0, 1] == sorted(trial.number for trial in place.study().best_trials)


def test_a_running_trial_is_updated(place: Place) -> None:
    """A running trial gets reports and attributes and ends; earlier trials stay unchanged."""
    writer = place.mirror()
    updates = [
        sample_trial(1, "running", intermediate={}, attributes={}),
        sample_trial(1, "running", intermediate={1000: 0.5}, attributes={"seeds": [3]}),
        sample_trial(1, "running", intermediate={1000: 0.75, 2000: float("inf")}),
        sample_trial(1, intermediate={1000: 0.75, 2000: 1.0, 3000: -2.0}),
    ]
    for trial in updates:
        writer.sync([sample_trial(0), trial])
        assert expected([sample_trial(0), trial]) == place.trials()


@pytest.mark.parametrize("state", ["complete", "pruned", "failed"])
def test_a_running_trial_ends(place: Place, state: Any) -> None:
    """A running trial becomes complete, pruned or failed."""
    writer = place.mirror()
    writer.sync([sample_trial(0, "running")])
    writer.sync([sample_trial(0, state)])
    assert expected([sample_trial(0, state)]) == place.trials()


def test_nothing_is_written_twice(tmp_path: Path) -> None:
    """Equal trials leave the journal unchanged; another process only adds its writer id."""
    trials = [sample_trial(0), sample_trial(1, "running", intermediate={5: float("nan")})]
    writer = mirror(tmp_path)
    writer.sync(trials)
    before = (tmp_path / JOURNAL).read_bytes()
    writer.sync(trials[::-1])
    assert before == (tmp_path / JOURNAL).read_bytes()
    mirror(tmp_path).sync(trials)
    added = (tmp_path / JOURNAL).read_bytes().removeprefix(before)
    assert 1 == added.count(b"\n")
    assert b"rlexp:writer" in added


def test_a_mirror_that_starts_late(place: Place) -> None:
    """A new mirror writes all trials that the study lacks."""
    place.mirror().sync([sample_trial(0), sample_trial(1, "running")])
    trials = [sample_trial(0), sample_trial(1, "failed"), sample_trial(2), sample_trial(3)]
    place.mirror().sync(trials)
    assert expected(trials) == place.trials()


@pytest.mark.parametrize(
    "trials",
    [
        [sample_trial(0), sample_trial(1, values=(77.0,))],
        [sample_trial(0), sample_trial(1, "running")],
        [sample_trial(0, parameters={"algorithm.n_steps": 4096}), sample_trial(1)],
        [sample_trial(0)],
        [],
    ],
)
def test_starts_over(place: Place, trials: list[MirroredTrial]) -> None:
    """The study is written again if finished trials of the sweep differ from it."""
    writer = place.mirror()
    writer.sync([sample_trial(0), sample_trial(1)])
    writer.sync(trials)
    assert expected(trials) == place.trials()
    writer.sync([sample_trial(0), sample_trial(1)])
    assert expected([sample_trial(0), sample_trial(1)]) == place.trials()


def test_deleted_journal(tmp_path: Path) -> None:
    """A journal that is deleted while a mirror uses it is written again."""
    writer = mirror(tmp_path)
    writer.sync([sample_trial(0)])
    (tmp_path / JOURNAL).unlink()
    writer.sync([sample_trial(0), sample_trial(1)])
    assert expected([sample_trial(0), sample_trial(1)]) == plain_trials(study(tmp_path).trials)


def test_deleted_study(place: Place) -> None:
    """A study that was deleted during use is written again."""
    writer = place.mirror()
    writer.sync([sample_trial(0)])
    optuna.delete_study(study_name=NAME, storage=place.storage())
    writer.sync([sample_trial(0), sample_trial(1)])
    assert expected([sample_trial(0), sample_trial(1)]) == place.trials()


def test_open_changes_no_trial(place: Place) -> None:
    """`open` checks the storage and changes no trial."""
    place.mirror().open()
    assert [] == place.trials()
    place.mirror().sync([sample_trial(0)])
    place.mirror().open()
    assert expected([sample_trial(0)]) == place.trials()


def test_a_step_reads_one_trial(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """An update never reads the list of all trials."""
    writer = place.mirror()
    writer.sync([sample_trial(0), sample_trial(1, "running")])
    monkeypatch.setattr(type(place.storage()), "get_all_trials", None)
    writer.sync([sample_trial(0), sample_trial(1), sample_trial(2)])
    monkeypatch.undo()
    assert expected([sample_trial(0), sample_trial(1), sample_trial(2)]) == place.trials()


def snapshots() -> st.SearchStrategy[list[tuple[int, list[MirroredTrial]]]]:
    """Random histories of up to four trials, written by two open mirrors or by new ones."""
    states: list[OptunaTrialState] = ["running", "complete", "pruned", "failed"]
    trial = st.tuples(
        st.sampled_from(states),
        st.dictionaries(st.sampled_from([1, 2, 3]), st.sampled_from([0.0, 1.5]), max_size=3),
        st.dictionaries(st.sampled_from("ab"), st.sampled_from([None, [1.5], "x"]), max_size=2),
    )
    trials = st.lists(trial, max_size=4).map(
        lambda drawn: [
            sample_trial(number, state, intermediate=reports, attributes=attributes)
            for number, (state, reports, attributes) in enumerate(drawn)
        ]
    )
    return st.lists(st.tuples(st.sampled_from([0, 1, 2]), trials), min_size=1, max_size=5)


@settings(max_examples=15)
@given(history=snapshots())
def test_any_history(history: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    """After any history of updates by any process, the study equals the last trials."""
    folder = tmp_path_factory.mktemp("history")
    open_mirrors: list[OptunaStudyMirror] = [mirror(folder), mirror(folder)]
    for writer, trials in history:
        (mirror(folder) if writer == 2 else open_mirrors[writer]).sync(trials)
        assert expected(trials) == plain_trials(study(folder).trials)
