"""A bound on what more trials could gain holds, shrinks with trials, and repeats itself."""

from dataclasses import replace

import numpy as np
import pytest
from searches import BRANCHED, MIXED, NUMERIC, SPACES, STEPS, complete, drawn, value

from rlexp.protocol.space import Space
from rlexp.records.trial import Trial, TrialState
from rlexp.tuners.regret_bound import FEWEST, regret_bound


def trials_of(space: Space, count: int, seed: int = 0, noise: float = 0.0) -> list[Trial]:
    """Random trials of the objective, whose maximum is 0, with normal noise."""
    generator = np.random.default_rng(seed)
    points = [drawn(space, number, seed) for number in range(count)]
    return [
        complete(space, n, p, (value(space, p) + noise * float(generator.standard_normal()),))
        for n, p in enumerate(points)
    ]


@pytest.mark.parametrize("space", SPACES)
def test_the_bound_holds_in_spaces_of_every_kind(space: str) -> None:
    """In nine of ten searches or more, no configuration is further above the best than the bound."""
    held = 0
    for seed in range(20):
        trials = trials_of(SPACES[space], 64, seed)
        bound = regret_bound(SPACES[space], trials, STEPS, seed)
        assert bound is not None
        assert 64 == bound.trials
        held += -max(trial.values[0] for trial in trials) <= bound.gain
    assert held >= 18


def test_more_trials_shrink_the_bound() -> None:
    """On average over searches, the bound after 300 trials is smaller than after 40."""
    few, many = (
        [
            bound.gain
            for seed in range(8)
            if (bound := regret_bound(NUMERIC, trials_of(NUMERIC, count, seed), STEPS, seed))
        ]
        for count in (40, 300)
    )
    assert 8 == len(few) == len(many)
    assert np.mean(many) < np.mean(few)


def test_the_bound_has_the_units_of_the_objective() -> None:
    """Scores in other units, with another origin, scale the bound and do not shift it."""
    trials = trials_of(MIXED, 50, 3, 0.1)
    scaled = [replace(t, values=(40 * t.values[0] - 700,)) for t in trials]
    bounds = [regret_bound(MIXED, ts, STEPS, 5) for ts in (trials, scaled)]
    assert bounds[0] is not None
    assert bounds[1] is not None
    assert pytest.approx(40 * bounds[0].gain) == bounds[1].gain


def test_equal_trials_give_equal_bits_in_any_order() -> None:
    """The bound depends on the trials and the root, and not on the order of the list."""
    trials = trials_of(BRANCHED, 45, 1, 0.05)
    first = regret_bound(BRANCHED, trials, STEPS, 2)
    assert first == regret_bound(BRANCHED, trials[::-1], STEPS, 2)
    assert first != regret_bound(BRANCHED, trials, STEPS, 3)


def test_failed_and_short_trials_count_as_they_are() -> None:
    """A failed trial counts as the worst, a trial with fewer steps not at all."""
    trials = trials_of(NUMERIC, 50, 4)
    short = [replace(t, steps=STEPS // 3, values=(1e9,)) for t in trials[:10]]
    bound = regret_bound(NUMERIC, trials, STEPS, 0)
    assert bound == regret_bound(NUMERIC, [*trials, *short], STEPS, 0)
    worst = min(trials, key=lambda t: t.values[0])
    failed = replace(worst, state=TrialState.FAILED, values=())
    others = [failed if t is worst else t for t in trials]
    second = min(t.values[0] for t in trials if t is not worst)
    as_second = [replace(t, values=(second,)) if t is worst else t for t in trials]
    assert regret_bound(NUMERIC, as_second, STEPS, 0) == regret_bound(NUMERIC, others, STEPS, 0)


def test_few_trials_and_failures_alone_have_no_bound() -> None:
    """There is no bound with too few trials, and none where every trial failed."""
    trials = trials_of(NUMERIC, FEWEST)
    assert regret_bound(NUMERIC, trials[:-1], STEPS, 0) is None
    assert regret_bound(NUMERIC, trials, STEPS, 0) is not None
    failed = [replace(t, state=TrialState.FAILED, values=()) for t in trials]
    assert regret_bound(NUMERIC, failed, STEPS, 0) is None
