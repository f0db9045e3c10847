"""Resampled curves equal sorting each resample, on one thread or many."""

import numpy as np
import pytest
from aggregate_cases import tasks
from hypothesis import given

from rlexp.stats import bootstrap_indices, curve_bootstrap
from rlexp.stats.aggregate import CENTRES, CUT_BY_CENTRE, Centre, interquartile_mean
from rlexp.stats.bootstrap_indices import blocks, draw
from rlexp.stats.curve_bootstrap import resampled_curves
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores

FEW = Resampling(seed=6, repetitions=200)


@pytest.mark.parametrize("centre", CUT_BY_CENTRE)
@given(tasks())
def test_counting_gives_what_sorting_gives(centre: Centre, runs: list[list[float]]) -> None:
    """Counting draws gives the interquartile means that sorting every resample gives."""
    scores = TaskScores.from_tasks(runs)
    curves = np.stack([scores.values, -scores.values, scores.values**2])
    positions = np.concatenate(
        [draw(scores.sizes, FEW, block).positions for block in blocks(scores.n, FEW)]
    )
    middle = CENTRES[centre]
    expected = [middle(TaskScores(curve[positions], scores.sizes)) for curve in curves]
    actual = resampled_curves(curves, scores.sizes, FEW, cut=CUT_BY_CENTRE[centre])
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-9)


def test_a_repetition_draws_the_same_runs_at_every_point() -> None:
    """If curves differ by a constant between two points, so do the replicates."""
    runs = np.asarray([1.0, 2.0, 4.0, 8.0, 16.0])
    replicates = resampled_curves(np.stack([runs, runs + 3]), (5,), FEW)
    np.testing.assert_allclose(replicates[1] - replicates[0], 3.0, rtol=1e-12)
    assert replicates[0].std() > 0


@pytest.mark.parametrize("sizes", [(5,) * 8, (4, 5, 6)])
@pytest.mark.parametrize("far", [1e12, -1e12, -1e17, 1e149, -1e149])
def test_a_run_far_away_takes_no_digits_from_the_others(
    sizes: tuple[int, ...], far: float
) -> None:
    """Resamples without the outlier do not depend on its distance."""
    runs = np.random.default_rng(4).normal(1, 0.3, size=sum(sizes))
    runs_with_outlier = runs.copy()
    runs_with_outlier[0] = far
    replicates = resampled_curves(np.stack([runs, runs_with_outlier]), sizes, FEW)
    lacks_outlier = (draw(sizes, FEW, 0).positions > 0).all(axis=-1)
    assert 0 < lacks_outlier.sum() < FEW.repetitions
    np.testing.assert_allclose(
        replicates[1][lacks_outlier], replicates[0][lacks_outlier], rtol=1e-12
    )


@pytest.mark.parametrize("sizes", [(6, 6, 6), (3, 5, 9)])
def test_threads_change_no_byte(sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of threads and of blocks changes no byte."""
    monkeypatch.setattr(bootstrap_indices, "BLOCK", 20 * sum(sizes))
    curves = np.random.default_rng(3).normal(size=(4, sum(sizes)))
    one_thread, three_threads = (resampled_curves(curves, sizes, FEW, threads=n) for n in (1, 3))
    assert one_thread.tobytes() == three_threads.tobytes()
    monkeypatch.setattr(curve_bootstrap, "TOGETHER", 1)
    assert one_thread.tobytes() == resampled_curves(curves, sizes, FEW).tobytes()


def test_many_runs_are_counted_without_overflow() -> None:
    """Counts of more than 16 bits and weights of more than 32 bits do not overflow."""
    generator = np.random.default_rng(1)
    for sizes in ((20_000, 20_000), (997, 1009, 1013, 1019)):
        runs = generator.normal(size=sum(sizes)) + 5
        scores = TaskScores(runs, sizes)
        resampling = Resampling(repetitions=3)
        expected = interquartile_mean(
            TaskScores(
                runs[
                    np.concatenate(
                        [
                            draw(sizes, resampling, b).positions
                            for b in blocks(scores.n, resampling)
                        ]
                    )
                ],
                sizes,
            )
        )
        actual = resampled_curves(runs[np.newaxis], sizes, resampling)[0]
        np.testing.assert_allclose(actual, expected, rtol=1e-10)
