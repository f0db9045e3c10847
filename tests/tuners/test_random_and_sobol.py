"""Random and Sobol' search: points of the unit cube, decoded."""

from typing import Any

import pytest
from searches import BRANCHED, MIXED, NUMERIC, SPACES, problem

from rlexp.errors import ConfigError
from rlexp.protocol.space import Parameter, Real, Space
from rlexp.tuners import Suggester, Tuner
from rlexp.tuners.gp import GaussianProcess
from rlexp.tuners.random import RandomSearch
from rlexp.tuners.sobol import SobolSequence
from rlexp.tuners.tpe import TPE
from rlexp.tuners.unit_cube import random_point, sobol_point


def suggested_values(suggester: Suggester, number: int) -> dict[str, Any]:
    """The values of a suggestion without any trial."""
    suggestion = suggester.suggest((), number)
    assert suggestion is not None
    return dict(suggestion.parameters)


@pytest.mark.parametrize("kind", SPACES)
def test_suggestions_are_decoded_points(kind: str) -> None:
    """A suggestion is the decoded random or Sobol' point of its number."""
    space = SPACES[kind]
    random_search = RandomSearch().open(problem(space))
    sobol_search = SobolSequence().open(problem(space))
    for number in (1, 2, 77):
        size = len(space.parameters)
        random_share, sobol_share = random_point(size, 11, number), sobol_point(size, 11, number)
        assert space.decode(random_share.tolist()) == suggested_values(random_search, number)
        assert space.decode(sobol_share.tolist()) == suggested_values(sobol_search, number)


@pytest.mark.parametrize("tuner", [RandomSearch(), SobolSequence()])
def test_choices_are_drawn_equally_often(tuner: Tuner) -> None:
    """Choices are equally likely, and a branch has its parameters only if it is chosen."""
    suggester = tuner.open(problem(BRANCHED))
    result = [suggested_values(suggester, number) for number in range(1, 769)]
    algorithms = [values["algorithm"] for values in result]
    assert [256] * 3 == pytest.approx([algorithms.count(a) for a in ("ppo", "dqn", "a2c")], abs=40)
    assert all(("switch.noise" in values) == (values["algorithm"] == "dqn") for values in result)


def test_ranges_are_covered_on_their_own_scale() -> None:
    """Half of the points of a logarithmic range lie below its geometric mean."""
    suggester = SobolSequence().open(problem(NUMERIC))
    rates = [
        suggested_values(suggester, number)["algorithm.learning_rate"] for number in range(1, 257)
    ]
    assert 128 == sum(rate < 1e-5**0.5 for rate in rates)


def test_equal_seeds_give_equal_suggestions() -> None:
    """A random suggestion does not depend on the number of objectives."""
    one_objective, two_objectives = (RandomSearch().open(problem(MIXED, k)) for k in (1, 2))
    assert one_objective.suggest((), 9) == two_objectives.suggest((), 9)


@pytest.mark.parametrize(
    "tuner",
    [
        SobolSequence(),
        TPE(startup=10, candidates=24, multivariate=True),
        GaussianProcess(startup=10, most=100),
    ],
)
def test_too_many_parameters_are_refused(tuner: Tuner) -> None:
    """A space with too many parameters is refused before any suggestion."""
    large_space = Space(
        parameters=tuple(Parameter(key=f"p{i}", domain=Real(0, 1)) for i in range(21_202))
    )
    with pytest.raises(ConfigError, match="choose tuner=random"):
        tuner.open(problem(large_space))
