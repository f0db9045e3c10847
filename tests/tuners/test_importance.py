"""Importance of parameters, from trials."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from in_full import IN_FULL
from landscape_table import load, usable

from rlexp.protocol.space import Choice, Integer, Parameter, Real, Space
from rlexp.tuners import importance
from rlexp.tuners.importance import FANOVA, PED_ANOVA, Importance, importances

SPACE = Space(
    parameters=(
        Parameter(key="rate", domain=Real(1e-5, 1e-1, "log")),
        Parameter(key="discount", domain=Real(0.9, 0.9999, "flipped_log")),
        Parameter(key="epochs", domain=Integer(1, 20)),
        Parameter(key="batch", domain=Integer(8, 512, log=True)),
        Parameter(key="network", domain=Choice(("linear", "mlp"))),
        Parameter(key="width", domain=Choice((32, 64, 128)), when={"network": ("mlp",)}),
    )
)
FEW = ("brax_ant_sac", "cc_cartpole_ppo", "atari_qbert_dqn")
"""Landscapes of different libraries and algorithms."""
Trials = Sequence[tuple[Mapping[str, Any], float]]


@pytest.fixture(autouse=True)
def _few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals of ten resamples, which take a tenth of the time."""
    monkeypatch.setattr(importance, "RESAMPLES", {PED_ANOVA: 10, FANOVA: 5})


def trials(weights: Mapping[str, float], count: int = 150, noise: float = 0.05) -> Trials:
    """Random trials whose values rise with the place of parameters in their ranges."""
    generator = np.random.default_rng(count)
    found = []
    for _ in range(count):
        values = SPACE.decode(list(generator.random(6)))
        shares = dict(zip(SPACE.keys, SPACE.encode(values), strict=True))
        height = sum(weight * (shares[key] or 0.0) for key, weight in weights.items())
        found.append((values, float(height + noise * generator.standard_normal())))
    return found


def leaders(found: tuple[Importance, ...]) -> list[str]:
    """The parameter that each method puts first."""
    return [max(i.shares, key=lambda key: i.shares[key].estimate) for i in found]


@pytest.mark.parametrize("key", SPACE.keys)
def test_the_parameter_that_matters_comes_first(key: str) -> None:
    """In both methods, whatever its kind, and shares sum to 1."""
    found = importances(SPACE, trials({key: 1.0}), 0)
    assert [PED_ANOVA, FANOVA] == [i.method for i in found]
    if key == "width":
        # Where it is not there the value is as low as at its low end: its parent matters as well.
        assert set(leaders(found)) <= {"width", "network"}
    else:
        assert [key, key] == leaders(found)
    for own in found:
        assert 1.0 == pytest.approx(sum(share.estimate for share in own.shares.values()))
        assert SPACE.keys == tuple(own.shares)


def test_an_interval_is_told_with_every_share() -> None:
    """It holds the estimate, counts trials, and says how it came about."""
    for own in importances(SPACE, trials({"rate": 1.0, "epochs": 0.5}), 3):
        for share in own.shares.values():
            assert share.low is not None
            assert share.high is not None
            assert 0 <= share.low <= share.estimate <= share.high <= 1
            assert (150, 3) == (share.n, share.seed)


def test_noise_is_refused_by_fanova() -> None:
    """It cannot foresee it; PED-ANOVA has no such check."""
    ped, fanova = importances(SPACE, trials({}), 0)
    assert {} == fanova.shares
    assert fanova.quality is not None
    assert fanova.quality < 0.3
    assert fanova.reason is not None
    assert "shares of noise" in fanova.reason
    assert ped.shares


def test_what_two_do_together_is_told() -> None:
    """A product about the middle: neither matters alone."""
    generator = np.random.default_rng(0)
    found = [
        (SPACE.decode(list(point)), float((point[0] - 0.5) * (point[1] - 0.5)))
        for point in generator.random((400, 6))
    ]
    fanova = importances(SPACE, found, 0)[1]
    assert ("rate", "discount") == next(iter(fanova.pairs))
    assert fanova.pairs["rate", "discount"] > 0.5
    assert 1.0 >= sum(fanova.pairs.values())


