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

    from rlexp.tuners.optuna_trials import Converted

FAILED_FOR_EACH = 9
"""Failed trials that the model hears of for each other one. It calls a tenth of all trials good,
and no failed one may be among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TPE:
    """Samples where good trials are dense and bad ones are not (Bergstra et al., 2011).

    Optuna's sampler, freshly seeded for each trial. Pruned trials count by how far they came;
    failed ones rank below all others.

    Attributes:
        startup: Ended trials before which points of a Sobol' sequence are suggested.
        candidates: Samples of the good density, the most promising of which is suggested.
        multivariate: Model parameters jointly (Falkner et al., 2018); where there are several
            objectives, each parameter is modelled alone regardless.
    """

    identity: ClassVar = Identity("tuner", "tpe")

    startup: Annotated[int, Ge(1)]
    candidates: Annotated[int, Ge(1)]
    multivariate: bool

    def open(self, problem: Problem) -> Suggester:
        """Begin to work on a problem.

        Raises:
            ConfigError: It has more parameters than the first points have dimensions.
        """
        check_sobol_point(len(problem.space.parameters), 1)
        return _Parzen(self, problem)


@dataclass(slots=True)
class _Parzen:
    tuner: TPE
    problem: Problem
    _history: "Converted[FrozenTrial] | None" = None

    @property
    def history(self) -> "Converted[FrozenTrial]":
        """The trials in Optuna's form; Optuna is imported at the first suggestion."""
        if self._history is None:
            from rlexp.tuners.optuna_trials import Converted, distributions

            searched = distributions(self.problem.space)
            self._history = Converted(lambda trial: _frozen(trial, self.problem, searched))
        return self._history

    def needs(self, number: int) -> int:
        """No trial: with few, the first points go on."""
        del number
        return 0

    def suggest(self, trials: Sequence[Trial], number: int) -> Suggestion:
        """What the model expects most of; a Sobol' point while it knows too little."""
        from rlexp.tuners.optuna_study import ask

        space = self.problem.space
        known = audible(self.history.of(trials))
        if number <= self.tuner.startup or len(known) < self.tuner.startup:
            point = sobol_point(len(space.parameters), self.problem.seed, number)
            return Suggestion(space.decode(point.tolist()))
        return Suggestion(ask(self._sampler(number), known, space, self.problem.objectives))

    def _sampler(self, number: int) -> "TPESampler":
        from optuna.exceptions import ExperimentalWarning
        from optuna.samplers import TPESampler

        from rlexp.tuners.optuna_study import sampler_seed

        joint = self.tuner.multivariate and self.problem.objectives == 1
        conditional = any(parameter.when for parameter in self.problem.space.parameters)
        with warnings.catch_warnings():
            # What is experimental about `group` is its name.
            warnings.simplefilter("ignore", ExperimentalWarning)
            return TPESampler(
                n_startup_trials=0,
                n_ei_candidates=self.tuner.candidates,
                seed=sampler_seed(self.problem.seed, number),
                multivariate=joint,
                group=joint and conditional,
                constant_liar=False,
                constraints_func=None,
            )


def _frozen(
    trial: Trial, problem: Problem, searched: "dict[str, BaseDistribution]"
) -> "FrozenTrial | None":
    """The trial as the model sees it, or nothing where it was cheaper or has foreign values."""
    from rlexp.tuners.optuna_trials import finite_values, frozen, internals

    params = internals(problem.space, trial.parameters)
    if params is None or trial.steps < problem.steps:
        return None
    if values := finite_values(trial):
        return frozen(trial.number, params, searched, values=values)
    steps = trial.intermediate if trial.state is TrialState.PRUNED else {}
    return frozen(trial.number, params, searched, intermediate=_ranked(steps, problem.objectives))


def _ranked(intermediate: Mapping[int, float], objectives: int) -> dict[int, float]:
    """Where a pruned trial ended; what its value was is comparable under one objective only.

    The sampler ranks pruned trials by their last steps, then by the values there, with NaN last,
    and those without steps below all.
    """
    if not intermediate:
        return {}
    last = max(intermediate)
    value = intermediate[last]
    return {last: value if objectives == 1 and isfinite(value) else nan}


def audible(trials: "Sequence[FrozenTrial]") -> "list[FrozenTrial]":
    """The trials without the oldest failed ones, where those are too large a share.

    Args:
        trials: In order of their numbers; a failed one is neither complete nor has it steps.
    """
    failed = [t.number for t in trials if t.values is None and not t.intermediate_values]
    most = FAILED_FOR_EACH * (len(trials) - len(failed))
    unheard = set(failed[: max(len(failed) - most, 0)])
    return [t for t in trials if t.number not in unheard]
