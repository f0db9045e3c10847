"""Draws that are counted once for all labels give the bits of draws that are evaluated each."""

import numpy as np
import pytest

from rlexp.stats import replicates as resampled
from rlexp.stats.aggregate import Aggregate
from rlexp.stats.bootstrap_indices import blocks, draw
from rlexp.stats.replicates import counted_ranks
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores

STATISTICS = {
    "iqm": Aggregate("interquartile mean"),
    "iqm of whole runs": Aggregate("interquartile mean of whole runs"),
    "mean": Aggregate("mean"),
    "median": Aggregate("median"),
    "gap": Aggregate("mean", cap=0.5),
}


def scores_of(kind: str, n: int) -> TaskScores:
    """Scores of one task: normal ones, many ties, or tiny negative ones."""
    generator = np.random.default_rng(n)
    values = {
        "normal": generator.normal(size=n),
        "ties": generator.integers(0, 4, size=n),
        "tiny": -np.abs(generator.normal(size=n)) * 1e-3,
    }
    return TaskScores.from_tasks([values[kind]])


@pytest.mark.parametrize("kind", ["normal", "ties", "tiny"])
@pytest.mark.parametrize(
    ("n", "repetitions"),
    [(1, 50), (2, 300), (8, 2_000), (9, 1_000), (13, 777), (50, 5_000), (301, 4_001), (40_000, 5)],
)
def test_counting_once_changes_no_bit(
    kind: str, n: int, repetitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Products of counts and scores equal the sums of every draw, in one block and in many."""
    scores, resampling = scores_of(kind, n), Resampling(seed=3, repetitions=repetitions)
    counted = resampled.replicates(scores, STATISTICS, resampling)
    monkeypatch.setattr(resampled, "MOST_COUNTED", 0)
    each = resampled.replicates(scores, STATISTICS, resampling)
    assert list(STATISTICS) == list(counted)
    assert {k: v.tobytes() for k, v in each.items()} == {
        k: v.tobytes() for k, v in counted.items()
    }


def test_counts_are_those_of_the_draws() -> None:
    """Each repetition counts how often it draws each run, and draws as many as there are."""
    resampling = Resampling(seed=1, repetitions=3_000)
    counted = np.hstack(counted_ranks(60, resampling).blocks)
    drawn = np.vstack([draw((60,), resampling, b).positions for b in blocks(60, resampling)])
    expected = np.stack([np.bincount(row, minlength=60) for row in drawn], axis=-1)
    np.testing.assert_array_equal(expected, counted)
    assert {60} == set(counted.sum(axis=0).tolist())


def test_labels_with_as_many_runs_share_the_counts() -> None:
    """The draws of a second label are neither drawn nor counted again."""
    resampling = Resampling(seed=5, repetitions=200)
    assert counted_ranks(30, resampling) is counted_ranks(30, resampling)
