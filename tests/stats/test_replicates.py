"""Resampled statistics: the drawn runs, and equal bytes by every way to compute them."""

import time
from collections import Counter
from functools import partial
from random import Random

import numpy as np
import pytest
from aggregate_cases import every_statistic, tasks
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rlexp.stats import block_threads, bootstrap_indices, replicates
from rlexp.stats.bootstrap_indices import blocks, draw
from rlexp.stats.replicates import ExactSums, exact_sums_possible
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores

SIZES = [(5,), (4, 4, 4), (1, 3, 2), (7, 5, 9, 8)]


def normal_scores(sizes: tuple[int, ...], seed: int = 0) -> TaskScores:
    """Normal scores of tasks of these sizes."""
    generator = np.random.default_rng(seed)
    return TaskScores.from_tasks([generator.normal(size=size) for size in sizes])


def resampled(
    scores: TaskScores, resampling: Resampling, **options: int
) -> dict[str, list[float]]:
    """Replicates of all four aggregates."""
    by_name = replicates.replicates(scores, every_statistic(), resampling, **options)
    return {name: values.tolist() for name, values in by_name.items()}


@pytest.mark.parametrize("sizes", SIZES)
def test_whole_numbers_lose_nothing(sizes: tuple[int, ...]) -> None:
    """Sums in whole numbers equal the aggregates of the drawn scores, up to rounding."""
    # rlexp knows nothing about a partial function, so it calls it with the drawn scores
    scores, resampling = normal_scores(sizes), Resampling(repetitions=300)
    partials = {name: partial(statistic) for name, statistic in every_statistic().items()}
    expected = replicates.replicates(scores, partials, resampling)
    actual = replicates.replicates(scores, every_statistic(), resampling)
    for name, values in expected.items():
        assert values == pytest.approx(actual[name], rel=1e-13, abs=1e-14)


@pytest.mark.parametrize("scale", [1e-300, 1e-9, 1e9, 1e150])
def test_scores_may_be_of_any_size(scale: float) -> None:
    """Very small and very large scores have the same replicates in their unit."""
    small, resampling = normal_scores((4, 3)), Resampling(repetitions=50)
    large = TaskScores(small.values * scale, small.sizes)
    expected = replicates.replicates(small, {"": every_statistic()["iqm"]}, resampling)[""]
    actual = replicates.replicates(large, {"": every_statistic()["iqm"]}, resampling)[""]
    assert expected == pytest.approx(actual / scale, rel=1e-12)


@pytest.mark.parametrize("name", ["iqm", "exact_iqm", "mean", "median"])
@pytest.mark.parametrize("sizes", [(5,) * 8, (4, 5, 6)])
@pytest.mark.parametrize("far", [1e12, -1e17, 1e149])
def test_a_score_far_away_takes_no_digits_from_the_others(
    name: str, sizes: tuple[int, ...], far: float
) -> None:
    """Resamples without the outlier do not depend on its distance."""
    scores, resampling = normal_scores(sizes), Resampling(repetitions=300)
    values_with_outlier = scores.values.copy()
    values_with_outlier[0] = far
    expected = replicates.replicates(scores, {"": every_statistic()[name]}, resampling)[""]
    actual = replicates.replicates(
        TaskScores(values_with_outlier, sizes), {"": every_statistic()[name]}, resampling
    )[""]
    lacks_outlier = (bootstrap_indices.draw(sizes, resampling, 0).positions > 0).all(axis=-1)
    assert 0 < lacks_outlier.sum() < 300
    assert expected[lacks_outlier] == pytest.approx(actual[lacks_outlier], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.0, 0.0], True),
        ([-1.0, 0.0, 2.0**20], True),
        ([1.0, 1.0, 1.0, -(2.0**21)], False),
        ([2.0**-29, 1.0, 1.0], True),
        ([2.0**-31, 1.0, 1.0], False),
        ([1.0, -1e17, 1e17, 1e17, -1e17], False),
    ],
)
def test_whole_numbers_take_scores_that_are_near_in_size(
    values: list[float], expected: bool
) -> None:
    """Exact sums are impossible if a large score would cost a small one its digits."""
    assert expected == exact_sums_possible(TaskScores(np.asarray(values), (len(values),)))


