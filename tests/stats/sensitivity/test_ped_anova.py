"""PED-ANOVA equals Optuna's evaluator and values by hand."""

from typing import Any

import numpy as np
import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.importance import PedAnovaImportanceEvaluator

from rlexp.stats.sensitivity.ped_anova import STEPS, Observed, best, divergences

DISTRIBUTIONS: dict[str, BaseDistribution] = {
    "real": FloatDistribution(0, 1),
    "whole": IntDistribution(0, 6),
    "choice": CategoricalDistribution([0, 1, 2]),
    "only_of_1": FloatDistribution(0, 1),
}
SIZES = {"real": STEPS, "whole": 7, "choice": 3, "only_of_1": STEPS}


def random_trials(count: int, seed: int) -> tuple[list[dict[str, Any]], NDArray[np.float64]]:
    """Parameters and values of random trials; one parameter exists for one choice only."""
    generator = np.random.default_rng(seed)
    rows, values = [], []
    for _ in range(count):
        row = {
            "real": float(generator.random()),
            "whole": int(generator.integers(0, 7)),
            "choice": int(generator.integers(0, 3)),
        }
        conditional = float(generator.random())
        if row["choice"] == 1:
            row["only_of_1"] = conditional
        rows.append(row)
        bonus = 0.05 * conditional * (row["choice"] == 1)
        noise = 0.05 * generator.standard_normal()
        values.append(bonus - (row["real"] - 0.3) ** 2 - 0.02 * row["whole"] + noise)
    return rows, np.array(values)


def observed(rows: list[dict[str, Any]], name: str) -> Observed:
    """The values of a parameter on its grid."""
    points = [_point(row.get(name), SIZES[name]) for row in rows]
    return Observed(np.array(points), SIZES[name], ordered=name != "choice")


def _point(value: float | None, size: int) -> int:
    if value is None:
        return -1
    return value if isinstance(value, int) else int(np.clip(np.ceil(value * 49 - 0.5), 0, 49))


@pytest.mark.parametrize("count", [20, 57, 200])
def test_divergences_are_those_of_optuna(count: int) -> None:
    """Real, whole, chosen and conditional parameters have the importances of Optuna."""
    rows, values = random_trials(count, seed=count)
    study = optuna.create_study(direction="maximize")
    for row, value in zip(rows, values, strict=True):
        distributions = {name: DISTRIBUTIONS[name] for name in row}
        study.add_trial(
            optuna.trial.create_trial(params=row, distributions=distributions, value=float(value))
        )
    expected = PedAnovaImportanceEvaluator().evaluate(study)
    importances = divergences([observed(rows, name) for name in SIZES], best(values, 0.1))
    assert [expected[name] for name in SIZES] == pytest.approx(
        list(importances), rel=1e-9, abs=1e-15
    )


def test_the_best_are_a_share_of_all_and_their_equals() -> None:
    """The best 30 % of ten trials are three, and the fourth because it equals the third."""
    values = np.array([1.0, 9.0, 7.0, 2.0, 7.0, 3.0, 8.0, 4.0, 5.0, 6.0])
    assert [1, 2, 4, 6] == list(np.flatnonzero(best(values, 0.3)))
    assert [1] == list(np.flatnonzero(best(values, 0.1)))
    assert best(np.ones(5), 0.2).all()


def test_a_choice_by_hand() -> None:
    """By hand: both of the best 2 of 4 trials chose the first of two values."""
    parameter = Observed(np.array([0, 0, 1, 1]), 2, ordered=False)
    # Kernels leak 1 / (distinct values + 1) to every choice; the prior weighs as one trial.
    p = np.array([2 / 3 * (1 + 1 / 2) / 2 + 1 / 6, 2 / 3 * (1 / 2) / 2 + 1 / 6])
    q = np.array([1 / 2, 1 / 2])
    expected = 0.5**2 * float(q @ (p / q - 1) ** 2)
    top = np.array([True, True, False, False])
    assert expected == pytest.approx(divergences([parameter], top)[0])


def test_a_parameter_that_is_hardly_there_says_nothing() -> None:
    """A parameter that is absent, in one trial, or in none of the best has divergence 0."""
    absent = Observed(np.array([-1, -1, -1, -1]), 5, ordered=True)
    once = Observed(np.array([3, -1, -1, -1]), 5, ordered=True)
    not_best = Observed(np.array([-1, -1, 2, 3]), 5, ordered=True)
    top = np.array([True, True, False, False])
    assert [0.0, 0.0, 0.0] == list(divergences([absent, once, not_best], top))


@given(st.permutations(range(20)))
def test_the_order_of_the_trials_does_not_matter(order: list[int]) -> None:
    """Trials in another order have equal importances."""
    rows, values = random_trials(20, seed=1)
    reordered = [rows[k] for k in order]
    first = divergences([observed(rows, n) for n in SIZES], best(values, 0.25))
    second = divergences([observed(reordered, n) for n in SIZES], best(values[order], 0.25))
    assert list(first) == list(second)
