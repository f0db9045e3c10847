"""The owner of a study, and changes of a study by other programs."""

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import optuna
import pytest
from mirroring import NAME, Place, expected, sample_trial

from rlexp.errors import ProtocolError
from rlexp.protocol.space import Parameter, Real, Space


@pytest.fixture(params=["journal", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A journal file, or a database."""
    url = f"sqlite:///{tmp_path}/s t.db" if request.param == "sqlite" else None
    with closing(Place(tmp_path, url)) as opened:
        yield opened


def add_by_hand(place: Place) -> None:
    """Add a trial that no sweep created."""
    place.study().add_trial(optuna.create_trial(value=1.0))


def mirror_another_sweep(**changed: Any) -> Callable[[Place], None]:
    """Return a function that mirrors another sweep under the same name."""
    return lambda place: place.mirror(**changed).sync([])


def create_by_hand(place: Place) -> None:
    """Create a study of the user with one trial."""
    optuna.create_study(study_name=NAME, storage=place.storage(), direction="maximize")
    add_by_hand(place)


def create_empty_by_hand(place: Place) -> None:
    """Create an empty study of the user with another direction."""
    optuna.create_study(study_name=NAME, storage=place.storage(), direction="minimize")


NARROW = Space(parameters=(Parameter(key="x", domain=Real(0, 1)),))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (mirror_another_sweep(directions=("minimize",)), "it has other directions"),
        (mirror_another_sweep(space=NARROW), "it has another search space"),
        (mirror_another_sweep(owner="b5"), "it belongs to another sweep of that name"),
        (create_by_hand, "it was not made by rlexp"),
        (create_empty_by_hand, "it was not made by rlexp"),
    ],
)
def test_another_study(place: Place, make: Callable[[Place], None], reason: str) -> None:
    """A study of another sweep is left unchanged, and the error gives the reason in one line."""
    make(place)
    before = (place.trials(), place.study().user_attrs, place.study().directions)
    with pytest.raises(ProtocolError, match=reason) as caught:
        place.mirror().sync([sample_trial(0)])
    assert 1 == len(str(caught.value).splitlines())
    assert before == (place.trials(), place.study().user_attrs, place.study().directions)
    with pytest.raises(ProtocolError, match=reason):
        place.mirror().open()


def test_a_trial_of_the_users(place: Place) -> None:
    """A trial added by the user is not overwritten, also while a mirror is open."""
    first = place.mirror()
    first.sync([sample_trial(0)])
    add_by_hand(place)
    before = place.trials()
    for writer in (first, place.mirror()):
        with pytest.raises(ProtocolError, match="trial 1 was added by another program"):
            writer.sync([sample_trial(0), sample_trial(1)])
    assert before == place.trials()


def test_killed_before_the_mark(place: Place) -> None:
    """An empty study of a process that was killed before marking it is taken over."""
    optuna.create_study(study_name=NAME, storage=place.storage(), direction="maximize")
    place.mirror().sync([sample_trial(0)])
    assert expected([sample_trial(0)]) == place.trials()


def test_two_living_mirrors(place: Place) -> None:
    """Two mirrors that write in turns notice each other and write one study."""
    first, second = place.mirror(), place.mirror()
    for writer, report in ((first, 1.0), (second, 2.0), (first, 1.0)):
        writer.sync([sample_trial(0), sample_trial(1, "running", intermediate={1000: report})])
        assert {1000: report} == place.study().trials[1].intermediate_values
    second.sync([sample_trial(0), sample_trial(1), sample_trial(2, "running")])
    first.sync(
        [sample_trial(0), sample_trial(1), sample_trial(2, "running", intermediate={1000: 9.0})]
    )
    first.sync([sample_trial(0), sample_trial(1), sample_trial(2), sample_trial(3)])
    second.sync([sample_trial(0), sample_trial(1), sample_trial(2), sample_trial(3)])
    assert expected([sample_trial(number) for number in range(4)]) == place.trials()


@pytest.mark.parametrize("has_earlier_trial", [False, True])
def test_trial_that_came_twice(
    place: Place, monkeypatch: pytest.MonkeyPatch, has_earlier_trial: bool
) -> None:
    """A trial that a failing server stored twice is in the study once."""
    storage_class = type(place.storage())
    create = storage_class.create_new_trial
    writer = place.mirror()
    if has_earlier_trial:
        writer.sync([sample_trial(0, "running")])

    def twice(*args: Any) -> int:
        monkeypatch.undo()
        create(*args)
        return create(*args)

    monkeypatch.setattr(storage_class, "create_new_trial", twice)
    with suppress(RuntimeError):
        writer.sync([sample_trial(0), sample_trial(1)])
    writer.sync([sample_trial(0), sample_trial(1)])
    assert expected([sample_trial(0), sample_trial(1)]) == place.trials()
