"""Safety: what constraints cost in an episode, beside its return (Ray et al. 2019).

It measures evaluations as the cost of a constrained Markov decision process (Altman 1999), and
changes nothing.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, SupportsFloat

import gymnasium as gym

from rlexp.components.constraints import Constraint, check_places, require_some, violations
from rlexp.environments import MEASURES, Stage
from rlexp.protocol.identity import Identity

Env = gym.Env[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Safety:
    """Measures of each episode that is evaluated: `cost`, `cost/NAME` and `violations`."""

    identity: ClassVar = Identity("component", "safety")

    constraints: dict[str, Constraint]
    """What is to stay within bounds, by name."""

    def __post_init__(self) -> None:
        require_some(self.constraints, "safety")

    @property
    def splits(self) -> bool:
        """It changes no distribution."""
        return False

    def wrap(self, environment: Env, stage: Stage) -> Env:
        """Return the environment, measured where it is evaluated.

        Raises:
            ConfigError: A constraint does not fit the environment.
        """
        check_places(self.constraints, environment, "safety")
        # A key that info lacks should be told at the first step, not at the first evaluation.
        named = any(constraint.key is not None for constraint in self.constraints.values())
        if stage is Stage.TRAINING and not named:
            return environment
        return MeasuredEnvironment(environment, self.constraints)


class MeasuredEnvironment(gym.Wrapper[Any, Any, Any, Any]):
    """An environment that tells at the end of an episode what its constraints cost.

    `cost/NAME` is the sum over steps of what is beyond the bounds, in units of the number; `cost`
    is the sum of those; `violations` is the share of steps with any.
    """

    def __init__(self, env: Env, constraints: Mapping[str, Constraint]) -> None:
        super().__init__(env)
        self._constraints = constraints
        self._costs: Counter[str] = Counter()
        self._violated = self._steps = 0

    def reset(self, **settings: Any) -> tuple[Any, dict[str, Any]]:
        """Reset, and begin to count anew."""
        self._costs.clear()
        self._violated = self._steps = 0
        return self.env.reset(**settings)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step, count, and tell at the end."""
        result = self.env.step(action)
        observation, _, terminated, truncated, info = result
        found = violations(self._constraints, observation, action, info)
        self._costs.update(found)
        self._steps += 1
        self._violated += any(found.values())
        if terminated or truncated:
            info.setdefault(MEASURES, {}).update(self._measures())
        return result

    def _measures(self) -> dict[str, float]:
        each = {f"cost/{name}": float(self._costs[name]) for name in self._constraints}
        share = self._violated / self._steps
        return {"cost": sum(each.values()), "violations": share, **each}
