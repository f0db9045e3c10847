"""Contexts: parameters of the dynamics that differ from episode to episode, some of them held out.

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
    bounds,
    check_distribution,
    draw,
    values,
)
from rlexp.components.context_environment import ContextEnvironment, Dial
from rlexp.components.context_fields import check_value, find_field
from rlexp.environments import Stage
from rlexp.errors import ConfigError
from rlexp.protocol.identity import Identity

MOST = 10_000
"""Test contexts."""
_TRAINING_SAMPLE = 1
"""What tells the sample of training contexts from that of test contexts, with one seed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextParameter:
    """One number of a context."""

    field: str | tuple[str, ...]
    """Where it is in the environment (`length`, `model.body_mass[torso]`); several follow it alike."""
    relative: bool = False
    """Whether it is a factor of what the field holds at first, or its value."""
    training: Distribution
    """What training draws from."""
    test: Distribution
    """What evaluations are played on."""

    @property
    def fields(self) -> tuple[str, ...]:
        """All its fields."""
        return (self.field,) if isinstance(self.field, str) else self.field


@dataclass(frozen=True, slots=True, kw_only=True)
class Contexts:
    """Training plays contexts that it draws; evaluations play a fixed list of others, in all runs."""

    identity: ClassVar = Identity("component", "contexts")

    parameters: dict[str, ContextParameter]
    evaluation: Literal["grid", "sample"]
    """Whether the list is every combination of values, or drawn from the test distributions."""
    points: Annotated[int, Ge(1)]
    """Of a grid: values along each range. Of a sample: contexts."""
    seed: Annotated[int, Ge(0)]
    """Draws the sample, and the order of the list; never that of a run."""
    visible: bool
    """Whether observations end with the context, on a scale from -1 to 1 in training."""

    def __post_init__(self) -> None:
        if not self.parameters:
            raise ConfigError("component.parameters is empty: name one parameter at least")
        for name, parameter in self.parameters.items():
            place = f"component.parameters.{name}"
            if not name.isidentifier():
                raise ConfigError(f"{place} is no name: use letters, digits and _")
            if not parameter.fields:
                raise ConfigError(f"{place}.field=[] names no field")
            check_distribution(parameter.training, f"{place}.training")
            check_distribution(parameter.test, f"{place}.test")
            self._check_visible(place, parameter)
        self._check_number()
        self._check_held_out()

    @property
    def splits(self) -> bool:
        """Evaluations hold out a distribution."""
        return True

    def wrap(self, environment: gym.Env[Any, Any], stage: Stage) -> gym.Env[Any, Any]:
        """Return the environment with a context in every episode.

        Raises:
            ConfigError: A field does not exist or cannot hold a value, or observations cannot show
                the context.
        """
        dials = [self._dial(environment.unwrapped, name) for name in self.parameters]
        listed = {
            Stage.TRAINING: lambda: None,
            Stage.EVALUATION: self.test_contexts,
            Stage.IN_DISTRIBUTION: self.training_contexts,
        }[stage]()
        return ContextEnvironment(environment, dials, listed, visible=self.visible)

    def test_contexts(self) -> NDArray[np.float64]:
        """What evaluations are played on (contexts × parameters).

        In an order that was drawn, so that an evaluation of few episodes plays no corner of it.
        """
        generator = np.random.default_rng(self.seed)
        if self.evaluation == "grid":
            contexts = np.array(list(itertools.product(*self._axes())))
            return generator.permutation(contexts, axis=0)
        parts = [parameter.test for parameter in self.parameters.values()]
        return np.array([[draw(part, generator) for part in parts] for _ in range(self.points)])

    def training_contexts(self) -> NDArray[np.float64]:
        """As many from the distributions of training, the same for all runs."""
        generator = np.random.default_rng([self.seed, _TRAINING_SAMPLE])
        parts = [parameter.training for parameter in self.parameters.values()]
        return np.array([[draw(part, generator) for part in parts] for _ in range(self._number())])

    def _check_visible(self, place: str, parameter: ContextParameter) -> None:
        scale = getattr(parameter.training, "scale", None)
        if self.visible and scale == "log_uniform" and bounds(parameter.test)[0] <= 0:
            raise ConfigError(
                f"{place}.test must be above 0, for observations show it on the logarithmic scale "
                "of training: choose other values, or visible=false"
            )

    def _axes(self) -> list[tuple[float, ...]]:
        return [axis(parameter.test, self.points) for parameter in self.parameters.values()]

    def _number(self) -> int:
        """How many test contexts there are."""
        if self.evaluation == "sample":
            return self.points
        known = [values(parameter.test) for parameter in self.parameters.values()]
        return math.prod(self.points if some is None else len(some) for some in known)

    def _check_number(self) -> None:
        if self._number() > MOST:
            raise ConfigError(
                f"component.points={self.points} makes {self._number():,} test contexts, at most "
                f"{MOST:,} are played: lower it, or set evaluation=sample"
            )

    def _check_held_out(self) -> None:
        """Refuse where training plays every test context for certain: nothing is held out."""
        for parameter in self.parameters.values():
            trained, tested = values(parameter.training), values(parameter.test)
            if trained is None or tested is None or not set(tested) <= set(trained):
                return
        raise ConfigError(
            "component.parameters: every test context is one that training plays, so that nothing "
            "is held out: give one parameter other test values"
        )

    def _dial(self, environment: gym.Env[Any, Any], name: str) -> Dial:
        parameter = self.parameters[name]
        fields = tuple(find_field(environment, text) for text in parameter.fields)
        for field in fields:
            for value in (*bounds(parameter.training), *bounds(parameter.test)):
                check_value(field, value, relative=parameter.relative)
        return Dial(name, fields, parameter.relative, parameter.training)
