"""Every tuner continues after failures, bad values and odd defaults, and far ahead."""

from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from members import member
from searches import NUMERIC, SPACES, drawn, ended, problem
from tuner_cases import CASES, COUNT, check, every_tuner, search_with, usual_objectives

from rlexp.records.trial import TrialState
from rlexp.tuners import Suggestion


@every_tuner
def test_failed_trials_may_be_left_out(name: str) -> None:
    """A tuner suggests from a history without its failed trials."""
    search_problem, result = search_with(name, "numeric", usual_objectives(name))
    past = [t for t in result.histories[COUNT] if t.state is not TrialState.FAILED]
    suggestion = member("tuner", name).open(search_problem).suggest(past, COUNT)
    check(search_problem, suggestion, COUNT)


BAD = [None, nan, inf, -inf, 0.0, -1e300]
BAD_CASES = [
    pytest.param(name, kind, objectives, bad, id=f"{name}-{kind}-{objectives}-{bad}")
    for name, kind, objectives in CASES
    for position, bad in enumerate(BAD)
    if (list(SPACES).index(kind) + objectives + position) % 2 == 0
]
"""Half of all combinations of a tuner, a space, a number of objectives and a bad value."""


@pytest.mark.parametrize(("name", "kind", "objectives", "bad"), BAD_CASES)
def test_bad_values_break_nothing(
    name: str, kind: str, objectives: int, bad: float | None
) -> None:
    """A tuner suggests after trials that all failed, or have equal, NaN or infinite values."""
    search_problem, result = search_with(name, kind, objectives)
    state = TrialState.FAILED if bad is None else TrialState.COMPLETE
    values = () if bad is None else (bad,) * objectives
    past = [replace(t, values=values, state=state) for t in result.histories[COUNT]]
    check(search_problem, member("tuner", name).open(search_problem).suggest(past, COUNT), COUNT)
    mixed_past = [*past[:7], *result.histories[COUNT][7:]]
    check(
        search_problem,
        member("tuner", name).open(search_problem).suggest(mixed_past, COUNT),
        COUNT,
    )


@every_tuner
@pytest.mark.parametrize(
    "default_values",
    [
        {"algorithm.learning_rate": 0.0, "agent.layers": 99},
        {"algorithm.learning_rate": None},
        {"algorithm.clip_range": "linear"},
        {"algorithm.n_steps": 20.5},
    ],
)
def test_the_default_may_lie_outside_the_space(name: str, default_values: dict[str, Any]) -> None:
    """A tuner suggests if the values of the default configuration are outside of the space."""
    search_problem, result = search_with(name, "numeric", usual_objectives(name))
    default = result.trials[0]
    past = [replace(default, parameters={**default.parameters, **default_values})]
    suggestion = (
        member("tuner", name)
        .open(search_problem)
        .suggest(past + result.histories[COUNT][1:], COUNT)
    )
    check(search_problem, suggestion, COUNT)


@every_tuner
def test_the_default_may_lack_parameters(name: str) -> None:
    """A tuner suggests if the default lacks a switch or the parameters of another algorithm."""
    search_problem, result = search_with(name, "branched", usual_objectives(name))
    past = [
        replace(result.trials[0], parameters={"algorithm": "dqn"}),
        *result.histories[COUNT][1:],
    ]
    check(search_problem, member("tuner", name).open(search_problem).suggest(past, COUNT), COUNT)


@every_tuner
def test_many_workers_start_far_ahead(name: str) -> None:
    """A trial may be suggested long before earlier trials end."""
    search_problem, result = search_with(name, "numeric", usual_objectives(name))
    suggester = member("tuner", name).open(search_problem)
    number = max(n for n in range(1, COUNT + 1) if suggester.needs(n) <= 1)
    check(
        search_problem, suggester.suggest(result.trials[: suggester.needs(number)], number), number
    )
    assert suggester.suggest(result.trials[:1], number) == member("tuner", name).open(
        search_problem
    ).suggest(result.trials[:1], number)


@settings(max_examples=15)
@every_tuner
@given(seed=st.integers(0, 2**32 - 1), number=st.integers(1, 10_000))
def test_any_seed_and_number_will_do(name: str, seed: int, number: int) -> None:
    """A suggestion after the default trial lies in the space for any seed and number."""
    search_problem = problem(NUMERIC, usual_objectives(name), seed)
    suggester = member("tuner", name).open(search_problem)
    if suggester.needs(number) <= 1:
        default = ended(NUMERIC, 0, Suggestion(drawn(NUMERIC, 0)), usual_objectives(name))
        suggestion = suggester.suggest([default], number)
        if suggestion is not None:
            check(search_problem, suggestion, number)
