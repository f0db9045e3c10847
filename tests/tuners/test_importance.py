"""Importance of parameters: PED-ANOVA and fANOVA of trials."""

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
from rlexp.tuners.importance import FANOVA, PED_ANOVA, ParameterImportance, importances

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
SAMPLE_LANDSCAPES = ("brax_ant_sac", "cc_cartpole_ppo", "atari_qbert_dqn")
"""Landscapes of different libraries and algorithms."""
Trials = Sequence[tuple[Mapping[str, Any], float]]


@pytest.fixture(autouse=True)
def _few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use ten resamples for intervals, which takes a tenth of the time."""
    monkeypatch.setattr(importance, "RESAMPLES", {PED_ANOVA: 10, FANOVA: 5})


def trials(weights: Mapping[str, float], count: int = 150, noise: float = 0.05) -> Trials:
    """Random trials whose values increase with the shares of parameters."""
    generator = np.random.default_rng(count)
    result = []
    for _ in range(count):
        values = SPACE.decode(list(generator.random(6)))
        shares = dict(zip(SPACE.keys, SPACE.encode(values), strict=True))
        height = sum(weight * (shares[key] or 0.0) for key, weight in weights.items())
        result.append((values, float(height + noise * generator.standard_normal())))
    return result


def leaders(results: tuple[ParameterImportance, ...]) -> list[str]:
    """The most important parameter of each method."""
    return [max(i.shares, key=lambda key: i.shares[key].estimate) for i in results]


@pytest.mark.parametrize("key", SPACE.keys)
def test_most_important_parameter_has_the_largest_share(key: str) -> None:
    """Both methods find the important parameter, of any kind; the shares sum to 1."""
    result = importances(SPACE, trials({key: 1.0}), 0)
    assert [PED_ANOVA, FANOVA] == [i.method for i in result]
    if key == "width":
        # Trials without a width have the value of the lowest width, so its parent matters, too.
        assert set(leaders(result)) <= {"width", "network"}
    else:
        assert [key, key] == leaders(result)
    for method in result:
        assert 1.0 == pytest.approx(sum(share.estimate for share in method.shares.values()))
        assert SPACE.keys == tuple(method.shares)


def test_every_share_has_an_interval() -> None:
    """Every share has an interval with its estimate, its number of trials and its seed."""
    for method in importances(SPACE, trials({"rate": 1.0, "epochs": 0.5}), 3):
        for share in method.shares.values():
            assert share.low is not None
            assert share.high is not None
            assert 0 <= share.low <= share.estimate <= share.high <= 1
            assert (150, 3) == (share.n, share.seed)


def test_noise_is_refused_by_fanova() -> None:
    """Values without structure give no fANOVA shares; PED-ANOVA has no such check."""
    ped, fanova = importances(SPACE, trials({}), 0)
    assert {} == fanova.shares
    assert fanova.quality is not None
    assert fanova.quality < 0.3
    assert fanova.reason is not None
    assert "would be noise" in fanova.reason
    assert ped.shares


def test_interactions_are_reported() -> None:
    """For a product around the middle, only the pair of its factors is important."""
    generator = np.random.default_rng(0)
    result = [
        (SPACE.decode(list(point)), float((point[0] - 0.5) * (point[1] - 0.5)))
        for point in generator.random((400, 6))
    ]
    fanova = importances(SPACE, result, 0)[1]
    assert ("rate", "discount") == next(iter(fanova.pairs))
    assert fanova.pairs["rate", "discount"] > 0.5
    assert 1.0 >= sum(fanova.pairs.values())


def test_greater_values_are_better() -> None:
    """The best trials are those with the greatest values."""
    generator = np.random.default_rng(0)
    result: list[tuple[Mapping[str, Any], float]] = []
    for point in generator.random((200, 6)):
        # The number of epochs matters among high values only, the rate among low values only.
        high = point[4] > 0.5
        value = point[2] + 1 if high else point[0]
        result.append((SPACE.decode(list(point)), float(value)))
    ped = importances(SPACE, result, 0)[0]
    assert ped.shares["epochs"].estimate > 5 * ped.shares["rate"].estimate
    reversed_values = importances(SPACE, [(p, -v) for p, v in result], 0)[0]
    assert reversed_values.shares["rate"].estimate > 5 * reversed_values.shares["epochs"].estimate


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
def test_too_few_trials_give_a_reason(given_trials: Trials, reason: str) -> None:
    """For too few or equal trials, both methods give a reason instead of shares."""
    result = importances(SPACE, given_trials, 0)
    assert [(reason, {})] * 2 == [(method.reason, dict(method.shares)) for method in result]


def test_trials_without_a_finite_value_are_counted() -> None:
    """Trials without a finite value are left out, and the note has their number."""
    sample = [*trials({"rate": 1.0}, 60), ({}, float("nan"))]
    ped, fanova = importances(SPACE, sample, 0)
    assert "From the best 6 of 60 complete trials (1 more have no finite value)." == ped.note
    assert fanova.note.endswith("Forests are more reliable with 100 trials or more.")


def test_few_trials_have_five_best() -> None:
    """At least five trials count as the best, because a density needs them."""
    assert (
        "From the best 5 of 20 complete trials." == importances(SPACE, trials({}, 20), 0)[0].note
    )


def test_huge_values_do_not_overflow() -> None:
    """Values near the largest float of either sign give finite shares."""
    sample = [(p, 1.5e308 * (2 * v - 1)) for p, v in trials({"rate": 1.0}, 60, noise=0.0)]
    assert ["rate", "rate"] == leaders(importances(SPACE, sample, 0))


def test_default_outside_its_ranges_is_used() -> None:
    """A default outside of its ranges is used: a number as the nearer end, others as inactive."""
    odd_default = {"rate": "linear_3e-4", "epochs": 100, "network": "cnn", "batch": 4}
    sample = [*trials({"rate": 1.0}, 60), (odd_default, 0.5)]
    assert ["rate", "rate"] == leaders(importances(SPACE, sample, 0))


def test_many_trials_are_thinned_for_the_forest(monkeypatch: pytest.MonkeyPatch) -> None:
    """The forest uses a random subset of many trials, and the note says so."""
    monkeypatch.setattr(importance, "MAX_FOREST_TRIALS", 120)
    ped, fanova = importances(SPACE, trials({"rate": 1.0}), 0)
    assert "From 120 of 150 complete trials, drawn at random." == fanova.note
    assert (150, 120) == (ped.shares["rate"].n, fanova.shares["rate"].n)


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 2**32))
def test_the_order_of_the_trials_does_not_matter(seed: int) -> None:
    """The result is bit-identical for any order of the trials."""
    sample = list(trials({"rate": 1.0, "width": 0.5}, 60))
    shuffled = random.Random(seed).sample(sample, len(sample))
    assert importances(SPACE, sample, 1) == importances(SPACE, shuffled, 1)


def test_the_seed_changes_the_resamples() -> None:
    """Another seed gives other resamples, and other intervals."""
    sample = trials({"rate": 1.0, "epochs": 0.5}, 60)
    assert importances(SPACE, sample, 1) != importances(SPACE, sample, 2)


@pytest.mark.slow
def test_the_learning_rate_leads_on_most_landscapes() -> None:
    """Both methods put the learning rate first on at least nine of ten real landscapes."""
    result = []
    landscapes = usable() if IN_FULL else [load(name) for name in SAMPLE_LANDSCAPES]
    for landscape in landscapes:
        sample = list(zip(landscape.rows, map(float, landscape.scores.mean(axis=1)), strict=True))
        result.append(importances(landscape.space, sample, 0))
    ped = [leaders((pair[0],))[0] for pair in result]
    fanova = [leaders((pair[1],))[0] for pair in result if pair[1].shares]
    allowed_misses = len(landscapes) // 10
    assert len(landscapes) >= (10 if IN_FULL else 3)
    assert ped.count("learning_rate") >= len(landscapes) - allowed_misses
    assert len(fanova) >= len(landscapes) - allowed_misses
    assert fanova.count("learning_rate") >= len(fanova) - allowed_misses
