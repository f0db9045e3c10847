"""A study in Optuna's terms that knows finished trials and suggests one. Import it late."""

from collections.abc import Container, Iterator
from contextlib import contextmanager
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.storages import InMemoryStorage
from optuna.trial import FrozenTrial
from optuna.trial import TrialState as State

from rlexp.protocol.space import Space
from rlexp.tuners.optuna_trials import Internal, distribution, from_internal
from rlexp.tuners.unit_cube import generator


class History(InMemoryStorage):
    """A storage whose finished trials are given, not copied, and never change."""

    def __init__(self, finished: list[FrozenTrial]) -> None:
        super().__init__()
        self._finished = finished

    def get_all_trials(
        self, study_id: int, deepcopy: bool = True, states: Container[State] | None = None
    ) -> list[FrozenTrial]:
        """The finished trials, then the one that is being suggested."""
        finished = [t for t in self._finished if states is None or t.state in states]
        return finished + super().get_all_trials(study_id, deepcopy, states)


def sampler_seed(seed: int, number: int) -> int:
    """The seed of the sampler that suggests trial `number`, a number of 32 bits."""
    return int(generator(seed, number).integers(2**32))


@contextmanager
def quiet() -> Iterator[None]:
    """Keep Optuna from logging what only its own users would understand."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


def ask(
    sampler: BaseSampler, finished: list[FrozenTrial], space: Space, objectives: int
) -> dict[str, Any]:
    """The configuration that a sampler suggests after these trials.

    Args:
        sampler: A fresh one: what it keeps from call to call would be part of the answer.
        finished: In order of their numbers.
        space: Where to search.
        objectives: How many values each complete trial has; all are maximised.
    """
    with quiet():
        study = optuna.create_study(
            storage=History(finished),
            sampler=sampler,
            pruner=optuna.pruners.NopPruner(),
            directions=["maximize"] * objectives,
        )
        return _values(study.ask(), space)


def _values(trial: optuna.Trial, space: Space) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for parameter in space.parameters:
        if parameter.is_active(values):
            internal = _internal(trial, parameter.key, distribution(parameter.domain))
            values[parameter.key] = from_internal(parameter.domain, internal)
    return values


def _internal(trial: optuna.Trial, key: str, searched: BaseDistribution) -> Internal:
    match searched:
        case CategoricalDistribution():
            position: Any = trial.suggest_categorical(key, searched.choices)
            return int(position)
        case IntDistribution():
            return trial.suggest_int(key, searched.low, searched.high, log=searched.log)
        case _:
            return trial.suggest_float(key, 0.0, 1.0)
