"""A sweep as an Optuna study, in a journal file and in SQLite."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mirroring import NAME, SPACE, Place, expected, mirror, mirrored, shown, study

from rlexp.exchange.optuna_study import JOURNAL, MirroredTrial, OptunaStudyMirror
from rlexp.exchange.optuna_trials import OptunaTrialState


@pytest.fixture(params=["journal", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A journal file, or a database."""
    url = f"sqlite:///{tmp_path}/s t.db" if request.param == "sqlite" else None
    with closing(Place(tmp_path, url)) as made:
        yield made


def test_study_equals_trials(place: Place) -> None:
    """Optuna loads every trial unchanged and finds the best one."""
    trials = [
        mirrored(0),
        mirrored(1, "failed", attributes={"reason": "nan: ü"}),
        mirrored(2, "pruned"),
        mirrored(3),
        mirrored(4, "running"),
    ]
    place.mirror().sync(trials)
    loaded = place.study()
    assert expected(trials) == shown(loaded.trials)
    assert 3 == loaded.best_trial.number
    assert [optuna.study.StudyDirection.MAXIMIZE] == loaded.directions
    assert timedelta(seconds=100.5) == loaded.trials[0].duration
    summaries = optuna.get_all_study_summaries(storage=place.storage())
    assert [(NAME, 5)] == [(one.study_name, one.n_trials) for one in summaries]


def test_importances_and_data(place: Place) -> None:
    """Importances and tables of dashboards work, also with a default out of range."""
    values = {**mirrored(0).parameters, "algorithm.learning_rate": 1.0}
    place.mirror().sync([mirrored(0, parameters=values), *(mirrored(n) for n in range(1, 12))])
    loaded = place.study()
    assert set(SPACE.keys) == set(optuna.importance.get_param_importances(loaded))
    intersection = optuna.search_space.intersection_search_space(loaded.trials)
    assert set(SPACE.keys) == set(intersection)


def test_several_objectives(place: Place) -> None:
    """Each objective has its direction."""
    trials = [
        mirrored(0, values=(1.0, 5.0)),
        mirrored(1, values=(0.0, 2.0)),
        mirrored(2, "failed"),
    ]
    place.mirror(directions=("maximize", "minimize")).sync(trials)
    assert expected(trials) == place.told()
    assert [0, 1] == sorted(trial.number for trial in place.study().best_trials)


def test_a_trial_lives(place: Place) -> None:
    """A running trial gets values and attributes, and ends; earlier ones stay unchanged."""
    one = place.mirror()
    life = [
        mirrored(1, "running", intermediate={}, attributes={}),
        mirrored(1, "running", intermediate={1000: 0.5}, attributes={"seeds": [3]}),
        mirrored(1, "running", intermediate={1000: 0.75, 2000: float("inf")}),
        mirrored(1, intermediate={1000: 0.75, 2000: 1.0, 3000: -2.0}),
    ]
    for trial in life:
        one.sync([mirrored(0), trial])
        assert expected([mirrored(0), trial]) == place.told()


@pytest.mark.parametrize("state", ["complete", "pruned", "failed"])
def test_ends(place: Place, state: Any) -> None:
    """A running trial becomes complete, pruned or failed."""
    one = place.mirror()
    one.sync([mirrored(0, "running")])
    one.sync([mirrored(0, state)])
    assert expected([mirrored(0, state)]) == place.told()


def test_nothing_is_written_twice(tmp_path: Path) -> None:
    """Equal trials leave the file unchanged; another process only adds its name."""
    trials = [mirrored(0), mirrored(1, "running", intermediate={5: float("nan")})]
    one = mirror(tmp_path)
    one.sync(trials)
    before = (tmp_path / JOURNAL).read_bytes()
    one.sync(trials[::-1])
    assert before == (tmp_path / JOURNAL).read_bytes()
    mirror(tmp_path).sync(trials)
    added = (tmp_path / JOURNAL).read_bytes().removeprefix(before)
    assert 1 == added.count(b"\n")
    assert b"rlexp:writer" in added


