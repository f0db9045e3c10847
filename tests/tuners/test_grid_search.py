"""Grid search: every combination once."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from searches import BRANCHED, problem

from rlexp.config.validate import build
from rlexp.errors import ConfigError
from rlexp.protocol.identity import canonical
from rlexp.protocol.space import Choice, Integer, Parameter, Real, Space
from rlexp.tuners.grid import Grid, levels


def combinations(space: Space, points: int) -> list[dict[str, Any]]:
    """All suggestions of a grid."""
    suggester = Grid(points=points).open(problem(space))
    result: list[dict[str, Any]] = []
    while (suggestion := suggester.suggest((), len(result) + 1)) is not None:
        result.append(dict(suggestion.parameters))
    assert suggester.suggest((), len(result) + 100) is None
    return result


@pytest.mark.parametrize(
    ("domain", "points", "expected"),
    [
        (Real(0, 1), 5, [0.0, 0.25, 0.5, 0.75, 1.0]),
        (Real(1e-4, 1e-2, "log"), 3, [1e-4, 1e-3, 1e-2]),
        (Real(0.9, 0.999, "flipped_log"), 3, [0.9, 0.99, 0.999]),
        (Real(-2, 2), 2, [-2.0, 2.0]),
        (Real(1, 10, "log"), 2, [1.0, 10.0]),
        (Integer(1, 4), 5, [1, 2, 3, 4]),
        (Integer(1, 5), 5, [1, 2, 3, 4, 5]),
        (Integer(0, 100), 5, [0, 25, 50, 75, 100]),
        (Integer(1, 256, log=True), 3, [1, 16, 256]),
        (Integer(1, 6, log=True), 5, [1, 2, 4, 6]),
        (Choice((True, None, [1])), 2, [True, None, [1]]),
    ],
)
def test_levels(domain: Any, points: int, expected: list[Any]) -> None:
    """Levels are evenly spaced on the scale of a range, include both ends and are unique."""
    result = levels(domain, points)
    assert expected == [pytest.approx(v) if isinstance(v, float) else v for v in result]
    assert [type(v) for v in expected] == [type(v) for v in result]


def test_the_last_parameter_changes_fastest() -> None:
    """A range and a choice are enumerated in lexicographic order."""
    space = Space(
        parameters=(
            Parameter(key="a", domain=Integer(1, 2)),
            Parameter(key="b", domain=Choice(("x", "y", "z"))),
        )
    )
    expected = [(1, "x"), (1, "y"), (1, "z"), (2, "x"), (2, "y"), (2, "z")]
    assert expected == [(v["a"], v["b"]) for v in combinations(space, 5)]


def test_inactive_parameters_do_not_multiply_the_grid() -> None:
    """The grid has 3 rates × (ppo: 3 steps × 3 clips, dqn: 1 + 3 noises, a2c: 3 steps)."""
    assert 3 * (3 * 3 + (1 + 3) + 3) == len(combinations(BRANCHED, 3))


domains = st.one_of(
    st.integers(2, 4).map(lambda count: Choice(tuple(range(count)))),
    st.integers(1, 4).map(lambda high: Integer(0, high)),
    st.just(Real(0.0, 1.0)),
)


@st.composite
def spaces(draw: st.DrawFn) -> Space:
    """Up to four parameters, each of which may depend on earlier choices."""
    parameters: list[Parameter] = []
    for i in range(draw(st.integers(1, 4))):
        choices = [p for p in parameters if isinstance(p.domain, Choice)]
        parents = (
            draw(st.lists(st.sampled_from(choices), max_size=2, unique_by=lambda p: p.key))
            if choices
            else []
        )
        when = {
            p.key: p.domain.values[: draw(st.integers(1, 2))]
            for p in parents
            if isinstance(p.domain, Choice)
        }
        parameters.append(Parameter(key=f"p{i}", domain=draw(domains), when=when))
    return Space(parameters=tuple(parameters))


@given(spaces(), st.integers(2, 3))
def test_grid_has_each_configuration_once(space: Space, points: int) -> None:
    """The grid has the distinct configurations of the full product, each once."""
    shares = [
        [p.domain.to_unit(value) or 0.0 for value in levels(p.domain, points)]
        for p in space.parameters
    ]
    expected = {canonical(space.decode(point)) for point in product(*shares)}
    result = [canonical(values) for values in combinations(space, points)]
    assert sorted(expected) == sorted(result)


def wide_space(dimensions: int) -> Space:
    """A space of this many ranges."""
    return Space(
        parameters=tuple(Parameter(key=f"p{i}", domain=Real(0, 1)) for i in range(dimensions))
    )


def test_a_grid_may_have_a_million_points() -> None:
    """Every point of a large grid is suggested quickly."""
    last_suggestion = Grid(points=10).open(problem(wide_space(6))).suggest((), 10**6)
    assert last_suggestion is not None
    assert {1.0} == set(last_suggestion.parameters.values())


@pytest.mark.parametrize("dimensions", [7, 300])
def test_too_large_grid_is_refused(dimensions: int) -> None:
    """The error for a grid of more than a million points suggests another tuner."""
    with pytest.raises(ConfigError, match=r"more than 1,000,000 points: .* tuner=sobol$"):
        Grid(points=10).open(problem(wide_space(dimensions)))


def test_a_range_has_two_points_at_least() -> None:
    """A grid with one point per range is refused."""
    with pytest.raises(ConfigError, match=r"tuner\.points"):
        build({"_target_": "rlexp.tuners.grid.Grid", "points": 1}, "tuner")
