"""Safety: the costs of constraints in each evaluated episode (Ray et al. 2019).

The costs are those of a constrained Markov decision process (Altman 1999). The component measures
episodes and does not change them.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, SupportsFloat

import gymnasium as gym

from rlexp.components.constraints import Constraint, check_entries, require_some, violations
from rlexp.environments import MEASURES, Stage
from rlexp.protocol.identity import Identity
from rlexp.protocol.measures import DeclaredMeasure

Env = gym.Env[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Safety:
    """Measures `cost`, `cost/NAME` and `violations` of each evaluated episode."""

    identity: ClassVar = Identity("component", "safety")

    constraints: dict[str, Constraint]
    """The constraints by name."""

    def __post_init__(self) -> None:
        require_some(self.constraints, "safety")

    @property
    def splits(self) -> bool:
        """False: the component changes no distribution."""
        return False

    @property
    def reported(self) -> dict[str, DeclaredMeasure]:
        """The costs and the share of violations, which are better the lower they are."""
        cost = DeclaredMeasure(direction="minimise", minimum=0.0)
        share = DeclaredMeasure(direction="minimise", minimum=0.0, maximum=1.0)
        costs = {"cost": cost, **{f"cost/{name}": cost for name in self.constraints}}
        return {**costs, "violations": share}

    def wrap(self, environment: Env, stage: Stage) -> Env:
        """Return the environment with measures for evaluation, else unchanged.

        Raises:
            ConfigError: A constraint does not fit the environment.
        """
        check_entries(self.constraints, environment, "safety")
        # With constraints on info keys, also wrap training: a missing key then fails at the first
        # step instead of at the first evaluation.
        named = any(constraint.key is not None for constraint in self.constraints.values())
        if stage is Stage.TRAINING and not named:
            return environment
        return MeasuredEnvironment(environment, self.constraints)


class MeasuredEnvironment(gym.Wrapper[Any, Any, Any, Any]):
    """Adds the costs of constraints to the info dictionary at the end of an episode.

    `cost/NAME` is the sum of violations over steps, in units of the number; `cost` is the sum of
    these; `violations` is the share of steps with any violation.
    """

    def __init__(self, env: Env, constraints: Mapping[str, Constraint]) -> None:
        super().__init__(env)
        self._constraints = constraints
        self._costs: Counter[str] = Counter()
        self._violated = self._steps = 0

    def reset(self, **settings: Any) -> tuple[Any, dict[str, Any]]:
        """Reset, and set all sums to 0."""
        self._costs.clear()
        self._violated = self._steps = 0
        return self.env.reset(**settings)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step, add up violations, and report measures at the end of the episode."""
        result = self.env.step(action)
        observation, _, terminated, truncated, info = result
        step_violations = violations(self._constraints, observation, action, info)
        self._costs.update(step_violations)
        self._steps += 1
        self._violated += any(step_violations.values())
        if terminated or truncated:
            info.setdefault(MEASURES, {}).update(self._measures())
        return result

    def _measures(self) -> dict[str, float]:
        each = {f"cost/{name}": float(self._costs[name]) for name in self._constraints}
        share = self._violated / self._steps
        return {"cost": sum(each.values()), "violations": share, **each}