def test_catches_up(place: Place) -> None:
    """A mirror that missed most of a sweep writes all of it."""
    place.mirror().sync([mirrored(0), mirrored(1, "running")])
    trials = [mirrored(0), mirrored(1, "failed"), mirrored(2), mirrored(3)]
    place.mirror().sync(trials)
    assert expected(trials) == place.told()


@pytest.mark.parametrize(
    "trials",
    [
        [mirrored(0), mirrored(1, values=(77.0,))],
        [mirrored(0), mirrored(1, "running")],
        [mirrored(0, parameters={"algorithm.n_steps": 4096}), mirrored(1)],
        [mirrored(0)],
        [],
    ],
)
def test_starts_over(place: Place, trials: list[MirroredTrial]) -> None:
    """If finished trials differ, the study is written again."""
    one = place.mirror()
    one.sync([mirrored(0), mirrored(1)])
    one.sync(trials)
    assert expected(trials) == place.told()
    one.sync([mirrored(0), mirrored(1)])
    assert expected([mirrored(0), mirrored(1)]) == place.told()


def test_lost(tmp_path: Path) -> None:
    """A deleted journal is written again, also while a mirror uses it."""
    one = mirror(tmp_path)
    one.sync([mirrored(0)])
    (tmp_path / JOURNAL).unlink()
    one.sync([mirrored(0), mirrored(1)])
    assert expected([mirrored(0), mirrored(1)]) == shown(study(tmp_path).trials)


def test_deleted_study(place: Place) -> None:
    """A study that was deleted during use is written again."""
    one = place.mirror()
    one.sync([mirrored(0)])
    optuna.delete_study(study_name=NAME, storage=place.storage())
    one.sync([mirrored(0), mirrored(1)])
    assert expected([mirrored(0), mirrored(1)]) == place.told()


def test_open_changes_no_trial(place: Place) -> None:
    """`open` checks the storage and changes no trial."""
    place.mirror().open()
    assert [] == place.told()
    place.mirror().sync([mirrored(0)])
    place.mirror().open()
    assert expected([mirrored(0)]) == place.told()


def test_a_step_reads_one_trial(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """An update never reads the list of trials, however many there are."""
    one = place.mirror()
    one.sync([mirrored(0), mirrored(1, "running")])
    monkeypatch.setattr(type(place.storage()), "get_all_trials", None)
    one.sync([mirrored(0), mirrored(1), mirrored(2)])
    monkeypatch.undo()
    assert expected([mirrored(0), mirrored(1), mirrored(2)]) == place.told()


def snapshots() -> st.SearchStrategy[list[tuple[int, list[MirroredTrial]]]]:
    """Any histories of up to four trials, each told by one of two mirrors or by a new one."""
    states: list[OptunaTrialState] = ["running", "complete", "pruned", "failed"]
    trial = st.tuples(
        st.sampled_from(states),
        st.dictionaries(st.sampled_from([1, 2, 3]), st.sampled_from([0.0, 1.5]), max_size=3),
        st.dictionaries(st.sampled_from("ab"), st.sampled_from([None, [1.5], "x"]), max_size=2),
    )
    trials = st.lists(trial, max_size=4).map(
        lambda told: [
            mirrored(number, state, intermediate=reports, attributes=attributes)
            for number, (state, reports, attributes) in enumerate(told)
        ]
    )
    return st.lists(st.tuples(st.sampled_from([0, 1, 2]), trials), min_size=1, max_size=5)


@settings(max_examples=15)
@given(history=snapshots())
def test_any_history(history: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    """After any history of updates by any process, the study equals the last trials."""
    folder = tmp_path_factory.mktemp("history")
    living: list[OptunaStudyMirror] = [mirror(folder), mirror(folder)]
    for who, trials in history:
        (mirror(folder) if who == 2 else living[who]).sync(trials)
        assert expected(trials) == shown(study(folder).trials)
