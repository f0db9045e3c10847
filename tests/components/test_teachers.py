"""Properties of every teacher, tested on every yaml file, and the purpose of each teacher."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from in_full import long
from taught_environments import TEACHERS, Student, teacher

from rlexp.components.teachers import Array, Lessons, alp_gmm, mbtl
from rlexp.components.teachers.alp_gmm import Mixture, fit
from rlexp.components.teachers.task_history import TeacherHistory
from rlexp.errors import ConfigError

QUICK: dict[str, dict[str, Any]] = {
    "alp_gmm": {"fit_every": 20, "gaussians": 3},
    "iwocs": {"train_episodes": 5, "candidates": 8, "evaluations": 1},
    # Contexts of a stage repeat: most are random here.
    "mbtl": {"stage_episodes": 10, "random_share": 0.8},
}
"""Settings with which a teacher begins to choose tasks after a few episodes."""


def box(dimensions: int) -> tuple[Array, Array]:
    """Bounds whose dimensions have different units."""
    low = np.array([0.0, -1e-3, 5.0, -400.0, 1e6])[:dimensions]
    return low, low + np.array([1.0, 1e-3, 0.5, 1000.0, 1e6])[:dimensions]


def begin_lessons(name: str, low: Array, high: Array, seed: int = 1, **changes: Any) -> Lessons:
    """The lessons of a teacher with quick settings and changes."""
    settings = {**QUICK.get(name, {}), **changes}
    result: Lessons = teacher(name, **settings).begin(low, high, np.random.default_rng(seed))
    return result


def teach(lessons: Lessons, episodes: int, play: Callable[[Array], float]) -> Array:
    """Teach some episodes and return their tasks, of the shape (episodes, dimensions)."""
    tasks = []
    for _ in range(episodes):
        tasks.append(lessons.propose())
        lessons.learn(tasks[-1], play(tasks[-1]))
    return np.stack(tasks)


@pytest.mark.parametrize("dimensions", [1, 2, 5])
@pytest.mark.parametrize("name", TEACHERS)
def test_proposals_stay_in_the_box(name: str, dimensions: int) -> None:
    """Proposals stay within the bounds, even if a corner pays most."""
    low, high = box(dimensions)

    tasks = teach(begin_lessons(name, low, high), 100, lambda task: float(task[-1] - low[-1]))

    assert (100, dimensions) == tasks.shape
    assert np.float64 == tasks.dtype
    assert (low <= tasks).all()
    assert (tasks <= high).all()
    assert len(np.unique(tasks, axis=0)) > 50


@pytest.mark.parametrize("name", TEACHERS)
def test_the_generator_decides(name: str) -> None:
    """Equal seeds and outcomes give equal tasks bit for bit; another seed gives others."""
    low, high = box(2)

    def tasks(seed: int) -> list[list[float]]:
        result = teach(
            begin_lessons(name, low, high, seed), 100, lambda task: float(np.sin(9 * task[0]))
        )
        return result.tolist()  # type: ignore[no-any-return]

    assert tasks(1) == tasks(1)
    assert tasks(1) != tasks(2)


@pytest.mark.parametrize("name", TEACHERS)
def test_outcomes_that_are_no_numbers_are_ignored(name: str) -> None:
    """Outcomes that are not finite do not change later proposals."""
    low, high = box(2)
    first, second = (begin_lessons(name, low, high) for _ in range(2))
    for outcome in np.random.default_rng(0).normal(size=100):
        task = first.propose()
        assert task.tolist() == second.propose().tolist()
        for lessons in (first, second):
            lessons.learn(task, float(outcome))
        for invalid_outcome in (np.nan, np.inf, -np.inf):
            second.learn(task, invalid_outcome)


@pytest.mark.parametrize("name", TEACHERS)
def test_memory_is_bounded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice as many episodes use no more memory."""
    monkeypatch.setattr(alp_gmm, "MOST", 200)
    monkeypatch.setattr(mbtl, "MOST_STAGES", 20)
    changes: dict[str, Any] = {"window": 200} if name == "success_rate" else {}
    lessons = begin_lessons(name, *box(3), **changes)
    sizes = []
    for _ in range(2):
        teach(lessons, 400, lambda task: float(task[0]))
        sizes.append(len(pickle.dumps(lessons)))
    # The number of fitted components differs from one fit to the next.
    assert abs(sizes[1] - sizes[0]) < 1000


