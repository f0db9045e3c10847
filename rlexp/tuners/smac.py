"""Bayesian optimisation with a random forest, as in SMAC."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Interval
from numpy.typing import NDArray

from rlexp.errors import ConfigError
from rlexp.protocol.identity import Identity, canonical
from rlexp.records.trial import Trial
from rlexp.stats.sensitivity.regression_forest import ForestPredictor, UnitGrid, bagged, grow
from rlexp.tuners import Problem, Suggester, Suggestion
from rlexp.tuners.conditional_cube import ConditionalCube
from rlexp.tuners.trial_values import is_scored, model_values
from rlexp.tuners.unit_cube import check_sobol_point, random_point, sobol_point, trial_generator

Numbers = NDArray[np.float64]

MOST_TRIALS = 1_000
"""Most trials in the forest, the latest ones, which bounds the time of a suggestion."""
CENTRES, ROUNDS = 10, 3
"""Points whose neighbours are tried, and how often the best ones become the next centres."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SMAC:
    """Fits a random forest to the trials and suggests where it expects to improve most.

    The method is that of SMAC (Hutter et al., 2011; Lindauer et al., 2022): a forest of few trees
    (Breiman, 2001), the expected improvement of a normal distribution with the mean and the variance of
    the forest, a search among random points and the neighbours of the best ones, and random
    suggestions between the others. Scores enter as normal scores of their ranks, so that the scale of
    the returns has no influence. Pruned trials rank at the lower quartile of the complete ones, failed
    trials below all others. An inactive parameter has a cell of its own.

    Trials of earlier sweeps enter as normal scores of their standings. They take the place of the
    points at the start, and each tree draws as many of them as there were such points: the more
    trials the sweep has, the less they count.

    Attributes:
        startup: Number of first trials that are points of a Sobol' sequence.
        trees: Number of trees.
        random: Probability of a random suggestion after the start.
        candidates: Number of random points at which the expected improvement is computed.
    """

    identity: ClassVar = Identity("tuner", "smac")

    startup: Annotated[int, Ge(1)]
    trees: Annotated[int, Ge(2)]
    random: Annotated[float, Interval(ge=0, le=1)]
    candidates: Annotated[int, Ge(1)]

    def open(self, problem: Problem) -> Suggester:
        """A suggester for a problem.

        Raises:
            ConfigError: The problem has several objectives, or more parameters than a Sobol' sequence
                has dimensions.
        """
        if problem.objectives > 1:
            raise ConfigError(
                "tuner=smac takes one objective; tuner=tpe, tuner=gp and tuner=nsga2 take several"
            )
        check_sobol_point(len(problem.space.parameters), 1)
        return _ForestSuggester(self, problem)


