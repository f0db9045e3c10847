"""Runs that form two groups with a clear gap are recognised, and others are not."""

import numpy as np
import pytest

from rlexp.stats.two_groups import two_groups


def test_solved_and_failed_runs_are_two_groups() -> None:
    """The groups are the runs below and above the widest gap."""
    groups = two_groups([496.0, 28.0, 42.0, 500.0, 62.0])
    assert groups is not None
    assert ([28.0, 42.0, 62.0], [496.0, 500.0]) == (groups[0].tolist(), groups[1].tolist())


@pytest.mark.parametrize(
    "scores",
    [
        [1.0, 2.0, 100.0],  # a single run far away
        [1.0, 2.0, 3.0, 4.0, 100.0],
        [0.0, 10.0, 40.0, 50.0],  # a gap of 30, three times the width of a group
        [5.0, 5.0, 5.0, 5.0],
        [1.0, 9.0],
    ],
)
def test_other_runs_are_one_group(scores: list[float]) -> None:
    """One run far away, a gap that is not wide enough, and equal runs form no two groups."""
    assert None is two_groups(scores)


def test_normal_runs_seldom_look_like_two_groups() -> None:
    """Few samples of four normal runs have a clear gap, and hardly any of ten."""
    generator = np.random.default_rng(0)
    share = {
        n: np.mean([two_groups(run) is not None for run in generator.normal(size=(1_000, n))])
        for n in (4, 10)
    }
    assert share[4] < 0.1
    assert share[10] < 0.005