@pytest.mark.parametrize("play", [lambda _: 3.0, lambda _: 0.0], ids=["all alike", "nothing"])
@pytest.mark.parametrize("name", TEACHERS)
def test_equal_outcomes_keep_tasks_spread(name: str, play: Callable[[Array], float]) -> None:
    """Equal outcomes and a fixed dimension keep tasks spread over the others."""
    low, high = np.array([0.0, 2.0]), np.array([1.0, 2.0])

    tasks = teach(begin_lessons(name, low, high), 200, play)

    assert {2.0} == set(tasks[:, 1])
    assert np.ptp(tasks[100:, 0]) > 0.8


@pytest.mark.parametrize("name", TEACHERS)
def test_tasks_other_than_proposals_are_learnt_from(name: str) -> None:
    """A played task may differ from the proposal and lie outside of the bounds."""
    low, high = box(2)
    lessons = begin_lessons(name, low, high)
    for outcome in range(60):
        lessons.learn(high + 1.0, float(outcome))
    assert (lessons.propose() <= high).all()


UNIT = np.zeros(2), np.ones(2)


def share(tasks: Array, low: float, high: float) -> float:
    """The share of tasks whose first dimension is between two numbers."""
    return float(np.mean((tasks[:, 0] >= low) & (tasks[:, 0] <= high)))


@pytest.mark.parametrize(("seed", "sign"), [(0, 1.0), pytest.param(1, 1.0, marks=long), (2, -1.0)])
def test_alp_gmm_seeks_progress(seed: int, sign: float) -> None:
    """Most tasks come from the fifth of the box in which outcomes change."""
    shares = {}
    for name in ("alp_gmm", "random"):
        changes: dict[str, Any] = {"fit_every": 100, "gaussians": 10} if name == "alp_gmm" else {}
        student = Student(0.7, 0.9, practice=1500)
        lessons = begin_lessons(name, *UNIT, seed, **changes)
        tasks = teach(lessons, 1000, lambda task, student=student: sign * student.play(task))  # type: ignore[misc]
        shares[name] = share(tasks[500:], 0.7, 0.9)
    assert shares["random"] < 0.27
    assert shares["alp_gmm"] > 0.7


