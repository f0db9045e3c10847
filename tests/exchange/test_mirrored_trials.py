"""Translation of trials for Optuna."""

from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mirroring import SPACE, expected, mirrored, shown
from optuna.trial import TrialState

from rlexp.errors import ProtocolError
from rlexp.exchange.optuna_trials import (
    NUMBER,
    OUTSIDE,
    MirroredTrial,
    OptunaTrialState,
    TranslatedTrials,
    content,
    ranges,
    to_optuna,
)
from rlexp.protocol.space import Choice, Parameter, Real, Space


def made(trial: MirroredTrial, space: Space = SPACE) -> Any:
    """The trial of Optuna's."""
    return to_optuna(trial, space, ranges(space, trial.parameters))


@pytest.mark.parametrize("state", ["running", "complete", "pruned", "failed"])
def test_to_optuna(state: OptunaTrialState) -> None:
    """State, values, parameters, intermediate values and attributes are those of the trial."""
    trial = mirrored(3, state)
    [told] = shown([made(trial)])
    assert expected([trial]) == [{**told, "number": 3}]
    assert {NUMBER: 3} == made(trial).system_attrs


def test_times() -> None:
    """The start and end of a trial are translated to UTC."""
    trial = made(mirrored(1))
    assert datetime.fromtimestamp(1_700_000_001, UTC) == trial.datetime_start
    assert datetime.fromtimestamp(1_700_000_101.5, UTC) == trial.datetime_complete
    assert made(mirrored(1, "running")).datetime_complete is None


def test_unknown_times() -> None:
    """A trial with an unknown start gets its end as start, because Optuna needs both."""
    trial = made(mirrored(1, started=None))
    assert trial.datetime_complete == trial.datetime_start
    trial = made(mirrored(1, "failed", started=None, ended=None))
    assert TrialState.FAIL == trial.state
    assert trial.datetime_start is not None
    assert trial.datetime_complete is not None


def test_outside_the_space() -> None:
    """Values that Optuna cannot store become a user attribute; inactive ones are left out."""
    trial = mirrored(
        0,
        parameters={"algorithm.learning_rate": None, "algorithm.n_steps": 8, "other": [1]},
    )
    told = made(trial)
    assert {"algorithm.n_steps": 8} == told.params
    assert {"algorithm.learning_rate": None, "other": [1]} == told.user_attrs[OUTSIDE]


def test_conditional_parameters() -> None:
    """An inactive parameter has no distribution in its trial."""
    kind = Parameter(key="algorithm", domain=Choice(("ppo", "dqn")))
    clip = Parameter(key="clip", domain=Real(0.1, 0.4), when={"algorithm": ("ppo",)})
    space = Space(parameters=(kind, clip))
    told = made(mirrored(0, parameters={"algorithm": "dqn"}), space)
    assert ["algorithm"] == list(told.distributions)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"values": ()}, "needs its values"),
        ({"values": (float("nan"),)}, "not finite"),
        ({"values": (float("inf"),)}, "not finite"),
        ({"state": "failed"}, "it has no values"),
        ({"state": "running"}, "it has no values"),
    ],
)
def test_scores_that_are_none(changed: dict[str, Any], words: str) -> None:
    """A failed trial never has a value, and a complete trial always has one."""
    with pytest.raises(ProtocolError, match=words):
        replace(mirrored(7), **changed)


def test_content_equals_itself() -> None:
    """A NaN intermediate value is not a change."""
    trial = mirrored(0, intermediate={1: float("nan"), 2: float("inf")})
    assert content(made(trial)) == content(made(replace(trial)))


@pytest.mark.parametrize(
    ("before", "after", "can"),
    [
        (mirrored(0, "running"), mirrored(0), True),
        (mirrored(0, "running"), mirrored(0, "failed"), True),
        (mirrored(0), mirrored(0), True),
        (mirrored(0, "running"), mirrored(0, "running", intermediate={}), False),
        (mirrored(0, "running"), mirrored(0, attributes={}), False),
        (mirrored(0, "running"), mirrored(0, parameters={}), False),
        (mirrored(0), mirrored(0, "running"), False),
        (mirrored(0), mirrored(0, values=(9.0,)), False),
    ],
)
def test_leads_to(before: MirroredTrial, after: MirroredTrial, can: bool) -> None:
    """Optuna can add to a running trial, and cannot change a finished one."""
    assert can is content(made(before)).leads_to(content(made(after)))


@given(st.randoms())
def test_order_of_trials(random: Random) -> None:
    """A snapshot does not depend on the order of its trials."""
    trials = [mirrored(number) for number in range(6)]
    mixed = random.sample(trials, len(trials))
    one, other = TranslatedTrials(SPACE), TranslatedTrials(SPACE)
    one.take(trials)
    other.take(mixed)
    assert [told for _, told in one.made] == [told for _, told in other.made]


@pytest.mark.parametrize("numbers", [[1], [0, 2], [0, 1, 1]])
def test_gaps(numbers: list[int]) -> None:
    """Missing and repeated numbers are refused."""
    with pytest.raises(ProtocolError, match="numbered from 0"):
        TranslatedTrials(SPACE).take([mirrored(number) for number in numbers])


def test_translates_changes_only() -> None:
    """An unchanged trial is not translated again; a new default changes all."""
    snapshot = TranslatedTrials(SPACE)
    trials = [mirrored(0), mirrored(1, "running")]
    snapshot.take(trials)
    first = [trial for trial, _ in snapshot.made]
    snapshot.take([replace(trials[0]), mirrored(1)])
    second = [trial for trial, _ in snapshot.made]
    assert [True, False] == [a is b for a, b in zip(first, second, strict=True)]
    snapshot.take([mirrored(0, parameters={"algorithm.n_steps": 9999}), mirrored(1)])
    assert all(a is not b for (a, _), b in zip(snapshot.made, second, strict=True))


def test_one_range_for_all() -> None:
    """All trials have the same distributions; a default outside widens all of them."""
    snapshot = TranslatedTrials(SPACE)
    snapshot.take([mirrored(0, parameters={"algorithm.n_steps": 4096}), mirrored(1)])
    highs = [trial.distributions["algorithm.n_steps"].high for trial, _ in snapshot.made]  # type: ignore[attr-defined]
    assert [4096, 4096] == highs