@dataclass(frozen=True)
class _ForestSuggester:
    tuner: SMAC
    problem: Problem
    _encodings: "dict[int, EncodedTrial]" = field(default_factory=dict)

    @cached_property
    def cube(self) -> "ConditionalCube":
        """The unit cube of the space with its conditions."""
        return ConditionalCube(self.problem.space)

    def needs(self, number: int) -> int:
        """0: with too few trials, the suggestion is a Sobol' point."""
        del number
        return 0

    def suggest(self, trials: Sequence[Trial], number: int) -> Suggestion:
        """The point of the greatest expected improvement; at the start, a Sobol' point."""
        space, seed = self.problem.space, self.problem.seed
        observed = self._observed(trials)
        startup = 1 if self.problem.earlier else self.tuner.startup
        enough = len(observed) >= startup and any(map(is_scored, observed))
        if number <= startup or not enough:
            point = sobol_point(len(space.parameters), seed, number)
            return Suggestion(space.decode(point.tolist()))
        generator = trial_generator(seed, number)
        if generator.random() < self.tuner.random:
            return Suggestion(space.decode(generator.random(len(space.parameters)).tolist()))
        tried = {self._encoded(trial).key for trial in observed}
        for point in self._promising(observed, generator):
            parameters = space.decode(point.tolist())
            if canonical(parameters) not in tried:
                return Suggestion(parameters)
        # All candidates have been tried, as in a space of few choices.
        return Suggestion(space.decode(random_point(len(space.parameters), seed, number).tolist()))

    def _observed(self, trials: Sequence[Trial]) -> list[Trial]:
        """The trials of the model: those at the full budget, in order of their numbers."""
        full = [trial for trial in trials if trial.steps >= self.problem.steps]
        return sorted(full, key=lambda trial: trial.number)[-MOST_TRIALS:]

    @cached_property
    def _earlier(self) -> tuple[Numbers, Numbers]:
        """Points and normal scores of the trials of earlier sweeps."""
        from scipy.special import ndtri

        rows = [self.problem.space.encode(trial.parameters) for trial in self.problem.earlier]
        standings = [trial.standing for trial in self.problem.earlier]
        return np.array(rows, dtype=np.float64), np.asarray(ndtri(standings), dtype=np.float64)

    def _drawn_earlier(self, generator: np.random.Generator) -> NDArray[np.intp]:
        """The earlier trials that each tree draws, of shape (trees, startup)."""
        size = (self.tuner.trees, self.tuner.startup)
        return generator.integers(len(self.problem.earlier), size=size)

    def _encoded(self, trial: Trial) -> "EncodedTrial":
        """A trial in the form of the model; each is encoded once."""
        encoded = self._encodings.get(trial.number)
        if encoded is None or encoded.trial is not trial:
            point = self.cube.points([trial])[0]
            encoded = EncodedTrial(trial, point, canonical(trial.parameters))
            self._encodings[trial.number] = encoded
        return encoded

    def _promising(self, trials: Sequence[Trial], generator: np.random.Generator) -> Numbers:
        """Candidates by expected improvement, the greatest first, of shape (points, parameters)."""
        points = np.array([self._encoded(trial).point for trial in trials])
        values = normal_scores(model_values(trials))
        best_value, draws = (
            values.max(),
            bagged(np.arange(len(values)), self.tuner.trees, generator),
        )
        if self.problem.earlier:
            draws = np.concatenate([draws, len(values) + self._drawn_earlier(generator)], axis=1)
            points = np.concatenate([points, self._earlier[0]])
            values = np.concatenate([values, self._earlier[1]])
        grid = UnitGrid(self.cube.cells(points), self.cube.sizes)
        predictor = ForestPredictor.of(grow(grid, values, draws), grid, values)

        def improvement(candidates: Numbers) -> Numbers:
            prediction = predictor.predict(self.cube.cells(candidates))
            return log_expected_improvement(prediction.mean, prediction.variance, best_value)

        best = np.argsort(-values, kind="stable")[:CENTRES]
        drawn = generator.random((self.tuner.candidates, points.shape[1]))
        candidates = np.concatenate([np.nan_to_num(points[best], nan=0.5), drawn])
        gains = improvement(candidates)
        for _ in range(ROUNDS):
            centres = candidates[np.argsort(-gains, kind="stable")[:CENTRES]]
            near = self.cube.neighbours(centres, generator)
            candidates = np.concatenate([candidates, near])
            gains = np.concatenate([gains, improvement(near)])
        # Points of the same leaves have the same improvement: their order is random.
        order = generator.permutation(len(candidates))
        return np.asarray(candidates[order][np.argsort(-gains[order], kind="stable")])


@dataclass(frozen=True, slots=True)
class EncodedTrial:
    """A trial with its point in the unit cube and its parameters as canonical JSON."""

    trial: Trial
    point: Numbers
    key: str


def normal_scores(values: Numbers) -> Numbers:
    """Normal scores of ranks (Blom, 1958), of shape (values,): Φ⁻¹((rank − 3/8) / (n + 1/4)).

    Ties get their mean rank.
    """
    from scipy.special import ndtri

    _, position, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    ranks = (last - (count - 1) / 2)[position]
    return np.asarray(ndtri((ranks - 0.375) / (len(values) + 0.25)), dtype=np.float64)


def log_expected_improvement(mean: Numbers, variance: Numbers, best: float) -> Numbers:
    """Logarithm of the expected improvement of normal predictions over a value.

    With z = (mean − best) / σ, the expected improvement is σ (φ(z) + z Φ(z)) (Jones et al., 1998). The
    logarithm stays exact where the improvement is too small for a float (Ament et al., 2023).

    Args:
        mean: Of the predictions, of shape (points,).
        variance: Of the predictions, of the same shape.
        best: The value that must be exceeded.
    """
    from scipy.special import erfcx

    deviation = np.sqrt(np.maximum(variance, 1e-12))
    z = (mean - best) / deviation
    density = -0.5 * z**2 - 0.5 * np.log(2 * np.pi)
    # φ(z) + z Φ(z) = φ(z) (1 + z √(π/2) erfcx(−z / √2)), where erfcx overflows for large z only.
    small = np.minimum(z, 5.0)
    factor = 1 + small * np.sqrt(np.pi / 2) * erfcx(-small / np.sqrt(2))
    below = density + np.log(np.maximum(factor, 1e-300))
    return np.asarray(np.log(deviation) + np.where(z < 5, below, np.log(np.maximum(z, 1.0))))
