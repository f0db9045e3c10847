"""CMA-ES: replayed generations equal those of the library `cmaes`."""

from dataclasses import replace
from math import exp
from typing import Any

import numpy as np
import pytest
from generational_searches import (
    complete,
    cube,
    failed,
    follow,
    is_clearly_greater,
    points,
    problem_in,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from rlexp.errors import ConfigError
from rlexp.protocol.space import Choice, Integer, Parameter, Real, Space
from rlexp.records.trial import Trial, TrialState
from rlexp.tuners import Suggestion
from rlexp.tuners.cma_es import (
    CMAES,
    CmaDistribution,
    CmaEsMethod,
    MixedDistribution,
    initial_distribution,
    listed_shares,
)
from rlexp.tuners.generational import EvaluatedPoint

TUNER = CMAES(population=None, sigma=0.3)
MIXED = Space(
    parameters=(
        Parameter(key="x0", domain=Real(0.0, 1.0)),
        Parameter(key="layers", domain=Integer(1, 8)),
        Parameter(key="x1", domain=Real(0.0, 1.0)),
        Parameter(key="activation", domain=Choice(("relu", "tanh", "elu", "silu"))),
        Parameter(key="size", domain=Integer(1, 1000)),
    )
)
BEST = np.array([0.2, 0.7, 0.35, 0.85, 0.6])


def distance(suggestion: Suggestion, number: int) -> Trial:
    """A trial whose value has its maximum, 0, at `BEST`."""
    x = np.array(list(suggestion.parameters.values()))
    return complete(number, suggestion, -float(((x - BEST[: len(x)]) ** 2).sum()))


def library_seed(seed: int, generation: int) -> int:
    """The seed of a generation."""
    return int(np.random.SeedSequence([seed, generation]).generate_state(1)[0])


def test_generations_are_those_of_the_library() -> None:
    """The generations are those of an optimiser of the library with the same seeds."""
    from cmaes import CMA

    trials = follow(TUNER, problem_in(cube(3), seed=6), distance, 1 + 7 * 8)
    optimiser = CMA(np.full(3, 0.5), 0.3, bounds=np.array([[0.0, 1.0]] * 3), population_size=7)
    expected = []
    for generation in range(1, 9):
        optimiser.reseed_rng(library_seed(6, generation))
        candidates = [optimiser.ask() for _ in range(7)]
        optimiser.tell([(x, float(((x - BEST[:3]) ** 2).sum())) for x in candidates])
        expected += [x.tolist() for x in candidates]
    assert pytest.approx(np.array(expected), abs=1e-12) == points(trials[1:])


ACTIVATIONS = ("relu", "tanh", "elu", "silu")
LAYERS = listed_shares(Integer(1, 8))


def mixed_cost(layers: int, activation: str, x: float = 0.9) -> float:
    """A cost that is smallest, 0, for one layer, relu and 0.9."""
    return (x - 0.9) ** 2 + (layers - 1) ** 2 / 64 + ACTIVATIONS.index(activation)


@pytest.mark.parametrize("real", [1, 0])
def test_mixed_generations_are_those_of_the_library(real: int) -> None:
    """The generations in a mixed space are those of an optimiser of the library.

    The library gets each point before rounding. Without real numbers, many points are equal.
    """
    from cmaes import CatCMAwM

    size = 6 + real

    def values_of(solution: Any) -> tuple[Any, ...]:
        layers = LAYERS.index(solution.z[0]) + 1
        real_values = () if solution.x is None else (solution.x[0],)
        return (layers, ACTIVATIONS[solution.c[0].argmax()], *real_values)

    def judge(suggestion: Suggestion, number: int) -> Trial:
        return complete(number, suggestion, -mixed_cost(*suggestion.parameters.values()))

    parameters = (MIXED.parameters[1], MIXED.parameters[3], MIXED.parameters[0])
    space = Space(parameters=parameters[: 2 + real])
    default = {p.key: value for p, value in zip(space.parameters, (5, "relu", 0.5), strict=False)}
    trials = follow(TUNER, problem_in(space, seed=3), judge, 1 + size * 6, default)
    optimiser = CatCMAwM(
        x_space=[[0.0, 1.0]] if real else None,
        z_space=[LAYERS],
        c_space=[4],
        population_size=size,
        mean=np.array([0.5] * real + [LAYERS[4]]),
        sigma=0.3,
        cov=np.eye(1 + real),
    )
    expected: list[tuple[Any, ...]] = []
    for generation in range(1, 7):
        optimiser.reseed_rng(library_seed(3, generation))
        candidates = [optimiser.ask() for _ in range(size)]
        order = sorted(candidates, key=lambda s: mixed_cost(*values_of(s)))
        optimiser.tell([(s, float(rank)) for rank, s in enumerate(order)])
        expected += map(values_of, candidates)
    assert expected == [tuple(t.parameters.values()) for t in trials[1:]]


@pytest.mark.parametrize(
    ("space", "kind"),
    [
        (cube(2), CmaDistribution),
        (MIXED, MixedDistribution),
        (Space(parameters=MIXED.parameters[-1:]), CmaDistribution),
    ],
)
def test_the_distribution_suits_the_space(space: Space, kind: type[Any]) -> None:
    """A long range of integers counts as continuous; choices and short ranges do not."""
    assert type(initial_distribution(space, (0.5,) * len(space.parameters), 0.3, 6)) is kind


@pytest.mark.parametrize(
    ("dimensions", "population", "expected"), [(1, None, 4), (5, None, 8), (5, 13, 13)]
)
def test_a_generation_waits_for_the_one_before_it(
    dimensions: int, population: int | None, expected: int
) -> None:
    """By default a generation has 4 + ⌊3 ln d⌋ trials; the first waits for trial 0."""
    suggester = replace(TUNER, population=population).open(problem_in(cube(dimensions)))
    needs = [suggester.needs(number) for number in range(2 * expected + 2)]
    assert [0] + [1] * expected + [1 + expected] * expected + [1 + 2 * expected] == needs


def test_search_starts_at_the_default() -> None:
    """A search starts at the default, or in the middle if the default failed or is excluded."""
    space, narrow_tuner = cube(2), replace(TUNER, sigma=0.01)
    default = Suggestion({"x0": 0.2, "x1": 0.9})

    def first_mean(*trials: Trial) -> Any:
        suggester = narrow_tuner.open(problem_in(space))
        result = [suggester.suggest(trials, number) for number in range(1, 7)]
        return np.mean([list(s.parameters.values()) for s in result if s], axis=0)

    assert pytest.approx([0.2, 0.9], abs=0.02) == first_mean(complete(0, default, 1.0))
    assert pytest.approx([0.5, 0.5], abs=0.02) == first_mean(failed(0, default))
    assert pytest.approx([0.5, 0.5], abs=0.02) == first_mean()


def evaluated_points(*trials: Trial) -> list[EvaluatedPoint]:
    """Trials as evaluated points of the unit cube."""
    return [EvaluatedPoint(t.number, tuple(t.parameters.values()), t) for t in trials]


@pytest.mark.parametrize("state", [TrialState.COMPLETE, TrialState.FAILED])
def test_generation_of_ties_changes_nothing(state: TrialState) -> None:
    """A generation does not change the state if its trials all have one value, or all failed."""
    strategy = CmaEsMethod(cube(2), 0.3, 6, 0)
    initial_state = strategy.begin()
    candidates = strategy.ask(initial_state, 1)
    values = (1.0,) if state is TrialState.COMPLETE else ()
    trials = [
        replace(
            complete(n, Suggestion(dict(zip(("x0", "x1"), c.point, strict=True)))),
            state=state,
            values=values,
        )
        for n, c in enumerate(candidates, 1)
    ]
    assert strategy.tell(initial_state, 1, evaluated_points(*trials)) is initial_state
    better_trials = [replace(trials[0], state=TrialState.COMPLETE, values=(2.0,)), *trials[1:]]
    assert strategy.tell(initial_state, 1, evaluated_points(*better_trials)) is not initial_state


@pytest.mark.parametrize("space", [cube(3), MIXED], ids=["gaussian", "mixed"])
def test_no_call_changes_a_state(space: Space) -> None:
    """A state still draws the same points after an update was computed from it."""
    strategy = CmaEsMethod(space, 0.3, 6, 0)
    initial_state = strategy.begin()
    candidates = strategy.ask(initial_state, 1)
    trials = [
        complete(n, Suggestion(space.decode(c.point)), n) for n, c in enumerate(candidates, 1)
    ]
    evaluations = [
        EvaluatedPoint(t.number, c.point, t) for t, c in zip(trials, candidates, strict=True)
    ]
    next_state = strategy.tell(initial_state, 1, evaluations)
    assert candidates == strategy.ask(initial_state, 1)
    assert strategy.ask(next_state, 2) == strategy.ask(
        strategy.tell(initial_state, 1, evaluations), 2
    )


@settings(max_examples=20)
@given(seed=st.integers(0, 1000), failed_numbers=st.sets(st.integers(0, 30), max_size=12))
def test_only_ranks_of_values_matter(seed: int, failed_numbers: set[int]) -> None:
    """A monotone transformation of the values leads to the same search."""

    def search_with(transform: Any) -> list[Trial]:
        def judge(suggestion: Suggestion, number: int) -> Trial:
            if number in failed_numbers:
                return failed(number, suggestion)
            return complete(number, suggestion, transform(distance(suggestion, 0).values[0]))

        return follow(TUNER, problem_in(cube(2), seed), judge, 31)

    original, transformed = search_with(lambda v: v), search_with(lambda v: 1e9 * exp(v) - 7)
    assert [t.parameters for t in original] == [t.parameters for t in transformed]


def test_mixed_optimum_is_found() -> None:
    """At least eight of ten searches reach the optimum of choices and integers."""

    def judge(suggestion: Suggestion, number: int) -> Trial:
        values = suggestion.parameters
        cost = (values["x0"] - 0.8) ** 2 + (values["x1"] - 0.3) ** 2
        cost += (values["layers"] - 6) ** 2 / 20 + (values["activation"] != "elu")
        return complete(number, suggestion, -cost - (values["size"] / 1000 - 0.4) ** 2)

    default = {"x0": 0.5, "x1": 0.5, "layers": 3, "activation": "relu", "size": 500}
    last_parameters = [
        follow(TUNER, problem_in(MIXED, seed), judge, 161, default)[-1].parameters
        for seed in range(10)
    ]
    is_optimum = [
        parameters["layers"] in {5, 6, 7} and parameters["activation"] == "elu"
        for parameters in last_parameters
    ]
    assert sum(is_optimum) >= 8


def test_search_restarts_after_convergence() -> None:
    """A search that has converged restarts with a wide distribution."""
    trials = follow(TUNER, problem_in(cube(1), seed=1), distance, 601)
    spread = points(trials[1:]).reshape(-1, 4).std(axis=1)
    assert spread.min() < 1e-9
    assert spread[int(spread.argmin()) :].max() > 0.05


def test_several_objectives_are_refused() -> None:
    """CMA-ES refuses several objectives and names the tuners for them."""
    with pytest.raises(ConfigError, match="choose tuner=nsga2 or tuner=tpe"):
        TUNER.open(problem_in(cube(2), objectives=2))


def test_cma_es_beats_random_search() -> None:
    """CMA-ES finds better values than random search within a hundred trials."""
    cma_scores, random_scores = [], []
    for seed in range(25):
        trials = follow(TUNER, problem_in(cube(5), seed), distance, 101)[1:]
        cma_scores.append(max(t.values[0] for t in trials))
        draws = np.random.default_rng([9, seed]).random((100, 5))
        random_scores.append(-float(((draws - BEST) ** 2).sum(axis=1).min()))
    assert is_clearly_greater(cma_scores, random_scores)
