"""The teacher ALP-GMM: proposes more tasks where the outcomes of the learner change."""

from dataclasses import dataclass
from importlib.util import find_spec
from math import inf, isfinite
from typing import Annotated, Any, ClassVar
from warnings import catch_warnings, simplefilter

import numpy as np
from annotated_types import Interval

from rlexp.components.teachers import Array, Lessons
from rlexp.components.teachers.task_history import TeacherHistory, UnitBox
from rlexp.components.teachers.taught import Env, taught
from rlexp.environments import Stage
from rlexp.errors import ConfigError
from rlexp.installation_way import install_command
from rlexp.protocol.identity import Identity

MOST = 10_000
"""Number of newest tasks among which the nearest is searched; the paper keeps all tasks."""
FEWEST = 2
"""Smallest number of components of a mixture."""
PARTS = ("progress", "means", "covariances")
"""The arrays of a mixture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlpGmm:
    """A mixture of Gaussians over tasks and their absolute learning progress (ALP).

    Portelas et al. 2019, algorithms 1 and 2. The progress of an episode is the absolute difference
    between its outcome and that of the nearest earlier task. Every `fit_every` episodes a mixture
    is fitted to the newest ones, with the number of components that is best by Akaike's criterion. A
    component is drawn in proportion to its mean progress, and a task from that component. Tasks are
    scaled to the unit cube, and progress by the range of outcomes.
    """

    identity: ClassVar = Identity("teacher", "alp_gmm")
    splits: ClassVar = False
    """A teacher does not change evaluation."""

    outcome: str
    """Outcome of an episode: `return`, or the name of a measure (`success`)."""
    worst: Annotated[float, Interval(gt=-inf, lt=inf)] | None
    """Outcome that is scaled to 0, as are lower ones; null takes the lowest outcome in memory."""
    best: Annotated[float, Interval(gt=-inf, lt=inf)] | None
    """Outcome that is scaled to 1, as are higher ones; null takes the highest outcome in memory."""
    fit_every: Annotated[int, Interval(ge=20, le=10_000)]
    """Episodes between two fits, N; tasks are random until the first fit."""
    gaussians: Annotated[int, Interval(ge=FEWEST, le=20)]
    """Largest number of components of the mixture."""
    random_share: Annotated[float, Interval(ge=0, le=1)]
    """Share of tasks that are drawn uniformly."""
    shared: bool | None = None
    """Whether one teacher hears of all episodes of the run; null: each environment has one, which
    is what teachers were before this setting."""

    def __post_init__(self) -> None:
        if self.worst is not None and self.best is not None and self.worst >= self.best:
            raise ConfigError(f"component.worst={self.worst} must be less than best={self.best}")

    def wrap(self, environment: Env, stage: Stage) -> Env:
        """Return the environment with contexts from this teacher for training, else unchanged."""
        if stage is Stage.TRAINING and find_spec("sklearn") is None:
            raise ConfigError.missing_package(
                "teacher=alp_gmm needs a package that is not installed",
                install_command("curriculum"),
            )
        return taught(environment, stage, self, self.outcome)

    def acts_from(self) -> int:
        """The step before which there is no mixture: of the run, or of one environment."""
        return self.fit_every

    def begin(self, low: Array, high: Array, generator: np.random.Generator) -> Lessons:
        """Return new lessons."""
        return AlpGmmLessons(self, UnitBox(low, high), generator)


@dataclass(frozen=True, slots=True)
class Mixture:
    """Gaussians over points of the unit cube, each with its mean progress."""

    progress: Array
    """Mean progress of each component, not negative (components)."""
    means: Array
    """Shape: components × dimensions."""
    covariances: Array
    """Shape: components × dimensions × dimensions."""

    def draw(self, generator: np.random.Generator) -> Array:
        """Draw a component in proportion to its progress, and a point of it (dimensions)."""
        total = self.progress.sum()
        chances = self.progress / total if total > 0 else None
        chosen = generator.choice(len(self.progress), p=chances)
        return generator.multivariate_normal(self.means[chosen], self.covariances[chosen])


def fit(points: Array, gaussians: int, seed: int) -> Mixture:
    """Fit mixtures of 2 to `gaussians` components, and return the best by Akaike's criterion.

    Args:
        points: Points of the unit cube with their progress (points × (dimensions + 1)).
        gaussians: Largest number of components; at most the number of points.
        seed: Seed of the initial values.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture
    from threadpoolctl import threadpool_limits

    # One thread, because the order of sums over threads would change their last bits.
    with threadpool_limits(1), catch_warnings():
        simplefilter("ignore", ConvergenceWarning)
        numbers = range(FEWEST, gaussians + 1)
        fitted = [GaussianMixture(number, random_state=seed).fit(points) for number in numbers]
        best = min(fitted, key=lambda mixture: mixture.aic(points))
    return Mixture(
        # Rounding may make a mean slightly negative, which is not valid as a probability.
        progress=np.maximum(best.means_[:, -1], 0.0),
        means=best.means_[:, :-1],
        # The last dimension is the progress, which is not part of a task.
        covariances=best.covariances_[:, :-1, :-1],
    )


