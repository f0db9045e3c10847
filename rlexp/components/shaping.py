"""Potential-based shaping, which leaves the best policies as they are (Ng, Harada & Russell 1999)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, SupportsFloat

import gymnasium as gym
from annotated_types import Ge, Interval

from rlexp.components.spaces import require_box
from rlexp.environments import Stage
from rlexp.environments.wrappers import imported
from rlexp.errors import ConfigError, did_you_mean
from rlexp.protocol.identity import Identity

Env = gym.Env[Any, Any]
Potential = Callable[[Any], SupportsFloat]


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A summand of a potential: a power of an entry of the flattened observation, weighed."""

    weight: float
    entry: Annotated[int, Ge(0)]
    power: Annotated[int, Ge(1)]

    def value(self, observation: Any) -> float:
        """The summand."""
        return self.weight * float(observation.flat[self.entry]) ** self.power


@dataclass(frozen=True, slots=True, kw_only=True)
class Shaping:
    """Adds the growth of a potential to rewards in training; scores stay those of the task."""

    identity: ClassVar = Identity("component", "shaping")

    terms: tuple[Term, ...]
    """The potential as a polynomial of observations; empty where a function is it."""
    function: str | None
    """The potential as `module:function` of an imported package: observation to number."""
    scale: float
    """A factor of the potential; 0 leaves rewards as they are."""
    discount: Annotated[float, Interval(ge=0, le=1)]
    """That of the learner: with another one, the best policies change."""
    imports: tuple[str, ...]
    """Modules that the configuration imports, of which the function may be."""

    def __post_init__(self) -> None:
        if bool(self.terms) == (self.function is not None):
            raise ConfigError(
                "component shaping needs its potential once: give it either "
                "environment.components.shaping.terms=[{weight: 1.0, entry: 0, power: 2}] or "
                "environment.components.shaping.function=module:function"
            )
        if self.function is not None:
            _check_allowed(self.function, self.imports)

    @property
    def splits(self) -> bool:
        """It helps to learn; evaluation holds nothing out."""
        return False

    def wrap(self, environment: Env, stage: Stage) -> Env:
        """Return the environment, shaped where it trains.

        Raises:
            ConfigError: The function cannot be loaded, or observations have no such entries.
        """
        potential = self._potential(environment)
        if stage is not Stage.TRAINING or self.scale == 0:
            return environment
        return ShapedEnvironment(environment, potential, self.scale, self.discount)

    def _potential(self, environment: Env) -> Potential:
        if self.function is not None:
            return _load(self.function)
        space = require_box(environment.observation_space, "shaping", "observations")
        size = int(space.low.size)
        for term in self.terms:
            if term.entry >= size:
                raise ConfigError(
                    f"component shaping: a term is about entry {term.entry} of observations, "
                    f"which have {size}: the last is {size - 1}"
                )
        return lambda observation: sum(term.value(observation) for term in self.terms)


class ShapedEnvironment(gym.Wrapper[Any, Any, Any, Any]):
    """An environment that rewards the growth of a potential too.

    The potential of a terminal state is 0. Where an episode is cut by a time limit the state is
    not terminal, and the learner goes on with its value: there the potential counts.
    """

    def __init__(self, env: Env, potential: Potential, scale: float, discount: float) -> None:
        super().__init__(env)
        self._potential, self._scale, self._discount = potential, scale, discount
        self._before = 0.0

    def reset(self, **settings: Any) -> tuple[Any, dict[str, Any]]:
        """Reset; the first potential is that of the first observation."""
        observation, info = self.env.reset(**settings)
        self._before = self._scale * float(self._potential(observation))
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step, and add the discounted potential of now less that of before."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        now = 0.0 if terminated else self._scale * float(self._potential(observation))
        shaped = float(reward) + self._discount * now - self._before
        self._before = now
        return observation, shaped, terminated, truncated, info


def _check_allowed(function: str, imports: tuple[str, ...]) -> None:
    module, colon, name = function.partition(":")
    if not (colon and name.isidentifier() and all(p.isidentifier() for p in module.split("."))):
        raise ConfigError(
            f"environment.components.shaping.function={function!r} is no function: write "
            "module:function"
        )
    packages = sorted({allowed.partition(".")[0] for allowed in imports})
    if (package := module.partition(".")[0]) not in packages:
        raise ConfigError(
            f"environment.components.shaping.function={function!r} may not be loaded: "
            f"'{package}' is not in environment.imports "
            f"({', '.join(packages) or 'which is empty'}); add it there"
        )


def _load(function: str) -> Potential:
    module_name, _, name = function.partition(":")
    module = imported(module_name)
    known = {key: value for key, value in vars(module).items() if callable(value)}
    if name not in known:
        raise ConfigError(
            f"environment.components.shaping.function: '{name}' is no function of "
            f"{module_name}{did_you_mean(name, known)}"
        )
    found: Potential = known[name]
    return found
