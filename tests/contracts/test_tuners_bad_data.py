"""Every tuner continues after failures, bad values and odd defaults, and far ahead."""

from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from members import member
from searches import NUMERIC, SPACES, drawn, ended, problem
from tuner_cases import CASES, COUNT, check, every_tuner, search_with, usual

from rlexp.records.trial import TrialState
from rlexp.tuners import Suggestion


@every_tuner
def test_failed_trials_may_be_left_out(name: str) -> None:
    """Excluded failed trials leave gaps in the numbers."""
    asked, done = search_with(name, "numeric", usual(name))
    past = [t for t in done.histories[COUNT] if t.state is not TrialState.FAILED]
    suggestion = member("tuner", name).open(asked).suggest(past, COUNT)
    check(asked, suggestion, COUNT)


BAD = [None, nan, inf, -inf, 0.0, -1e300]
TRIED = [
    pytest.param(name, kind, objectives, bad, id=f"{name}-{kind}-{objectives}-{bad}")
    for name, kind, objectives in CASES
    for position, bad in enumerate(BAD)
    if (list(SPACES).index(kind) + objectives + position) % 2 == 0
]
"""Every bad value with every tuner, number of objectives and kind of space, in half of the ways."""


@pytest.mark.parametrize(("name", "kind", "objectives", "bad"), TRIED)
def test_bad_values_break_nothing(
    name: str, kind: str, objectives: int, bad: float | None
) -> None:
    """Trials may all fail, be equal, or have NaN, infinite or tiny values."""
    asked, done = search_with(name, kind, objectives)
    state = TrialState.FAILED if bad is None else TrialState.COMPLETE
    values = () if bad is None else (bad,) * objectives
    past = [replace(t, values=values, state=state) for t in done.histories[COUNT]]
    check(asked, member("tuner", name).open(asked).suggest(past, COUNT), COUNT)
    mixed = [*past[:7], *done.histories[COUNT][7:]]
    check(asked, member("tuner", name).open(asked).suggest(mixed, COUNT), COUNT)


@every_tuner
@pytest.mark.parametrize(
    "foreign",
    [
        {"algorithm.learning_rate": 0.0, "agent.layers": 99},
        {"algorithm.learning_rate": None},
        {"algorithm.clip_range": "linear"},
        {"algorithm.n_steps": 20.5},
    ],
)
def test_the_default_may_lie_outside_the_space(name: str, foreign: dict[str, Any]) -> None:
    """The values of the default configuration may lie outside of the space."""
    asked, done = search_with(name, "numeric", usual(name))
    default = done.trials[0]
    past = [replace(default, parameters={**default.parameters, **foreign})]
    suggestion = member("tuner", name).open(asked).suggest(past + done.histories[COUNT][1:], COUNT)
    check(asked, suggestion, COUNT)


@every_tuner
def test_the_default_may_lack_parameters(name: str) -> None:
    """The default may lack a switch or the parameters of another algorithm."""
    asked, done = search_with(name, "branched", usual(name))
    past = [replace(done.trials[0], parameters={"algorithm": "dqn"}), *done.histories[COUNT][1:]]
    check(asked, member("tuner", name).open(asked).suggest(past, COUNT), COUNT)


@every_tuner
def test_many_workers_start_far_ahead(name: str) -> None:
    """A trial may be suggested long before earlier trials end."""
    asked, done = search_with(name, "numeric", usual(name))
    suggester = member("tuner", name).open(asked)
    number = max(n for n in range(1, COUNT + 1) if suggester.needs(n) <= 1)
    check(asked, suggester.suggest(done.trials[: suggester.needs(number)], number), number)
    assert suggester.suggest(done.trials[:1], number) == member("tuner", name).open(asked).suggest(
        done.trials[:1], number
    )


@settings(max_examples=15)
@every_tuner
@given(seed=st.integers(0, 2**32 - 1), number=st.integers(1, 10_000))
def test_any_seed_and_number_will_do(name: str, seed: int, number: int) -> None:
    """Suggestions without a past lie in the space for any seed and number."""
    asked = problem(NUMERIC, usual(name), seed)
    suggester = member("tuner", name).open(asked)
    if suggester.needs(number) <= 1:
        default = ended(NUMERIC, 0, Suggestion(drawn(NUMERIC, 0)), usual(name))
        suggestion = suggester.suggest([default], number)
        if suggestion is not None:
            check(asked, suggestion, number)
