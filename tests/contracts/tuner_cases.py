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
"""Suggestions of a search, more than any tuner makes before it looks at trials."""
CASES = [(name, kind, k) for name in TUNERS for kind in SPACES for k in (1, 2)]
every_case = pytest.mark.parametrize(("name", "kind", "objectives"), CASES)
every_tuner = pytest.mark.parametrize("name", TUNERS)


@cache
def search_with(name: str, kind: str, objectives: int) -> tuple[Problem, Search]:
    """A search with a tuner in a space; skips the test if the tuner refuses the problem."""
    search_problem = problem(SPACES[kind], objectives)
    try:
        return search_problem, search(member("tuner", name), search_problem, COUNT)
    except ConfigError as refusal:
        pytest.skip(str(refusal))


def sample_numbers(result: Search) -> list[int]:
    """The numbers of a few suggestions in reverse order, with the first and the last."""
    numbers = sorted(result.suggestions, reverse=True)
    return [numbers[0], *numbers[2::4], numbers[-1]]


def accepts(name: str, search_problem: Problem) -> bool:
    """Whether a tuner accepts a problem."""
    try:
        member("tuner", name).open(search_problem)
    except ConfigError:
        return False
    return True


def usual_objectives(name: str) -> int:
    """A number of objectives that the tuner accepts, for tests in which it does not matter."""
    return 1 if accepts(name, problem(NUMERIC)) else 2


def is_inside(domain: Domain, value: Any) -> bool:
    """Whether a plain value of the right type is in a domain."""
    if isinstance(domain, Choice):
        return domain.position(value) is not None
    kind = int if isinstance(domain, Integer) else float
    return type(value) is kind and domain.low <= value <= domain.high


def check(search_problem: Problem, suggestion: Suggestion | None, number: int) -> None:
    """Check that a suggestion is valid for a problem."""
    assert suggestion is not None
    values = suggestion.parameters
    active = search_problem.space.active(values)
    assert {p.key for p in active} == set(values)
    assert [] == [p.key for p in active if not is_inside(p.domain, values[p.key])]
    assert json.loads(json.dumps(values)) == values
    assert suggestion.steps is None or suggestion.steps in range(1, search_problem.steps + 1)
    assert suggestion.parent is None or suggestion.parent in range(number)
