"""The tree-structured Parzen estimator."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Ge

from rlexp.protocol.identity import Identity
from rlexp.records.trial import Trial, TrialState
from rlexp.tuners import Problem, Suggester, Suggestion
from rlexp.tuners.unit_cube import check_sobol_point, sobol_point

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.samplers import TPESampler
    from optuna.trial import FrozenTrial

    from rlexp.tuners.optuna_trials import ConvertedTrials

MAX_FAILED_PER_TRIAL = 9
"""Most failed trials in the model for each other trial. TPE takes the best tenth of all trials
as good, and no failed trial may be in that tenth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TPE:
    """Samples where good trials are dense and bad trials are rare (Bergstra et al., 2011).

    Optuna's sampler, freshly seeded for each trial. Pruned trials rank by their last step;
    failed trials rank below all others.

    Attributes:
        startup: Number of ended trials before the model is used; before, suggestions are points
            of a Sobol' sequence.
        candidates: Number of samples of the good density; the most promising one is suggested.
        multivariate: Whether to model parameters jointly (Falkner et al., 2018). With several
            objectives, each parameter is always modelled alone.
    """

    identity: ClassVar = Identity("tuner", "tpe")

    startup: Annotated[int, Ge(1)]
    candidates: Annotated[int, Ge(1)]
    multivariate: bool

    def open(self, problem: Problem) -> Suggester:
        """A suggester for a problem.

        Raises:
            ConfigError: The space has more parameters than a Sobol' sequence has dimensions.
        """
        check_sobol_point(len(problem.space.parameters), 1)
        return _Parzen(self, problem)


@dataclass(slots=True)
class _Parzen:
    tuner: TPE
    problem: Problem
    _history: "ConvertedTrials[FrozenTrial] | None" = None

    @property
    def history(self) -> "ConvertedTrials[FrozenTrial]":
        """The trials in Optuna's form."""
        # Importing Optuna is slow: wait for the first suggestion.
        if self._history is None:
            from rlexp.tuners.optuna_trials import ConvertedTrials, distributions

            searched = distributions(self.problem.space)
            self._history = ConvertedTrials(
                lambda trial: _frozen_trial(trial, self.problem, searched)
            )
        return self._history

    def needs(self, number: int) -> int:
        """0: with too few trials, the suggestion is a Sobol' point."""
        del number
        return 0

    def suggest(self, trials: Sequence[Trial], number: int) -> Suggestion:
        """The most promising sample of the model, or a Sobol' point at the start."""
        from rlexp.tuners.optuna_study import suggest_parameters

        space = self.problem.space
        trials_for_model = without_excess_failures(self.history.of(trials))
        if number <= self.tuner.startup or len(trials_for_model) < self.tuner.startup:
            point = sobol_point(len(space.parameters), self.problem.seed, number)
            return Suggestion(space.decode(point.tolist()))
        return Suggestion(
            suggest_parameters(
                self._sampler(number), trials_for_model, space, self.problem.objectives
            )
        )

    def _sampler(self, number: int) -> "TPESampler":
        from optuna.exceptions import ExperimentalWarning
        from optuna.samplers import TPESampler

        from rlexp.tuners.optuna_study import sampler_seed

        joint = self.tuner.multivariate and self.problem.objectives == 1
        conditional = any(parameter.when for parameter in self.problem.space.parameters)
        with warnings.catch_warnings():
            # `group` fits one joint model per branch of a conditional space. Optuna marks the
            # argument as experimental, which is no reason to warn users of rlexp.
            warnings.simplefilter("ignore", ExperimentalWarning)
            return TPESampler(
                # The trials at the start are Sobol' points, which `suggest` makes itself.
                n_startup_trials=0,
                n_ei_candidates=self.tuner.candidates,
                seed=sampler_seed(self.problem.seed, number),
                multivariate=joint,
                group=joint and conditional,
                constant_liar=False,
                constraints_func=None,
            )


def _frozen_trial(
    trial: Trial, problem: Problem, searched: "dict[str, BaseDistribution]"
) -> "FrozenTrial | None":
    """The trial in Optuna's form; None if it had fewer steps or values outside the space."""
    from rlexp.tuners.optuna_trials import finite_values, frozen_trial, internal_values

    params = internal_values(problem.space, trial.parameters)
    if params is None or trial.steps < problem.steps:
        return None
    if values := finite_values(trial):
        return frozen_trial(trial.number, params, searched, values=values)
    steps = trial.intermediate if trial.state is TrialState.PRUNED else {}
    return frozen_trial(
        trial.number, params, searched, intermediate=_last_intermediate(steps, problem.objectives)
    )


def _last_intermediate(intermediate: Mapping[int, float], objectives: int) -> dict[int, float]:
    """The last step of a pruned trial and its value there; NaN for several objectives.

    The sampler ranks pruned trials by their last steps, then by the values there, with NaN last.
    Trials without steps, which are failed trials here, rank below all others.
    """
    if not intermediate:
        return {}
    last = max(intermediate)
    value = intermediate[last]
    return {last: value if objectives == 1 and isfinite(value) else nan}


def without_excess_failures(trials: "Sequence[FrozenTrial]") -> "list[FrozenTrial]":
    """The trials without the oldest failed ones, if the share of failed trials is too large.

    Args:
        trials: Trials in order of their numbers; a failed one has neither values nor steps.
    """
    failed = [t.number for t in trials if t.values is None and not t.intermediate_values]
    most = MAX_FAILED_PER_TRIAL * (len(trials) - len(failed))
    left_out = set(failed[: max(len(failed) - most, 0)])
    return [t for t in trials if t.number not in left_out]
