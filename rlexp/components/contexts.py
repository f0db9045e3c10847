"""Contexts: parameters of the dynamics that vary over episodes; evaluation uses held-out values.

The protocols are those of contextual reinforcement learning (CARL; Benjamins et al. 2023,
Contextualize Me – The Case for Context in Reinforcement Learning) and of robust evaluation over an
uncertainty set (RRLS; Zouitine et al. 2024, RRLS: Robust Reinforcement Learning Suite).
"""

import itertools
import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import gymnasium as gym
import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from rlexp.components.context_distributions import (
    Distribution,
    axis,
    bins_of,
    bounds,
    check_distribution,
    draw,
    values,
)
from rlexp.components.context_environment import ContextEnvironment, Dial
from rlexp.components.context_fields import check_value, find_field
from rlexp.environments import Stage
from rlexp.environments.task_bins import TaskBins
from rlexp.errors import ConfigError
from rlexp.protocol.identity import Identity
from rlexp.protocol.measures import CONTEXT

MOST = 10_000
"""Largest number of test contexts."""
_TRAINING_SAMPLE = 1
"""Added to the seed, so that samples of training and test contexts differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextParameter:
    """One parameter of a context and its distributions."""

    field: str | tuple[str, ...]
    """Field of the environment (`length`, `model.body_mass[torso]`), or several fields."""
    relative: bool = False
    """Whether values are factors of the nominal value of the field."""
    training: Distribution
    """Distribution of training contexts."""
    test: Distribution
    """Distribution of test contexts."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields as a tuple."""
        return (self.field,) if isinstance(self.field, str) else self.field


@dataclass(frozen=True, slots=True, kw_only=True)
class Contexts:
    """Training draws contexts; evaluations of all runs play one fixed list of test contexts."""

    identity: ClassVar = Identity("component", "contexts")

    parameters: dict[str, ContextParameter]
    evaluation: Literal["grid", "sample"]
    """Whether the list is a grid of all combinations, or drawn from the test distributions."""
    points: Annotated[int, Ge(1)]
    """Values along each range of a grid, or number of contexts of a sample."""
    seed: Annotated[int, Ge(0)]
    """Seed of the sample and of the order of the list, the same for all runs."""
    visible: bool
    """Whether the context, scaled to [-1, 1] over training, is appended to observations."""

    def __post_init__(self) -> None:
        if not self.parameters:
            raise ConfigError("component.parameters is empty: name one parameter at least")
        for name, parameter in self.parameters.items():
            key = f"component.parameters.{name}"
            if not name.isidentifier():
                raise ConfigError(f"{key} is no name: use letters, digits and _")
            if not parameter.fields:
                raise ConfigError(f"{key}.field=[] names no field")
            check_distribution(parameter.training, f"{key}.training")
            check_distribution(parameter.test, f"{key}.test")
            self._check_visible(key, parameter)
        self._check_number()
        self._check_held_out()

    @property
    def splits(self) -> bool:
        """True: evaluations use held-out test distributions."""
        return True

    def task_bins(self) -> dict[str, TaskBins]:
        """Bins of each parameter over both its distributions, with the shares of the test one."""
        parts = self.parameters.items()
        return {f"{CONTEXT}{name}": bins_of(each.training, each.test) for name, each in parts}

    def wrap(self, environment: gym.Env[Any, Any], stage: Stage) -> gym.Env[Any, Any]:
        """Return the environment with a context in every episode.

        Raises:
            ConfigError: A field does not exist or cannot hold a value, or the context cannot be
                appended to observations.
        """
        dials = [self._dial(environment.unwrapped, name) for name in self.parameters]
        listed = {
            Stage.TRAINING: lambda: None,
            Stage.EVALUATION: self.test_contexts,
            Stage.IN_DISTRIBUTION: self.training_contexts,
        }[stage]()
        return ContextEnvironment(environment, dials, listed, visible=self.visible)

    def test_contexts(self) -> NDArray[np.float64]:
        """Return the test contexts (contexts × parameters).

        A grid is shuffled, so that an evaluation with few episodes covers more than one corner.
        """
        generator = np.random.default_rng(self.seed)
        if self.evaluation == "grid":
            contexts = np.array(list(itertools.product(*self._axes())))
            return generator.permutation(contexts, axis=0)
        parts = [parameter.test for parameter in self.parameters.values()]
        return np.array([[draw(part, generator) for part in parts] for _ in range(self.points)])

    def training_contexts(self) -> NDArray[np.float64]:
        """Return a sample of training contexts of equal size, the same for all runs."""
        generator = np.random.default_rng([self.seed, _TRAINING_SAMPLE])
        parts = [parameter.training for parameter in self.parameters.values()]
        return np.array([[draw(part, generator) for part in parts] for _ in range(self._number())])

    def _check_visible(self, key: str, parameter: ContextParameter) -> None:
        scale = getattr(parameter.training, "scale", None)
        if self.visible and scale == "log_uniform" and bounds(parameter.test)[0] <= 0:
            raise ConfigError(
                f"{key}.test must be above 0, for observations show it on the logarithmic scale "
                "of training: choose other values, or visible=false"
            )

    def _axes(self) -> list[tuple[float, ...]]:
        return [axis(parameter.test, self.points) for parameter in self.parameters.values()]

    def _number(self) -> int:
        """Return the number of test contexts."""
        if self.evaluation == "sample":
            return self.points
        lists = [values(parameter.test) for parameter in self.parameters.values()]
        return math.prod(self.points if each is None else len(each) for each in lists)

    def _check_number(self) -> None:
        if self._number() > MOST:
            raise ConfigError(
                f"component.points={self.points} makes {self._number():,} test contexts, at most "
                f"{MOST:,} are played: lower it, or set evaluation=sample"
            )

    def _check_held_out(self) -> None:
        """Refuse test contexts that are all training contexts: none would be held out."""
        for parameter in self.parameters.values():
            trained, tested = values(parameter.training), values(parameter.test)
            # One parameter with further values suffices for contexts that training never sees.
            if trained is None or tested is None or not set(tested) <= set(trained):
                return
        raise ConfigError(
            "component.parameters: every test context is also a training context, so that nothing "
            "is held out: give one parameter other test values"
        )

    def _dial(self, environment: gym.Env[Any, Any], name: str) -> Dial:
        parameter = self.parameters[name]
        fields = tuple(find_field(environment, text) for text in parameter.fields)
        for field in fields:
            for value in (*bounds(parameter.training), *bounds(parameter.test)):
                check_value(field, value, relative=parameter.relative)
        return Dial(name, fields, parameter.relative, parameter.training)
