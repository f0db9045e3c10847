"""The random forest of `tuner=smac`: its data, its model and its suggestions."""

from dataclasses import replace
from statistics import mean

import numpy as np
import pytest
from scipy.special import ndtr
from searches import (
    BRANCHED,
    MIXED,
    NUMERIC,
    SPACES,
    STEPS,
    best,
    complete,
    drawn,
    problem,
    value,
)

from rlexp.errors import ConfigError
from rlexp.protocol.earlier_sweeps import EarlierTrial
from rlexp.protocol.space import Choice, Parameter, Space
from rlexp.records.trial import Trial, TrialState
from rlexp.tuners.conditional_cube import ConditionalCube
from rlexp.tuners.random import RandomSearch
from rlexp.tuners.smac import (
    SMAC,
    log_expected_improvement,
    normal_scores,
)
from rlexp.tuners.sobol import SobolSequence
from rlexp.tuners.trial_values import model_values

TUNER = SMAC(startup=10, trees=10, random=0.2, candidates=1000)
GREEDY = replace(TUNER, random=0.0)
AXIS = "algorithm.clip_range"


def test_first_trials_are_sobol_points() -> None:
    """The forest is used after the first trials, if at least one is complete."""
    trials = [complete(NUMERIC, i, drawn(NUMERIC, i)) for i in range(12)]
    failed_trials = [replace(t, state=TrialState.FAILED, values=()) for t in trials]
    smac, sobol = GREEDY.open(problem(NUMERIC)), SobolSequence().open(problem(NUMERIC))
    points = {number: sobol.suggest((), number) for number in (10, 11, 30)}
    assert points[10] == smac.suggest(trials, 10)
    assert points[30] == smac.suggest(trials[:9], 30)
    assert points[30] == smac.suggest(failed_trials, 30)
    assert points[11] != smac.suggest(trials[:10], 11)
    assert points[30] != smac.suggest([*failed_trials[:-1], trials[-1]], 30)


def test_smac_beats_random_search() -> None:
    """After forty trials, the best trial is nearer to the optimum than in random search."""
    smac_mean, random_mean = (
        mean(
            best(tuner, problem(SPACES[kind], seed=seed), 40)
            for kind in ("numeric", "mixed")
            for seed in range(6)
        )
        for tuner in (TUNER, RandomSearch())
    )
    assert smac_mean > 0.8 * random_mean


def test_some_suggestions_are_random() -> None:
    """With `random=1` all suggestions are random draws, which do not depend on the trials."""
    trials = [complete(NUMERIC, i, drawn(NUMERIC, i)) for i in range(20)]
    suggester = replace(TUNER, random=1.0).open(problem(NUMERIC))
    others = [replace(trial, values=(float(trial.number),)) for trial in trials]
    assert suggester.suggest(trials, 20) == suggester.suggest(others, 20)
    shares = [
        TUNER.open(problem(NUMERIC)).suggest(trials, n) == suggester.suggest(trials, n)
        for n in range(20, 60)
    ]
    assert 0.05 < mean(shares) < 0.4


@pytest.mark.parametrize("state", [TrialState.FAILED, TrialState.PRUNED])
def test_failing_regions_are_avoided(state: TrialState) -> None:
    """The model avoids a region of failed or pruned trials, although it looks best."""

    def trial(number: int) -> Trial:
        values = drawn(NUMERIC, number)
        scored = complete(NUMERIC, number, values, (-float(values[AXIS]),))
        bad = values[AXIS] < 0.4
        return replace(scored, state=state, values=()) if bad else scored

    trials = [trial(number) for number in range(40)]
    suggester = GREEDY.open(problem(NUMERIC))
    result = [suggester.suggest(trials, number) for number in range(50, 62)]
    assert mean(s is not None and s.parameters[AXIS] < 0.3 for s in result) < 0.2


def test_the_scale_of_the_scores_does_not_matter() -> None:
    """Scores that a growing function has changed give the same suggestion."""
    trials = [complete(MIXED, i, drawn(MIXED, i)) for i in range(25)]
    changed = [replace(t, values=(float(np.exp(9 * t.values[0])),)) for t in trials]
    suggester = GREEDY.open(problem(MIXED))
    assert suggester.suggest(trials, 25) == suggester.suggest(changed, 25)


def test_a_configuration_is_suggested_once_while_others_are_left() -> None:
    """In a space of 24 configurations, 24 trials are different ones."""
    space = Space(
        parameters=(
            Parameter(key="algorithm.a", domain=Choice((1, 2, 3, 4))),
            Parameter(key="algorithm.b", domain=Choice(("x", "y", "z"))),
            Parameter(key="algorithm.c", domain=Choice((False, True))),
        )
    )
    suggester = replace(GREEDY, startup=1).open(problem(space))
    trials = [
        complete(space, 0, {"algorithm.a": 1, "algorithm.b": "x", "algorithm.c": False}, (0.0,))
    ]
    for number in range(1, 24):
        suggestion = suggester.suggest(trials, number)
        assert suggestion is not None
        trials.append(complete(space, number, suggestion.parameters, (float(number % 5),)))
    assert len({str(trial.parameters) for trial in trials}) >= 23