@pytest.mark.parametrize("sizes", SIZES)
def test_threads_change_no_byte(sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of threads changes no byte, because each block has its own generator."""
    monkeypatch.setattr(bootstrap_indices, "BLOCK", 64)
    scores, resampling = normal_scores(sizes), Resampling(repetitions=500)
    assert resampled(scores, resampling, threads=1) == resampled(scores, resampling, threads=4)


@settings(deadline=None)
@given(tasks(), st.randoms(), st.integers(0, 2**32))
def test_the_order_of_the_runs_does_not_matter(
    runs: list[list[float]], random: Random, seed: int
) -> None:
    """Runs in another order give the same replicates to the last bit."""
    resampling = Resampling(seed=seed, repetitions=40)
    shuffled = [random.sample(task, len(task)) for task in runs]
    expected = resampled(TaskScores.from_tasks(runs), resampling)
    assert expected == resampled(TaskScores.from_tasks(shuffled), resampling)


def test_more_repetitions_continue_the_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    """With more repetitions, the complete blocks of fewer repetitions stay the same."""
    monkeypatch.setattr(bootstrap_indices, "BLOCK", 60)
    scores = normal_scores((3, 3))
    few = resampled(scores, Resampling(repetitions=20))
    many = resampled(scores, Resampling(repetitions=75))
    assert few == {name: values[:20] for name, values in many.items()}


def test_another_seed_draws_other_runs() -> None:
    """Another seed gives other replicates."""
    scores = normal_scores((6, 6))
    first = resampled(scores, Resampling(seed=1, repetitions=20))
    assert first == resampled(scores, Resampling(seed=1, repetitions=20))
    assert first != resampled(scores, Resampling(seed=2, repetitions=20))


def test_no_block_repeats_another() -> None:
    """Each block has its own generator, which draws the same in every call."""
    first, second, again = (
        bootstrap_indices.draw((9,), Resampling(), block).bits for block in (0, 1, 1)
    )
    assert first.tolist() != second.tolist()
    assert second.tolist() == again.tolist()


def test_runs_are_drawn_within_their_task() -> None:
    """Every run of a task is drawn about equally often, by a χ² test."""
    draws = bootstrap_indices.draw((2, 1, 7), Resampling(repetitions=10_000), 0)
    assert (10_000, 10) == draws.positions.shape
    for low, high in ((0, 2), (2, 3), (3, 10)):
        cells = draws.positions[:, low:high]
        counts = np.bincount(cells.ravel() - low, minlength=high - low)
        expected = cells.size / (high - low)
        assert high - low == len(counts)
        # 22.46 is exceeded once in a thousand times with six degrees of freedom
        assert ((counts - expected) ** 2 / expected).sum() < 22.46


def test_runs_of_a_resample_are_independent() -> None:
    """All 27 resamples of three runs are drawn about equally often."""
    positions = bootstrap_indices.draw((3,), Resampling(repetitions=27_000), 0).positions
    counts = Counter(map(tuple, positions.tolist()))
    assert 27 == len(counts)
    # 54.05 is exceeded once in a thousand times with 26 degrees of freedom
    assert sum((count - 1000) ** 2 / 1000 for count in counts.values()) < 54.05


def test_a_word_draws_its_share_of_the_runs() -> None:
    """A word w draws run ⌊w n / 2³²⌋: the first and last word of each third draw one run."""
    third = 2**32 / 3
    words = [0, int(third), int(third) + 1, int(2 * third), int(2 * third) + 1, 2**32 - 1]
    drawn_runs = bootstrap_indices.Draws(
        np.asarray([words], np.uint32).reshape(2, 3), (3,)
    ).positions
    assert [[0, 0, 1], [1, 2, 2]] == drawn_runs.tolist()


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """No statistic sees more than a block of drawn runs at a time."""
    sizes: list[int] = []

    def largest(scores: TaskScores) -> NDArray[np.float64]:
        sizes.append(scores.values.size)
        return np.asarray(scores.values.max(axis=-1))

    monkeypatch.setattr(bootstrap_indices, "BLOCK", 1000)
    values = replicates.replicates(
        normal_scores((7, 7)), {"": largest}, Resampling(repetitions=999)
    )[""]
    assert 999 * 14 == sum(sizes)
    assert max(sizes) <= 1000
    assert (999,) == values.shape


def test_more_runs_than_a_block_are_drawn_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block holds one repetition at least, even if it has more runs than a block."""
    monkeypatch.setattr(bootstrap_indices, "BLOCK", 3)
    assert 4 == len(resampled(normal_scores((5, 4)), Resampling(repetitions=4))["iqm"])


def test_after_an_error_no_thread_goes_on() -> None:
    """After an error, the remaining blocks are not computed."""
    finished_blocks: list[int] = []

    def work(number: int) -> None:
        if number == 1:
            raise ValueError("block 1")
        time.sleep(0.001)
        finished_blocks.append(number)

    with pytest.raises(ValueError, match="block 1"):
        block_threads.run_blocks(work, range(2_000), 2)
    assert len(finished_blocks) < 500


@pytest.mark.parametrize("n", [20, 21, 300])
@pytest.mark.parametrize("order", [1, -1])
def test_medians_of_sorted_scores_are_those_of_all_drawn_scores(n: int, order: int) -> None:
    """The median by the middle positions has the bits of NumPy's median, for several labels."""
    resampling = Resampling(repetitions=2_000)
    generator = np.random.default_rng(n)
    for values in (generator.normal(size=n), np.round(generator.normal(size=n), 1)):
        scores = TaskScores(np.sort(values)[::order], (n,))
        draws = [draw((n,), resampling, block) for block in blocks(n, resampling)]
        sums = ExactSums.of(scores)
        assert sums.ascending == (order == 1)
        drawn = [sums.scaled(sums.values.take(d.positions)) for d in draws]
        expected = np.concatenate([np.median(runs, axis=-1) * n for runs in drawn])
        assert expected.tobytes() == np.concatenate([sums.median(d) for d in draws]).tobytes()
