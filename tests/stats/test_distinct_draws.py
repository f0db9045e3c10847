"""With few runs, equal resamples are evaluated once, which changes no bit of a result."""

import numpy as np
import pytest

from rlexp.stats import replicates as resampled
from rlexp.stats.aggregate import Aggregate
from rlexp.stats.bootstrap_indices import distinct_draws
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores

STATISTICS = {
    "iqm": Aggregate("interquartile mean"),
    "iqm of whole runs": Aggregate("interquartile mean of whole runs"),
    "mean": Aggregate("mean"),
    "median": Aggregate("median"),
    "gap": Aggregate("mean", cap=0.5),
}


@pytest.mark.parametrize("sizes", [(2,), (3,), (5,), (7,), (3, 3), (2, 4), (2, 2, 2)])
def test_values_are_the_same_to_the_bit(
    sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Evaluating the distinct draws gives the values of evaluating all draws."""
    generator = np.random.default_rng(len(sizes) + sum(sizes))
    scores = TaskScores.from_tasks([generator.uniform(-1.0, 1.0, size) for size in sizes])
    assert distinct_draws(sizes, Resampling()) is not None
    values_by_distinct_draws = resampled.replicates(scores, STATISTICS, Resampling())
    monkeypatch.setattr(resampled, "distinct_draws", lambda *_: None)
    values_by_all_draws = resampled.replicates(scores, STATISTICS, Resampling())
    for name in STATISTICS:
        np.testing.assert_array_equal(values_by_distinct_draws[name], values_by_all_draws[name])


@pytest.mark.parametrize(
    ("sizes", "repetitions"), [((8,), 50_000), ((5, 5), 50_000), ((5,), 1_000), ((1,) * 16, 10)]
)
def test_many_different_draws_are_not_kept(sizes: tuple[int, ...], repetitions: int) -> None:
    """`distinct_draws` returns None if there are too many draws to be worth finding."""
    assert distinct_draws(sizes, Resampling(repetitions=repetitions)) is None
