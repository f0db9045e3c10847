"""Contexts: parameters of the dynamics that vary over episodes; evaluation uses held-out values.

A wrapper gives every episode a context. The protocols are those of contextual reinforcement learning (CARL; Benjamins
et al. 2023, Contextualize Me – The Case for Context in Reinforcement Learning) and of robust evaluation over an
uncertainty set (RRLS; Zouitine et al. 2024, RRLS: Robust Reinforcement Learning Suite).
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, SupportsFloat

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
    is_drawn,
    nearest,
    normalised,
    values,
)
from rlexp.components.context_fields import Field, check_value, find_field, update_derived_values
from rlexp.environments import MEASURES, Stage
from rlexp.environments.task_bins import TaskBins
from rlexp.errors import ConfigError
from rlexp.protocol.identity import Identity
from rlexp.protocol.measures import CONTEXT

Env = gym.Env[Any, Any]
ContextArray = NDArray[np.float64]
"""Shape: contexts × parameters."""
MOST = 10_000
"""Largest number of test contexts."""
_TRAINING_SAMPLE = 1
"""Added to the seed, so that samples of training and test contexts differ."""


@dataclass(frozen=True, slots=True, eq=False)
class Dial:
    """One context parameter: the fields that it sets, and its training distribution."""

    name: str
    fields: tuple[Field, ...]
    relative: bool
    training: Distribution


class ContextEnvironment(gym.Wrapper[Any, Any, Any, Any]):
    """Sets a context at each reset, drawn or the next of a list, for the whole episode."""

    def __init__(
        self, env: Env, dials: Sequence[Dial], listed: ContextArray | None, *, visible: bool
    ) -> None:
        """Wrap `env`.

        Args:
            env: The environment.
            dials: Its context parameters.
            listed: Contexts to play in this order, repeatedly; None draws contexts from the
                training distributions.
            visible: Whether the context is appended to observations.

        Raises:
            ConfigError: The context is visible, and observations are not flat arrays.
        """
        super().__init__(env)
        box = np.array([bounds(dial.training) for dial in dials])
        self.context_names: tuple[str, ...] = tuple(dial.name for dial in dials)
        """Names of the parameters, in the order of a context."""
        self.context_low, self.context_high = box[:, 0], box[:, 1]
        """Bounds of the training distributions; shape: parameters."""
        self._dials = tuple(dials)
        self._fields = tuple(field for dial in dials for field in dial.fields)
        self._listed = listed
        self._position, self._stride = 0, 1
        self._planned: NDArray[np.float64] | None = None
        # NaN differs from every number, so the first context is always written.
        self._context = np.full(len(dials), np.nan)
        self._visible = visible
        if visible:
            self.observation_space = _with_context(env.observation_space, len(dials))

    def deal(self, position: int, of: int) -> None:
        """Play every `of`-th context of the list, from `position` on."""
        self._position, self._stride = position, of
        if self.env.has_wrapper_attr("deal"):
            self.env.get_wrapper_attr("deal")(position, of)

    def plan_next(self, context: NDArray[np.float64]) -> None:
        """Set the context of the next episode (shape: parameters)."""
        self._planned = np.array(context, dtype=np.float64).reshape(len(self._dials))

    def as_trained(self, context: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the nearest context of the training distributions (shape: parameters).

        A parameter with a list of training values takes only these values.
        """
        pairs = zip(self._dials, context, strict=True)
        return np.array([nearest(dial.training, float(value)) for dial, value in pairs])

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset with the next context."""
        context = self._next()
        if context is None:
            if seed is not None and any(is_drawn(dial.training) for dial in self._dials):
                # The environment's own generator draws the context, so it must be seeded before.
                self.env.reset(seed=seed, options=options)
                seed = None
            context = np.array([draw(dial.training, self.np_random) for dial in self._dials])
        # Written before the reset, which computes the first state from the fields.
        self._apply(context)
        observation, info = self.env.reset(seed=seed, options=options)
        for dial, value in zip(self._dials, context, strict=True):
            for field in dial.fields:
                if field.cleared_by_resets:
                    field.write(self.unwrapped, float(value), relative=dial.relative)
                field.check_kept(self.unwrapped, float(value), relative=dial.relative)
        return self._shown(observation), info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step; the last step of an episode reports the context as measures."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if terminated or truncated:
            measures = info.setdefault(MEASURES, {})
            for name, value in zip(self.context_names, self._context, strict=True):
                measures[f"context/{name}"] = float(value)
        return self._shown(observation), reward, terminated, truncated, info

    def _next(self) -> NDArray[np.float64] | None:
        """Return the next context of the list or the planned one, or None to draw a context."""
        if self._listed is not None:
            context: NDArray[np.float64] = self._listed[self._position % len(self._listed)]
            self._position += self._stride
            return context
        planned, self._planned = self._planned, None
        return planned

    def _apply(self, context: NDArray[np.float64]) -> None:
        # Recomputing the constants of a MuJoCo model takes time: skip it for an unchanged context.
        if np.array_equal(context, self._context):
            return
        for dial, value in zip(self._dials, context, strict=True):
            for field in dial.fields:
                field.write(self.unwrapped, float(value), relative=dial.relative)
        update_derived_values(self.unwrapped, self._fields)
        self._context = context

    def _shown(self, observation: Any) -> Any:
        if not self._visible:
            return observation
        shown = [
            normalised(dial.training, float(value))
            for dial, value in zip(self._dials, self._context, strict=True)
        ]
        # Without this type, `append` would turn observations of float32 into float64.
        return np.append(observation, np.asarray(shown, dtype=observation.dtype))


def _with_context(space: Any, count: int) -> gym.spaces.Box:
    if not (
        isinstance(space, gym.spaces.Box) and len(space.shape) == 1 and space.dtype.kind == "f"
    ):
        raise ConfigError(
            "a context can be visible only beside observations that are a row of numbers (a Box "
            f"of floats), not {space}: set environment.components.context.visible=false"
        )
    # Test contexts may lie outside of the training range, so there are no bounds.
    infinite = np.full(count, np.inf)
    low, high = np.append(space.low, -infinite), np.append(space.high, infinite)
    kind: Any = space.dtype.type
    return gym.spaces.Box(low.astype(kind), high.astype(kind), dtype=kind)


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