class AlpGmmLessons:
    """The memory and the mixture of ALP-GMM."""

    def __init__(self, teacher: AlpGmm, box: UnitBox, generator: np.random.Generator) -> None:
        self._teacher, self._box, self._generator = teacher, box, generator
        self._history = TeacherHistory(len(box.low), MOST)
        self._progress: list[float] = []
        self._mixture: Mixture | None = None
        self.acted = 0
        """Tasks that were drawn from a mixture."""

    def propose(self) -> Array:
        """Draw a task from the mixture, or uniformly for a random share and before the first fit."""
        if self._mixture is None or self._generator.random() < self._teacher.random_share:
            return self._box.task(self._generator.random(len(self._box.low)))
        self.acted += 1
        return self._box.task(self._mixture.draw(self._generator))

    def learn(self, task: Array, outcome: float) -> None:
        """Add the progress since the nearest earlier task; fit a mixture when it is due."""
        if not isfinite(outcome):
            return
        teacher, point = self._teacher, self._box.scaled(task)
        worst, best = (-inf if teacher.worst is None else teacher.worst), teacher.best
        clipped = min(max(outcome, worst), inf if best is None else best)
        # Before `add`, because the nearest task must be an earlier one.
        self._progress.append(self._progress_of(point, clipped))
        self._history.add(point, clipped)
        if len(self._progress) == teacher.fit_every:
            self._fit()
            self._progress.clear()

    def state(self) -> dict[str, Any]:
        """Return the memory, the mixture and the count of what was drawn from mixtures."""
        mixture = self._mixture
        return {
            "history": self._history.state(),
            "progress": np.asarray(self._progress, dtype=np.float64),
            "mixture": None if mixture is None else {n: getattr(mixture, n) for n in PARTS},
            "acted": self.acted,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from the result of `state`."""
        self._history.restore(state["history"])
        self._progress = state["progress"].tolist()
        mixture = state["mixture"]
        self._mixture = None if mixture is None else Mixture(**{n: mixture[n] for n in PARTS})
        self.acted = state["acted"]

    def _progress_of(self, point: Array, outcome: float) -> float:
        if len(self._history) == 0:
            return 0.0
        ((nearest,),) = self._history.nearest(point[np.newaxis], 1)
        return abs(outcome - float(self._history.outcomes[nearest]))

    def _fit(self) -> None:
        outcomes = self._history.outcomes
        worst = outcomes.min() if self._teacher.worst is None else self._teacher.worst
        best = outcomes.max() if self._teacher.best is None else self._teacher.best
        progress = np.asarray(self._progress) / (best - worst if best > worst else 1.0)
        points = self._history.points[-len(progress) :]
        # scikit-learn takes a seed, drawn here so that equal runs fit equal mixtures.
        seed = int(self._generator.integers(2**31))
        self._mixture = fit(np.column_stack([points, progress]), self._teacher.gaussians, seed)