def test_better_is_greater() -> None:
    """The best trials lie at the high end of what raises the value, not all over the range."""
    generator = np.random.default_rng(0)
    found: list[tuple[Mapping[str, Any], float]] = []
    for point in generator.random((200, 6)):
        # Only among high values does the number of epochs matter, only among low ones the rate.
        high = point[4] > 0.5
        value = point[2] + 1 if high else point[0]
        found.append((SPACE.decode(list(point)), float(value)))
    ped = importances(SPACE, found, 0)[0]
    assert ped.shares["epochs"].estimate > 5 * ped.shares["rate"].estimate
    turned = importances(SPACE, [(p, -v) for p, v in found], 0)[0]
    assert turned.shares["rate"].estimate > 5 * turned.shares["epochs"].estimate


@pytest.mark.parametrize(
    ("given_trials", "reason"),
    [
        ([], "0 complete trials are too few: 20 are needed"),
        (trials({"rate": 1.0}, 19), "19 complete trials are too few: 20 are needed"),
        (
            [*trials({"rate": 1.0}, 19), ({}, float("nan")), ({}, float("inf"))],
            "19 complete trials (2 more have no finite value) are too few: 20 are needed",
        ),
        (
            [(values, 500.0) for values, _ in trials({}, 30)],
            "30 complete trials all have the same value",
        ),
    ],
)
def test_too_little_gets_a_reason(given_trials: Trials, reason: str) -> None:
    """From both methods, and no number."""
    found = importances(SPACE, given_trials, 0)
    assert [(reason, {})] * 2 == [(own.reason, dict(own.shares)) for own in found]


def test_trials_without_a_finite_value_are_counted() -> None:
    """They are left out, and the note says how many."""
    own = [*trials({"rate": 1.0}, 60), ({}, float("nan"))]
    ped, fanova = importances(SPACE, own, 0)
    assert "From the best 6 of 60 complete trials (1 more have no finite value)." == ped.note
    assert fanova.note.endswith("Forests do better with 100 trials or more.")


def test_few_trials_have_five_best() -> None:
    """A tenth of 20 would be 2, which no density can be made of."""
    assert (
        "From the best 5 of 20 complete trials." == importances(SPACE, trials({}, 20), 0)[0].note
    )


def test_diverged_values_overflow_nothing() -> None:
    """Values near the largest floats, of either sign."""
    own = [(p, 1.5e308 * (2 * v - 1)) for p, v in trials({"rate": 1.0}, 60, noise=0.0)]
    assert ["rate", "rate"] == leaders(importances(SPACE, own, 0))


def test_a_default_outside_of_its_ranges_is_a_trial_too() -> None:
    """Numbers go to the nearer end; other values are as if they were not there."""
    odd = {"rate": "linear_3e-4", "epochs": 100, "network": "cnn", "batch": 4}
    own = [*trials({"rate": 1.0}, 60), (odd, 0.5)]
    assert ["rate", "rate"] == leaders(importances(SPACE, own, 0))


def test_many_trials_are_thinned_for_the_forest(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many that forests take seconds, drawn at random; the note says so."""
    monkeypatch.setattr(importance, "MOST", 120)
    ped, fanova = importances(SPACE, trials({"rate": 1.0}), 0)
    assert "From 120 of 150 complete trials, drawn at random." == fanova.note
    assert (150, 120) == (ped.shares["rate"].n, fanova.shares["rate"].n)


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 2**32))
def test_the_order_of_the_trials_does_not_matter(seed: int) -> None:
    """Not one bit of it; and the seed decides the rest."""
    own = list(trials({"rate": 1.0, "width": 0.5}, 60))
    shuffled = random.Random(seed).sample(own, len(own))
    assert importances(SPACE, own, 1) == importances(SPACE, shuffled, 1)


def test_the_seed_changes_the_resamples() -> None:
    """Otherwise it would do nothing."""
    own = trials({"rate": 1.0, "epochs": 0.5}, 60)
    assert importances(SPACE, own, 1) != importances(SPACE, own, 2)


@pytest.mark.slow
def test_the_learning_rate_leads_on_most_landscapes() -> None:
    """As on all real landscapes that were tried before: in both methods on nine of ten or more."""
    found = []
    few = usable() if IN_FULL else [load(name) for name in FEW]
    for landscape in few:
        own = list(zip(landscape.rows, map(float, landscape.scores.mean(axis=1)), strict=True))
        found.append(importances(landscape.space, own, 0))
    ped = [leaders((own[0],))[0] for own in found]
    fanova = [leaders((own[1],))[0] for own in found if own[1].shares]
    misses = len(few) // 10
    assert len(few) >= (10 if IN_FULL else 3)
    assert ped.count("learning_rate") >= len(few) - misses
    assert len(fanova) >= len(few) - misses
    assert fanova.count("learning_rate") >= len(fanova) - misses
