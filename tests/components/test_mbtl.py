"""MBTL: its model of performance and generalisation, and the contexts that it chooses."""

import numpy as np
import pytest
from taught_environments import teacher

from rlexp.components.teachers import Array
from rlexp.components.teachers.mbtl import TrainedContexts, expected_gains, posterior


def test_process_knows_what_it_has_seen() -> None:
    """The mean passes near the observations, and the deviation is small there and large away."""
    points = np.linspace(0, 1, 11)[:, np.newaxis]
    outcomes = 100 * np.sin(3 * points[:, 0])
    mean, deviation = posterior(points, outcomes, np.array([[0.1], [0.5], [2.5]]))
    assert outcomes[[1, 5]] == pytest.approx(mean[:2], abs=5)
    assert deviation[2] > 3 * deviation[:2].max()


def test_gain_by_hand() -> None:
    """Without exploration, a context gains what it adds to the targets near it."""
    trained = TrainedContexts(1, 10)
    trained.add_stage(np.array([0.0]), np.zeros((4, 1)), np.full(4, 10.0))
    targets = np.array([[0.0], [1.0]])
    # The mean is 10 everywhere. At 0 nothing is gained; at 1 the loss of 8 of the target 1; at 0.5
    # the target 1 rises from 2 to 6.
    gains = expected_gains(
        trained, np.array([[0.0], [1.0], [0.5]]), targets, slope=8.0, exploration=0.0
    )
    assert [0.0, 4.0, 2.0] == pytest.approx(gains)


def test_slope_is_that_of_the_other_episodes() -> None:
    """Outcomes that fall by 6 from end to end give the slope 6; rising ones give none."""
    for fall, expected in ((6.0, 6.0), (-6.0, 0.0)):
        trained = TrainedContexts(1, 10)
        points = np.array([[0.0], [0.0], [0.0], [0.5], [1.0], [0.0]])
        trained.add_stage(np.array([0.0]), points, 20 - fall * points[:, 0])
        assert expected == pytest.approx(trained.slope)


def test_stage_counts_by_its_later_half() -> None:
    """The outcome of a stage is the mean of the later half of the episodes in its context."""
    trained = TrainedContexts(1, 10)
    # The context that was asked for is played at the nearest allowed value.
    points = np.array([[0.4], [0.4], [0.9], [0.4], [0.4]])
    trained.add_stage(np.array([0.5]), points, np.array([0.0, 2.0, 99.0, 4.0, 6.0]))
    assert ([[0.4]], [5.0]) == (trained.points.tolist(), trained.outcomes.tolist())


def test_stages_follow_each_other() -> None:
    """A stage begins in the middle; then contexts away from those that were trained on are chosen."""
    lessons = teacher("mbtl", stage_episodes=20, random_share=0.2).begin(
        np.array([0.0]), np.array([10.0]), np.random.default_rng(0)
    )
    chosen = []
    for _ in range(4):
        chosen.append(float(lessons.point[0]))
        played: list[Array] = []
        for _ in range(20):
            played.append(lessons.propose())
            near = min(abs(played[-1][0] / 10 - point) for point in chosen)
            lessons.learn(played[-1], 100 - 100 * near)
        assert sum(abs(task[0] / 10 - chosen[-1]) < 1e-9 for task in played) >= 3
    assert 0.5 == chosen[0]
    assert 4 == lessons.acted
    # Both sides of the middle are trained on.
    assert min(chosen) < 0.3
    assert max(chosen) > 0.7
