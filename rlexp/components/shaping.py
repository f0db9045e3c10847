"""Potential-based shaping, which keeps optimal policies optimal (Ng, Harada & Russell 1999)."""

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
    """A term of a potential: weight times a power of an entry of the flattened observation."""

    weight: float
    entry: Annotated[int, Ge(0)]
    power: Annotated[int, Ge(1)]

    def value(self, observation: Any) -> float:
        """Return the value of the term."""
        return self.weight * float(observation.flat[self.entry]) ** self.power


@dataclass(frozen=True, slots=True, kw_only=True)
class Shaping:
    """Adds the change of a potential to training rewards; scores use the rewards of the task."""

    identity: ClassVar = Identity("component", "shaping")

    terms: tuple[Term, ...]
    """The potential as a polynomial of observations; empty if `function` is set."""
    function: str | None
    """The potential as `module:function` of an imported package; takes an observation."""
    scale: float
    """Factor of the potential; 0 disables shaping."""
    discount: Annotated[float, Interval(ge=0, le=1)]
    """Discount of the learner; another discount changes the optimal policies."""
    imports: tuple[str, ...]
    """Modules that the configuration imports, from which the function may come."""

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
        """False: evaluation uses the same distribution as training."""
        return False

    def wrap(self, environment: Env, stage: Stage) -> Env:
        """Return the environment with shaped rewards for training, else unchanged.

        Raises:
            ConfigError: The function cannot be loaded, or observations have no such entries.
        """
        # At every stage, so that an evaluation also refuses a potential that does not fit.
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
    """Adds the change of a potential to rewards.

    The potential of a terminal state is 0. A state at which an episode is truncated is not
    terminal: the learner bootstraps from its value, so its potential counts.
    """

    def __init__(self, env: Env, potential: Potential, scale: float, discount: float) -> None:
        super().__init__(env)
        self._potential, self._scale, self._discount = potential, scale, discount
        self._before = 0.0

    def reset(self, **settings: Any) -> tuple[Any, dict[str, Any]]:
        """Reset, and compute the potential of the first observation."""
        observation, info = self.env.reset(**settings)
        self._before = self._scale * float(self._potential(observation))
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step, and add the discounted potential now minus the potential before."""
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
    # The import runs code, so a configuration must name the package openly in its imports.
    if (package := module.partition(".")[0]) not in packages:
        raise ConfigError(
            f"environment.components.shaping.function={function!r} may not be loaded: "
            f"'{package}' is not in environment.imports "
            f"({', '.join(packages) or 'which is empty'}); add it there"
        )


def _load(function: str) -> Potential:
    module_name, _, name = function.partition(":")
    module = imported(module_name)
    functions = {key: value for key, value in vars(module).items() if callable(value)}
    if name not in functions:
        raise ConfigError(
            f"environment.components.shaping.function: '{name}' is no function of "
            f"{module_name}{did_you_mean(name, functions)}"
        )
    potential: Potential = functions[name]
    return potential
