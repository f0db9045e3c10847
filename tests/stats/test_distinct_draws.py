"""Few runs: resamples that are alike are evaluated once, and no bit of a result changes."""

import numpy as np
import pytest

from rlexp.stats import replicates as resampled
from rlexp.stats.aggregate import Aggregate
from rlexp.stats.bootstrap_indices import distinct_draws
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores

STATISTICS = {
    "iqm": Aggregate("interquartile mean"),
    "mean": Aggregate("mean"),
    "median": Aggregate("median"),
    "gap": Aggregate("mean", cap=0.5),
}


@pytest.mark.parametrize("sizes", [(2,), (3,), (5,), (7,), (3, 3), (2, 4), (2, 2, 2)])
def test_values_are_the_same_to_the_bit(
    sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The short way and the long way agree in every repetition."""
    generator = np.random.default_rng(len(sizes) + sum(sizes))
    scores = TaskScores.from_tasks([generator.uniform(-1.0, 1.0, size) for size in sizes])
    assert distinct_draws(sizes, Resampling()) is not None
    short = resampled.replicates(scores, STATISTICS, Resampling())
    monkeypatch.setattr(resampled, "distinct_draws", lambda *_: None)
    long = resampled.replicates(scores, STATISTICS, Resampling())
    for name in STATISTICS:
        np.testing.assert_array_equal(short[name], long[name])


@pytest.mark.parametrize(
    ("sizes", "repetitions"), [((8,), 50_000), ((5, 5), 50_000), ((5,), 1_000), ((1,) * 16, 10)]
)
def test_many_different_draws_are_not_kept(sizes: tuple[int, ...], repetitions: int) -> None:
    """If there are too many distinct draws, none are kept."""
    assert distinct_draws(sizes, Resampling(repetitions=repetitions)) is None
