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

    from rlexp.tuners.optuna_trials import ConvertedTrials, Internal

FAILED_SHARE = -0.1
"""Value of a failed trial for the model, where the worst complete trial has 0 and the best 1."""
PRUNED_QUANTILE = 0.25
"""Quantile of the complete trials that a pruned trial gets for the model. Pruners stop about the
worse half; without a value for pruned trials, the model would suggest them again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianProcess:
    """Fits a Gaussian process to the trials and suggests where it expects to improve most.

    Optuna's sampler (Matérn 5/2 kernel, one length scale per parameter, fitted noise), freshly
    seeded for each trial. It maximises the log expected improvement (Ament et al., 2023), or the
    log expected hypervolume improvement for several objectives. Inactive parameters get the
    middle of their domains. Pruned trials count as the lower quartile of the complete ones;
    failed trials as slightly worse than the worst.

    Attributes:
        startup: Number of first trials that are points of a Sobol' sequence.
        most: Maximal number of trials in the fit, whose cost grows with the cube: the best half,
            and the latest of the others.
    """

    identity: ClassVar = Identity("tuner", "gp")

    startup: Annotated[int, Ge(1)]
    most: Annotated[int, Ge(2)]

    def open(self, problem: Problem) -> Suggester:
        """A suggester for a problem.

        Raises:
            ConfigError: The space has more parameters than a Sobol' sequence has dimensions.
        """
        check_sobol_point(len(problem.space.parameters), 1)
        return _GaussianProcessSuggester(self, problem)


@dataclass(frozen=True, slots=True)
class _ObservedTrial:
    """A trial in the form of the model; `values` is empty if the trial was pruned or failed."""

    number: int
    params: "dict[str, Internal]"
    values: tuple[float, ...]
    pruned: bool


@dataclass(slots=True)
class _GaussianProcessSuggester:
    tuner: GaussianProcess
    problem: Problem
    _history: "ConvertedTrials[_ObservedTrial] | None" = None

    @property
    def history(self) -> "ConvertedTrials[_ObservedTrial]":
        """The trials in the form of the model."""
        # Importing Optuna is slow: wait for the first suggestion.
        if self._history is None:
            from rlexp.tuners.optuna_trials import ConvertedTrials

            self._history = ConvertedTrials(self._observed)
        return self._history

    def needs(self, number: int) -> int:
        """0: with too few trials, the suggestion is a Sobol' point."""
        del number
        return 0

    def suggest(self, trials: Sequence[Trial], number: int) -> Suggestion:
        """The point with the greatest expected improvement, or a Sobol' point at the start."""
        from rlexp.tuners.optuna_study import suggest_parameters

        space = self.problem.space
        observed = self.history.of(trials)
        enough = len(observed) >= self.tuner.startup and any(trial.values for trial in observed)
        if number <= self.tuner.startup or not enough:
            point = sobol_point(len(space.parameters), self.problem.seed, number)
            return Suggestion(space.decode(point.tolist()))
        finished = self._finished(observed)
        return Suggestion(
            suggest_parameters(self._sampler(number), finished, space, self.problem.objectives)
        )

    def _observed(self, trial: Trial) -> _ObservedTrial | None:
        from rlexp.tuners.optuna_trials import finite_values, internal_values, middle_values

        params = internal_values(self.problem.space, trial.parameters)
        # A value after fewer steps cannot be compared with one at the full budget.
        if params is None or trial.steps < self.problem.steps:
            return None
        params = {**middle_values(self.problem.space), **params}
        pruned = trial.state is TrialState.PRUNED
        return _ObservedTrial(trial.number, params, finite_values(trial), pruned)

    def _finished(self, observed: Sequence[_ObservedTrial]) -> "list[FrozenTrial]":
        from rlexp.tuners.optuna_trials import distributions, frozen_trial

        searched = distributions(self.problem.space)
        values = scaled_values(
            [trial.values for trial in observed], [trial.pruned for trial in observed]
        )
        return [
            frozen_trial(
                observed[i].number, observed[i].params, searched, values=values[i].tolist()
            )
            for i in select_trials(values, self.tuner.most)
        ]

    def _sampler(self, number: int) -> "GPSampler":
        from optuna.samplers import GPSampler, RandomSampler

        from rlexp.tuners.optuna_study import sampler_seed

        seed = sampler_seed(self.problem.seed, number)
        return GPSampler(
            seed=seed,
            independent_sampler=RandomSampler(seed=seed),
            n_startup_trials=0,
            # Two runs of one configuration differ, so the noise is fitted as well.
            deterministic_objective=False,
            constraints_func=None,
            warn_independent_sampling=False,
        )


def scaled_values(
    values: Sequence[tuple[float, ...]], pruned: Sequence[bool]
) -> NDArray[np.float64]:
    """The values of trials, scaled so that the worst complete trial has 0 and the best has 1.

    Args:
        values: Values of each trial, greater is better; empty if the trial is not complete.
        pruned: For each trial that is not complete, whether it was pruned rather than failed.

    Returns:
        The scaled values, of shape (trials, objectives).
    """
    complete = np.array([bool(trial_values) for trial_values in values])
    seen = np.array([trial_values for trial_values in values if trial_values])
    # Scaling first keeps differences of values near the largest float finite.
    seen /= np.maximum(np.abs(seen).max(axis=0), np.finfo(float).tiny)
    low, high = seen.min(axis=0), seen.max(axis=0)
    # All values of an objective may be equal: the division by 1 then leaves zeros.
    seen = (seen - low) / np.where(high > low, high - low, 1.0)
    scaled = np.full((len(values), seen.shape[1]), FAILED_SHARE)
    scaled[complete] = seen
    scaled[~complete & np.array(pruned)] = np.quantile(seen, PRUNED_QUANTILE, axis=0)
    return scaled


def select_trials(values: NDArray[np.float64], most: int) -> list[int]:
    """The positions of the trials for the fit: the best half of `most`, and the latest others.

    Args:
        values: Values of shape (trials, objectives), in order of the trials' numbers.
        most: Maximal number of trials.

    Returns:
        Ascending positions. The best trials are dominated by the fewest others (the rank of
        Fonseca and Fleming, 1993); among ties, earlier trials come first.
    """
    if len(values) <= most:
        return list(range(len(values)))
    best = np.argsort(_count_dominating(values), kind="stable")[: most // 2].tolist()
    others = sorted(set(range(len(values))) - set(best))
    # The other positions are ascending, so a negative start takes the latest of them.
    return sorted([*best, *others[len(best) - most :]])


def _count_dominating(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """For each trial, the number of trials that dominate it, of shape (trials,)."""
    return np.array(
        [np.sum((values >= row).all(axis=1) & (values > row).any(axis=1)) for row in values]
    )
