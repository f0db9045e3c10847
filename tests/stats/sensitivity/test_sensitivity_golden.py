"""Hyperparameter sensitivity of seven variants of PPO, from the data of Adkins et al. 2024."""

import csv
import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlexp.stats.sensitivity.settings import percentile_anchors, sensitivity
from rlexp.stats.task_scores import min_max

GOLDEN = Path(__file__).parents[2] / "golden"
PUBLISHED: dict[str, Any] = json.loads((GOLDEN / "adkins.json").read_text())
PARAMETERS = ("gae_lambda", "ent_coef", "actor_lr", "critic_lr")
TASKS = tuple(PUBLISHED["implied_normalisation_p5_p95"])
NAN = float("nan")

Array = NDArray[np.float64]


@cache
def published(algorithm: str, column: str) -> tuple[Array, Array]:
    """Scores and levels of one algorithm in the authors' data."""
    with gzip.open(GOLDEN / "adkins.csv.gz", "rt") as file:
        rows = [row for row in csv.DictReader(file) if row["alg_type"] == algorithm]
    settings = sorted({tuple(float(row[name]) for name in PARAMETERS) for row in rows})
    places = {setting: place for place, setting in enumerate(settings)}
    scores = np.full((len(settings), len(TASKS)), NAN)
    for row in rows:
        place = places[tuple(float(row[name]) for name in PARAMETERS)]
        scores[place, TASKS.index(row["env_name"])] = float(row[column])
    return scores, np.array(settings)


@pytest.mark.parametrize("algorithm", PUBLISHED["table"])
def test_published_data_give_the_published_table(algorithm: str) -> None:
    """The results of seven variants of PPO agree to 1e-4, and their dimensionality exactly."""
    result = sensitivity(*published(algorithm, "percentile_normalized_return"))
    expected = PUBLISHED["table"][algorithm]
    assert expected["per_env"] == pytest.approx(result.tuned, abs=1e-4)
    assert expected["cross_env"] == pytest.approx(result.cross_tuned, abs=1e-4)
    assert expected["sensitivity"] == pytest.approx(result.sensitivity, abs=1e-4)
    assert expected["dim"] == result.dimensionality


@pytest.mark.parametrize("algorithm", PUBLISHED["table"])
def test_published_scores_are_normalised_by_the_implied_anchors(algorithm: str) -> None:
    """Raw returns and the authors' percentiles give their normalised scores."""
    low, high = np.array(list(PUBLISHED["implied_normalisation_p5_p95"].values())).T
    raw, _ = published(algorithm, "mean_return")
    expected, _ = published(algorithm, "percentile_normalized_return")
    np.testing.assert_allclose(min_max(raw, low, high), expected, atol=2e-3)


def test_percentiles_of_the_published_data_lie_near_the_implied_ones() -> None:
    """Percentiles are near the authors', which still include diverged runs."""
    raw = [published(name, "mean_return")[0] for name in PUBLISHED["table"]]
    low, high = percentile_anchors(raw)
    expected = np.array(list(PUBLISHED["implied_normalisation_p5_p95"].values()))
    relative_error = np.abs(np.stack([low, high], axis=1) - expected) / np.diff(expected, axis=1)
    assert relative_error.max() < 0.1