def test_several_objectives_are_refused() -> None:
    """SMAC takes one objective, and names tuners for several."""
    with pytest.raises(ConfigError, match="tuner=nsga2"):
        TUNER.open(problem(NUMERIC, objectives=2))


def test_trials_with_fewer_steps_are_left_out() -> None:
    """A value after fewer steps is not compared with one at the full budget."""
    trials = [complete(NUMERIC, i, drawn(NUMERIC, i)) for i in range(20)]
    short = replace(complete(NUMERIC, 20, drawn(NUMERIC, 20), (99.0,)), steps=STEPS // 3)
    suggester = GREEDY.open(problem(NUMERIC))
    assert suggester.suggest(trials, 30) == suggester.suggest([*trials, short], 30)


def test_model_values() -> None:
    """A pruned trial has the lower quartile of the complete ones, a failed one less than all."""
    trials = [
        complete(NUMERIC, 0, {}, (1.0,)),
        replace(complete(NUMERIC, 1, {}, (0.0,)), state=TrialState.PRUNED, values=()),
        complete(NUMERIC, 2, {}, (5.0,)),
        replace(complete(NUMERIC, 3, {}, (0.0,)), state=TrialState.FAILED, values=()),
        complete(NUMERIC, 4, {}, (float("nan"),)),
    ]
    assert [1.0, 2.0, 5.0, -np.inf, -np.inf] == model_values(trials).tolist()


def test_normal_scores() -> None:
    """Φ of a normal score is (rank − 3/8) / (n + 1/4); ties share their mean rank."""
    scores = normal_scores(np.array([7.0, -np.inf, 7.0, 1e9]))
    expected = (np.array([2.5, 1.0, 2.5, 4.0]) - 0.375) / 4.25
    assert list(expected) == pytest.approx(ndtr(scores))


@pytest.mark.parametrize("z", [-40.0, -8.0, -1.0, 0.0, 1.0, 4.9, 5.1, 30.0])
def test_log_expected_improvement(z: float) -> None:
    """The logarithm equals that of σ (φ(z) + z Φ(z)), also where the improvement is tiny."""
    result = log_expected_improvement(np.array([2 * z + 1]), np.array([4.0]), 1.0)[0]
    if z > -8:
        density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
        assert np.log(2 * (density + z * ndtr(z))) == pytest.approx(result, abs=1e-6)
    else:
        # φ(z) + z Φ(z) → φ(z) / z² (1 − 3 / z² + …) for z → −∞.
        asymptote = -0.5 * z**2 - 0.5 * np.log(2 * np.pi) - 2 * np.log(-z)
        assert asymptote == pytest.approx(result - np.log(2), abs=4 / z**2)


def test_inactive_parameters_have_a_cell_of_their_own() -> None:
    """The cells of points agree with the activity that the space decides."""
    cube = ConditionalCube(BRANCHED)
    points = np.random.default_rng(0).random((200, len(BRANCHED.parameters)))
    cells = cube.cells(points)
    for point, row in zip(points, cells, strict=True):
        active = BRANCHED.decode(point.tolist())
        assert [key in active for key in BRANCHED.keys] == (row > 0).tolist()
    assert (cells < np.array(cube.sizes)).all()


def earlier(count: int = 40) -> tuple[EarlierTrial, ...]:
    """Trials of an earlier sweep whose standings are those of the objective."""
    tried = [drawn(NUMERIC, number, seed=5) for number in range(count)]
    order = sorted(tried, key=lambda values: value(NUMERIC, values))
    return tuple(EarlierTrial(values, (i + 0.5) / count) for i, values in enumerate(order))


def test_earlier_trials_inform_the_forest() -> None:
    """With trials of an earlier sweep on the same task, the first suggestions are better than without."""
    informed = replace(problem(NUMERIC), earlier=earlier())
    means = [
        mean(best(GREEDY, replace(p, seed=seed), 8) for seed in range(8))
        for p in (informed, problem(NUMERIC))
    ]
    assert means[0] > means[1] / 2


def test_earlier_trials_count_less_and_less() -> None:
    """Earlier trials that say the opposite cost little once the sweep has many trials of its own."""
    opposite = tuple(replace(t, standing=1 - t.standing) for t in earlier())
    misled = replace(problem(NUMERIC), earlier=opposite)
    ended = mean(best(TUNER, replace(misled, seed=seed), 40) for seed in range(4))
    at_random = mean(best(RandomSearch(), problem(NUMERIC, seed=seed), 40) for seed in range(4))
    assert ended > at_random
