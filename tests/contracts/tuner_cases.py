"""The cases of the tuner tests: every tuner, space and number of objectives."""

import json
from functools import cache
from typing import Any

import pytest
from members import member, names
from searches import NUMERIC, SPACES, Search, problem, search

from rlexp.errors import ConfigError
from rlexp.protocol.space import Choice, Domain, Integer
from rlexp.tuners import Problem, Suggestion

TUNERS = names("tuner")
COUNT = 14
"""Suggestions of a search: more than any tuner waits for before it looks at trials."""
CASES = [(name, kind, k) for name in TUNERS for kind in SPACES for k in (1, 2)]
every_case = pytest.mark.parametrize(("name", "kind", "objectives"), CASES)
every_tuner = pytest.mark.parametrize("name", TUNERS)


@cache
def search_with(name: str, kind: str, objectives: int) -> tuple[Problem, Search]:
    """A search with a tuner in a space; skips the test if the tuner refuses the problem."""
    asked = problem(SPACES[kind], objectives)
    try:
        return asked, search(member("tuner", name), asked, COUNT)
    except ConfigError as refusal:
        pytest.skip(str(refusal))


def some(done: Search) -> list[int]:
    """Numbers of a few suggestions of a search in reverse order, with the last one."""
    numbers = sorted(done.suggestions, reverse=True)
    return [numbers[0], *numbers[2::4], numbers[-1]]


def accepts(name: str, asked: Problem) -> bool:
    """Whether a tuner accepts a problem."""
    try:
        member("tuner", name).open(asked)
    except ConfigError:
        return False
    return True


def usual(name: str) -> int:
    """The numbers of objectives for tests in which the number does not matter."""
    return 1 if accepts(name, problem(NUMERIC)) else 2


def is_inside(domain: Domain, value: Any) -> bool:
    """Whether a plain value of the right type is in a domain."""
    if isinstance(domain, Choice):
        return domain.position(value) is not None
    kind = int if isinstance(domain, Integer) else float
    return type(value) is kind and domain.low <= value <= domain.high


def check(asked: Problem, suggestion: Suggestion | None, number: int) -> None:
    """Fail unless a suggestion is one for the problem."""
    assert suggestion is not None
    values = suggestion.parameters
    active = asked.space.active(values)
    assert {p.key for p in active} == set(values)
    assert [] == [p.key for p in active if not is_inside(p.domain, values[p.key])]
    assert json.loads(json.dumps(values)) == values
    assert suggestion.steps is None or suggestion.steps in range(1, asked.steps + 1)
    assert suggestion.parent is None or suggestion.parent in range(number)