def test_mixture_is_fitted_every_so_many_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mixture is fitted to the newest episodes, with scaled progress."""
    fitted_points: list[Array] = []

    def spy(points: Array, gaussians: int, seed: int) -> Mixture:
        fitted_points.append(points)
        return fit(points, gaussians, seed)

    monkeypatch.setattr(alp_gmm, "fit", spy)
    lessons = begin_lessons("alp_gmm", *UNIT)
    # All outcomes are at one place, so that each is compared with the one before.
    for outcome in range(59):
        lessons.learn(np.array([0.5, 0.5]), 7.0 * outcome)

    assert [(20, 3), (20, 3)] == [points.shape for points in fitted_points]
    assert [0.0, *[1 / 19] * 19] == pytest.approx(fitted_points[0][:, -1])
    assert [1 / 39] * 20 == pytest.approx(fitted_points[1][:, -1])


def test_gaussians_are_drawn_by_their_progress() -> None:
    """Components are drawn in proportion to progress; without progress, uniformly."""
    means, covariances = np.array([[0.2], [0.8]]), np.full((2, 1, 1), 1e-6)
    generator = np.random.default_rng(0)
    for progress, expected in (([3.0, 1.0], 0.75), ([0.0, 0.0], 0.5)):
        mixture = Mixture(np.array(progress), means, covariances)
        points = np.stack([mixture.draw(generator) for _ in range(2000)])
        assert share(points, 0.1, 0.3) == pytest.approx(expected, abs=0.04)


def test_number_of_gaussians_is_found() -> None:
    """Three clusters of points give three components, each with its progress."""
    generator = np.random.default_rng(0)
    centres = [(0.1, 0.0), (0.5, 0.8), (0.9, 0.1)]
    points = np.concatenate([generator.normal(centre, 0.01, (80, 2)) for centre in centres])

    mixture = fit(points, 4, seed=0)

    assert [0.0, 0.1, 0.8] == pytest.approx(sorted(mixture.progress), abs=0.01)
    assert (3, 1) == mixture.means.shape


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=long) for n in (1, 2))])
def test_success_rate_seeks_intermediate_difficulty(seed: int) -> None:
    """Tasks stay between 0.5 and 0.7, where some attempts succeed and some fail."""
    generator = np.random.default_rng(seed + 100)

    def play(task: Array) -> float:
        return float(generator.random() < np.clip((0.7 - task[0]) / 0.2, 0.0, 1.0))

    tasks = teach(begin_lessons("success_rate", *UNIT, seed), 600, play)

    assert share(tasks[200:], 0.45, 0.75) > 0.7


def test_success_is_from_a_bound_on() -> None:
    """Without a bound, the middle of the outcomes in memory separates success and failure."""
    low, high = UNIT

    def median_task(bound: float | None) -> float:
        lessons = begin_lessons("success_rate", low, high, success_from=bound, random_share=0.0)
        return float(np.median(teach(lessons, 500, lambda task: 100 * task[0])[200:, 0]))

    assert median_task(None) == pytest.approx(0.5, abs=0.1)
    assert median_task(80.0) == pytest.approx(0.8, abs=0.06)


@pytest.mark.parametrize("usual_outcome", [0.0, 1.0])
def test_success_rate_takes_the_nearest_to_its_bounds(usual_outcome: float) -> None:
    """If all tasks are too hard it takes the easiest tasks; if too easy, the hardest."""
    lessons = begin_lessons(
        "success_rate", *UNIT, success_from=0.5, random_share=0.0, neighbours=20
    )
    for step in np.linspace(0, 1, 400):
        # Only on the left, one in twenty has the other outcome.
        exception = step < 0.5 and int(step * 399) % 20 == 0
        lessons.learn(np.array([step, 0.5]), 1 - usual_outcome if exception else usual_outcome)

    tasks = np.stack([lessons.propose() for _ in range(50)])

    assert share(tasks, 0.0, 0.55) == 1.0


def test_bounds_of_outcomes_clip() -> None:
    """Outcomes beyond the declared best give no progress."""
    shares = []
    for best in (1.0, None):
        lessons = begin_lessons(
            "alp_gmm", *UNIT, worst=0.0, best=best, random_share=0.0, fit_every=100
        )
        tasks = teach(lessons, 600, Rising(0.6, 1.0))
        shares.append(share(tasks[200:], 0.6, 1.0))
    clipped_share, unclipped_share = shares
    assert clipped_share < 0.55
    assert unclipped_share > 0.7


class Rising:
    """Pays 1 and more between two numbers, and little elsewhere."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high, self.played = low, high, 0

    def __call__(self, task: Array) -> float:
        self.played += 1
        inside = self.low <= task[0] <= self.high
        return 1.0 + self.played if inside else 0.5 + 0.4 * (self.played % 2)


def test_history_forgets_the_oldest() -> None:
    """The memory drops the oldest points, and prefers the newest of equally near ones."""
    history = TeacherHistory(1, 4)
    for point, outcome in ((0.5, 0.0), (0.1, 1.0), (0.9, 2.0), (0.1, 3.0), (0.8, 4.0)):
        history.add(np.array([point]), outcome)
    assert [1.0, 2.0, 3.0, 4.0] == history.outcomes.tolist()
    assert [[2, 0, 3], [1, 3, 2]] == history.nearest(np.array([[0.0], [1.0]]), 3).tolist()


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("alp_gmm", {"worst": 2.0, "best": 1.0}, "worst=2.0 must be less than best=1.0"),
        ("alp_gmm", {"gaussians": 1}, "gaussians"),
        ("alp_gmm", {"worst": float("inf")}, "worst"),
        ("success_rate", {"minimum": 0.9, "maximum": 0.1}, "must not exceed maximum=0.1"),
        ("success_rate", {"neighbours": 600}, "must not exceed window=500"),
        ("success_rate", {"random_share": 1.5}, "random_share"),
        ("random", {"fit_every": 250}, "fit_every"),
    ],
)
def test_settings_that_do_not_fit_are_refused(
    name: str, changes: dict[str, Any], message: str
) -> None:
    """The error is one line that names the setting."""
    with pytest.raises(ConfigError, match=message) as caught:
        teacher(name, **changes)
    assert "\n" not in str(caught.value)
