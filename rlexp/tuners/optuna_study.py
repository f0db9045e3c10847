"""Suggestions of Optuna's samplers from finished trials. Imports Optuna: import it late."""

from collections.abc import Container, Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.storages import InMemoryStorage
from optuna.trial import FrozenTrial
from optuna.trial import TrialState as State

from rlexp.protocol.space import Space
from rlexp.tuners.optuna_trials import Internal, distribution, from_internal
from rlexp.tuners.unit_cube import trial_generator


class OptunaHistory(InMemoryStorage):
    """A storage with a given list of finished trials, which are neither copied nor changed."""

    def __init__(self, finished: list[FrozenTrial]) -> None:
        super().__init__()
        self._finished = finished

    def get_all_trials(
        self, study_id: int, deepcopy: bool = True, states: Container[State] | None = None
    ) -> list[FrozenTrial]:
        """The finished trials, then the one that is being suggested."""
        # Optuna's own storage copies every trial on every call, which is slow for long histories.
        finished = [t for t in self._finished if states is None or t.state in states]
        return finished + super().get_all_trials(study_id, deepcopy, states)


def sampler_seed(seed: int, number: int) -> int:
    """The 32-bit seed of the sampler that suggests trial `number`."""
    # Optuna passes the seed to NumPy's legacy generator, which takes 32 bits.
    return int(trial_generator(seed, number).integers(2**32))


_VERBOSITY = RLock()
"""Held while Optuna is silent: two sweeps in threads would take the silence for its former state."""


@contextmanager
def silence_optuna() -> Iterator[None]:
    """Suppress Optuna's log messages below errors inside a `with` block."""
    with _VERBOSITY:
        before = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        try:
            yield
        finally:
            optuna.logging.set_verbosity(before)


def suggest_parameters(
    sampler: BaseSampler, finished: list[FrozenTrial], space: Space, objectives: int
) -> dict[str, Any]:
    """The parameters that a sampler suggests after finished trials.

    Args:
        sampler: A fresh sampler: state from earlier calls would change the suggestion.
        finished: The finished trials in order of their numbers.
        space: The search space.
        objectives: Number of values of each complete trial; all are maximised.
    """
    with silence_optuna():
        study = optuna.create_study(
            storage=OptunaHistory(finished),
            sampler=sampler,
            pruner=optuna.pruners.NopPruner(),
            directions=["maximize"] * objectives,
        )
        return _suggested_values(study.ask(), space)


def _suggested_values(trial: optuna.Trial, space: Space) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for parameter in space.parameters:
        if parameter.is_active(values):
            internal = _suggested_internal(trial, parameter.key, distribution(parameter.domain))
            values[parameter.key] = from_internal(parameter.domain, internal)
    return values


def _suggested_internal(trial: optuna.Trial, key: str, searched: BaseDistribution) -> Internal:
    match searched:
        case CategoricalDistribution():
            position: Any = trial.suggest_categorical(key, searched.choices)
            return int(position)
        case IntDistribution():
            return trial.suggest_int(key, searched.low, searched.high, log=searched.log)
        case _:
            return trial.suggest_float(key, 0.0, 1.0)
