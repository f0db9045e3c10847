"""Translation of trials for Optuna."""

from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mirroring import SPACE, expected, plain_trials, sample_trial
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


def translated(trial: MirroredTrial, space: Space = SPACE) -> Any:
    """The trial that Optuna gets."""
    return to_optuna(trial, space, ranges(space, trial.parameters))


@pytest.mark.parametrize("state", ["running", "complete", "pruned", "failed"])
def test_to_optuna(state: OptunaTrialState) -> None:
    """A translated trial keeps its state, values, parameters, reports and attributes."""
    trial = sample_trial(3, state)
    [fields] = plain_trials([translated(trial)])
    assert expected([trial]) == [{**fields, "number": 3}]
    assert {NUMBER: 3} == translated(trial).system_attrs


def test_times() -> None:
    """The start and end of a trial are translated to UTC."""
    trial = translated(sample_trial(1))
    assert datetime.fromtimestamp(1_700_000_001, UTC) == trial.datetime_start
    assert datetime.fromtimestamp(1_700_000_101.5, UTC) == trial.datetime_complete
    assert translated(sample_trial(1, "running")).datetime_complete is None


def test_unknown_times() -> None:
    """A trial with an unknown start gets its end as start, because Optuna needs both."""
    trial = translated(sample_trial(1, started=None))
    assert trial.datetime_complete == trial.datetime_start
    trial = translated(sample_trial(1, "failed", started=None, ended=None))
    assert TrialState.FAIL == trial.state
    assert trial.datetime_start is not None
    assert trial.datetime_complete is not None


def test_outside_the_space() -> None:
    """Values that Optuna cannot store become a user attribute; inactive ones are left out."""
    trial = sample_trial(
        0,
        parameters={"algorithm.learning_rate": None, "algorithm.n_steps": 8, "other": [1]},
    )
    optuna_trial = translated(trial)
    assert {"algorithm.n_steps": 8} == optuna_trial.params
    assert {"algorithm.learning_rate": None, "other": [1]} == optuna_trial.user_attrs[OUTSIDE]


def test_conditional_parameters() -> None:
    """An inactive parameter has no distribution in its trial."""
    algorithm = Parameter(key="algorithm", domain=Choice(("ppo", "dqn")))
    clip_range = Parameter(key="clip", domain=Real(0.1, 0.4), when={"algorithm": ("ppo",)})
    space = Space(parameters=(algorithm, clip_range))
    optuna_trial = translated(sample_trial(0, parameters={"algorithm": "dqn"}), space)
    assert ["algorithm"] == list(optuna_trial.distributions)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"values": ()}, "needs its values"),
        ({"values": (float("nan"),)}, "not finite"),
        ({"values": (float("inf"),)}, "not finite"),
        ({"state": "failed"}, "it has no values"),
        ({"state": "running"}, "it has no values"),
    ],
)
def test_failed_and_complete_trials_need_matching_values(
    changes: dict[str, Any], message: str
) -> None:
    """A complete trial without finite values or a failed or running one with values is refused."""
    with pytest.raises(ProtocolError, match=message):
        replace(sample_trial(7), **changes)


def test_equal_nan_reports_are_equal_content() -> None:
    """An unchanged NaN intermediate value does not count as a change."""
    trial = sample_trial(0, intermediate={1: float("nan"), 2: float("inf")})
    assert content(translated(trial)) == content(translated(replace(trial)))


@pytest.mark.parametrize(
    ("before", "after", "is_possible"),
    [
        (sample_trial(0, "running"), sample_trial(0), True),
        (sample_trial(0, "running"), sample_trial(0, "failed"), True),
        (sample_trial(0), sample_trial(0), True),
        (sample_trial(0, "running"), sample_trial(0, "running", intermediate={}), False),
        (sample_trial(0, "running"), sample_trial(0, attributes={}), False),
        (sample_trial(0, "running"), sample_trial(0, parameters={}), False),
        (sample_trial(0), sample_trial(0, "running"), False),
        (sample_trial(0), sample_trial(0, values=(9.0,)), False),
    ],
)
def test_leads_to(before: MirroredTrial, after: MirroredTrial, is_possible: bool) -> None:
    """Optuna can add to a running trial, and cannot change a finished one."""
    assert is_possible is content(translated(before)).leads_to(content(translated(after)))


@given(st.randoms())
def test_order_of_trials(random: Random) -> None:
    """A snapshot does not depend on the order of its trials."""
    trials = [sample_trial(number) for number in range(6)]
    shuffled = random.sample(trials, len(trials))
    ordered_snapshot, shuffled_snapshot = TranslatedTrials(SPACE), TranslatedTrials(SPACE)
    ordered_snapshot.take(trials)
    shuffled_snapshot.take(shuffled)
    assert [trial_content for _, trial_content in ordered_snapshot.made] == [
        trial_content for _, trial_content in shuffled_snapshot.made
    ]


@pytest.mark.parametrize("numbers", [[1], [0, 2], [0, 1, 1]])
def test_gaps_in_trial_numbers(numbers: list[int]) -> None:
    """Trials with missing or repeated numbers are refused."""
    with pytest.raises(ProtocolError, match="numbered from 0"):
        TranslatedTrials(SPACE).take([sample_trial(number) for number in numbers])


def test_translates_changes_only() -> None:
    """An unchanged trial is not translated again; a default outside its range changes all."""
    snapshot = TranslatedTrials(SPACE)
    trials = [sample_trial(0), sample_trial(1, "running")]
    snapshot.take(trials)
    first = [trial for trial, _ in snapshot.made]
    snapshot.take([replace(trials[0]), sample_trial(1)])
    second = [trial for trial, _ in snapshot.made]
    assert [True, False] == [a is b for a, b in zip(first, second, strict=True)]
    snapshot.take([sample_trial(0, parameters={"algorithm.n_steps": 9999}), sample_trial(1)])
    assert all(a is not b for (a, _), b in zip(snapshot.made, second, strict=True))


def test_one_range_for_all() -> None:
    """All trials have the same distributions, which a default outside the range widens."""
    snapshot = TranslatedTrials(SPACE)
    snapshot.take([sample_trial(0, parameters={"algorithm.n_steps": 4096}), sample_trial(1)])
    highs = [trial.distributions["algorithm.n_steps"].high for trial, _ in snapshot.made]  # type: ignore[attr-defined]
    assert [4096, 4096] == highs
