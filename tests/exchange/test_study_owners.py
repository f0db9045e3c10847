"""The owner of a study, and writes by other programs."""

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import optuna
import pytest
from mirroring import NAME, Place, expected, mirrored

from rlexp.errors import ProtocolError
from rlexp.protocol.space import Parameter, Real, Space


@pytest.fixture(params=["journal", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A journal file, or a database."""
    url = f"sqlite:///{tmp_path}/s t.db" if request.param == "sqlite" else None
    with closing(Place(tmp_path, url)) as made:
        yield made


def add_by_hand(place: Place) -> None:
    """Add a trial that no sweep made."""
    place.study().add_trial(optuna.create_trial(value=1.0))


def other(**changed: Any) -> Callable[[Place], None]:
    """Mirror another sweep under the same name."""
    return lambda place: place.mirror(**changed).sync([])


def by_hand(place: Place) -> None:
    """A study of the user's own."""
    optuna.create_study(study_name=NAME, storage=place.storage(), direction="maximize")
    add_by_hand(place)


def empty_by_hand(place: Place) -> None:
    """An empty study of the user's own, with another direction."""
    optuna.create_study(study_name=NAME, storage=place.storage(), direction="minimize")


NARROW = Space(parameters=(Parameter(key="x", domain=Real(0, 1)),))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (other(directions=("minimize",)), "it has other directions"),
        (other(space=NARROW), "it has another search space"),
        (other(owner="b5"), "it belongs to another sweep of that name"),
        (by_hand, "it was not made by rlexp"),
        (empty_by_hand, "it was not made by rlexp"),
    ],
)
def test_another_study(place: Place, make: Callable[[Place], None], reason: str) -> None:
    """A study of another sweep is left unchanged, and one line says why."""
    make(place)
    before = (place.told(), place.study().user_attrs, place.study().directions)
    with pytest.raises(ProtocolError, match=reason) as caught:
        place.mirror().sync([mirrored(0)])
    assert 1 == len(str(caught.value).splitlines())
    assert before == (place.told(), place.study().user_attrs, place.study().directions)
    with pytest.raises(ProtocolError, match=reason):
        place.mirror().open()


def test_a_trial_of_the_users(place: Place) -> None:
    """A trial added by the user is not overwritten, also while a mirror is open."""
    one = place.mirror()
    one.sync([mirrored(0)])
    add_by_hand(place)
    before = place.told()
    for each in (one, place.mirror()):
        with pytest.raises(ProtocolError, match="trial 1 was added by another program"):
            each.sync([mirrored(0), mirrored(1)])
    assert before == place.told()


def test_killed_before_the_mark(place: Place) -> None:
    """An empty study of a killed process is taken over."""
    optuna.create_study(study_name=NAME, storage=place.storage(), direction="maximize")
    place.mirror().sync([mirrored(0)])
    assert expected([mirrored(0)]) == place.told()


def test_two_living_mirrors(place: Place) -> None:
    """Two mirrors that write in turns notice each other and write one study."""
    one, two = place.mirror(), place.mirror()
    for each, report in ((one, 1.0), (two, 2.0), (one, 1.0)):
        each.sync([mirrored(0), mirrored(1, "running", intermediate={1000: report})])
        assert {1000: report} == place.study().trials[1].intermediate_values
    two.sync([mirrored(0), mirrored(1), mirrored(2, "running")])
    one.sync([mirrored(0), mirrored(1), mirrored(2, "running", intermediate={1000: 9.0})])
    one.sync([mirrored(0), mirrored(1), mirrored(2), mirrored(3)])
    two.sync([mirrored(0), mirrored(1), mirrored(2), mirrored(3)])
    assert expected([mirrored(number) for number in range(4)]) == place.told()


@pytest.mark.parametrize("remembered", [False, True])
def test_trial_that_came_twice(
    place: Place, monkeypatch: pytest.MonkeyPatch, remembered: bool
) -> None:
    """A trial that a failing server stored and Optuna sent again is there once."""
    kind = type(place.storage())
    create = kind.create_new_trial
    one = place.mirror()
    if remembered:
        one.sync([mirrored(0, "running")])

    def twice(*args: Any) -> int:
        monkeypatch.undo()
        create(*args)
        return create(*args)

    monkeypatch.setattr(kind, "create_new_trial", twice)
    with suppress(RuntimeError):
        one.sync([mirrored(0), mirrored(1)])
    one.sync([mirrored(0), mirrored(1)])
    assert expected([mirrored(0), mirrored(1)]) == place.told()
