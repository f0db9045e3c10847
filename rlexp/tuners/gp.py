"""Bayesian optimisation with a Gaussian process."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from rlexp.protocol.identity import Identity
from rlexp.records.trial import Trial, TrialState
from rlexp.tuners import Problem, Suggester, Suggestion
from rlexp.tuners.unit_cube import check_sobol_point, sobol_point

if TYPE_CHECKING:
    from optuna.samplers import GPSampler
    from optuna.trial import FrozenTrial

    from rlexp.tuners.optuna_trials import Converted, Internal

FAILED = -0.1
"""Where the model puts a failed trial: a little below the worst, at 0, on the way to the best."""
PRUNED = 0.25
"""Which quantile of the complete trials the model takes a pruned one for. Pruners stop about the
worse half; without them, the model would suggest the same again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianProcess:
    """Fits a Gaussian process to the trials and suggests where it expects to improve most.

    Optuna's sampler (Matérn 5/2 kernel, one length scale a parameter, fitted noise), freshly
    seeded for each trial: log expected improvement (Ament et al., 2023), or the logarithm of the
    expected hypervolume improvement where there are several objectives. Parameters that are not
    there stand in the middle of their domains. Pruned trials count as the lower quartile of the
    complete ones; failed ones as a little worse than the worst.

    Attributes:
        startup: Ended trials before which points of a Sobol' sequence are suggested.
        most: Trials that the process is fitted to, for its cost grows with their cube: the best
            half, and the latest of the others.
    """

    identity: ClassVar = Identity("tuner", "gp")

    startup: Annotated[int, Ge(1)]
    most: Annotated[int, Ge(2)]

    def open(self, problem: Problem) -> Suggester:
        """Begin to work on a problem.

        Raises:
            ConfigError: It has more parameters than the first points have dimensions.
        """
        check_sobol_point(len(problem.space.parameters), 1)
        return _Process(self, problem)


@dataclass(frozen=True, slots=True)
class _Observed:
    """A trial as the process sees it; `values` are empty where it was pruned or failed."""

    number: int
    params: "dict[str, Internal]"
    values: tuple[float, ...]
    pruned: bool


@dataclass(slots=True)
class _Process:
    tuner: GaussianProcess
    problem: Problem
    _history: "Converted[_Observed] | None" = None

    @property
    def history(self) -> "Converted[_Observed]":
        """The trials as the process sees them; Optuna is imported at the first suggestion."""
        if self._history is None:
            from rlexp.tuners.optuna_trials import Converted

            self._history = Converted(self._observed)
        return self._history

    def needs(self, number: int) -> int:
        """No trial: with few, the first points go on."""
        del number
        return 0

    def suggest(self, trials: Sequence[Trial], number: int) -> Suggestion:
        """Where the process expects to improve most; a Sobol' point while it knows too little."""
        from rlexp.tuners.optuna_study import ask

        space = self.problem.space
        known = self.history.of(trials)
        enough = len(known) >= self.tuner.startup and any(one.values for one in known)
        if number <= self.tuner.startup or not enough:
            point = sobol_point(len(space.parameters), self.problem.seed, number)
            return Suggestion(space.decode(point.tolist()))
        finished = self._finished(known)
        return Suggestion(ask(self._sampler(number), finished, space, self.problem.objectives))

    def _observed(self, trial: Trial) -> _Observed | None:
        from rlexp.tuners.optuna_trials import finite_values, internals, middles

        params = internals(self.problem.space, trial.parameters)
        if params is None or trial.steps < self.problem.steps:
            return None
        params = {**middles(self.problem.space), **params}
        pruned = trial.state is TrialState.PRUNED
        return _Observed(trial.number, params, finite_values(trial), pruned)

    def _finished(self, known: Sequence[_Observed]) -> "list[FrozenTrial]":
        from rlexp.tuners.optuna_trials import distributions, frozen

        searched = distributions(self.problem.space)
        values = shares([one.values for one in known], [one.pruned for one in known])
        return [
            frozen(known[i].number, known[i].params, searched, values=values[i].tolist())
            for i in kept(values, self.tuner.most)
        ]

    def _sampler(self, number: int) -> "GPSampler":
        from optuna.samplers import GPSampler, RandomSampler

        from rlexp.tuners.optuna_study import sampler_seed

        seed = sampler_seed(self.problem.seed, number)
        return GPSampler(
            seed=seed,
            independent_sampler=RandomSampler(seed=seed),
            n_startup_trials=0,
            deterministic_objective=False,
            constraints_func=None,
            warn_independent_sampling=False,
        )


def shares(values: Sequence[tuple[float, ...]], pruned: Sequence[bool]) -> NDArray[np.float64]:
    """Values as shares of the way from the worst to the best complete trial.

    Args:
        values: Of each trial, greater is better; empty where it is not complete.
        pruned: Whether it was pruned rather than failed, where it is not complete.

    Returns:
        Of shape (trials, objectives).
    """
    complete = np.array([bool(one) for one in values])
    seen = np.array([one for one in values if one])
    # The squares of the greatest numbers are infinite, and so is their distance.
    seen /= np.maximum(np.abs(seen).max(axis=0), np.finfo(float).tiny)
    low, high = seen.min(axis=0), seen.max(axis=0)
    seen = (seen - low) / np.where(high > low, high - low, 1.0)
    found = np.full((len(values), seen.shape[1]), FAILED)
    found[complete] = seen
    found[~complete & np.array(pruned)] = np.quantile(seen, PRUNED, axis=0)
    return found


def kept(values: NDArray[np.float64], most: int) -> list[int]:
    """Which trials are looked at: the best half of `most`, and the latest of the others.

    Args:
        values: Of shape (trials, objectives), in order of the trials' numbers.
        most: How many at most.

    Returns:
        Their positions, ascending. The best are those that the fewest others dominate (the rank
        of Fonseca and Fleming, 1993), earlier ones first among equals.
    """
    if len(values) <= most:
        return list(range(len(values)))
    best = np.argsort(_dominators(values), kind="stable")[: most // 2].tolist()
    others = sorted(set(range(len(values))) - set(best))
    return sorted([*best, *others[len(best) - most :]])


def _dominators(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """How many others are nowhere worse and somewhere better, of shape (trials,)."""
    return np.array(
        [np.sum((values >= one).all(axis=1) & (values > one).any(axis=1)) for one in values]
    )
