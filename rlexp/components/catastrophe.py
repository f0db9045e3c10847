"""Catastrophes: whether an evaluated episode was one, by a bound on its return or by constraints.

Kenton et al. 2019, Generalizing from a few environments in safety-critical reinforcement learning:
the share of test episodes that end in a catastrophe stands beside the return, for a mean return hides
rare failures.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, SupportsFloat

import gymnasium as gym
from annotated_types import Interval

from rlexp.components.constraints import Constraint, check_entries, violations
from rlexp.environments import MEASURES, REWARD_SUM, Stage
from rlexp.errors import ConfigError
from rlexp.protocol.identity import Identity
from rlexp.protocol.measures import CATASTROPHE, DeclaredMeasure

Env = gym.Env[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Catastrophe:
    """Measures `catastrophe` of each evaluated episode: 1 if it was one, else 0."""

    identity: ClassVar = Identity("component", "catastrophe")

    below: Annotated[float, Interval(gt=-math.inf, lt=math.inf)] | None
    """Return below which an episode is a catastrophe; None judges no return."""
    constraints: dict[str, Constraint] | None
    """Constraints by name, or None; one step that violates one makes the episode a catastrophe."""

    def __post_init__(self) -> None:
        if self.below is None and not self.constraints:
            raise ConfigError(
                "component catastrophe has no condition: give it a return, "
                "environment.components.catastrophe.below=100, or constraints, "
                "environment.components.catastrophe.constraints={name: {entry: 0, above: 1.0}}"
            )

    @property
    def splits(self) -> bool:
        """False: the component changes no distribution."""
        return False

    @property
    def reported(self) -> dict[str, DeclaredMeasure]:
        """The share of catastrophes, which is better the lower it is."""
        share = DeclaredMeasure(direction="minimise", minimum=0.0, maximum=1.0)
        return {CATASTROPHE: share}

    def wrap(self, environment: Env, stage: Stage) -> Env:
        """Return the environment with the measure for evaluation, else unchanged.

        Raises:
            ConfigError: A constraint does not fit the environment.
        """
        constraints = self.constraints or {}
        check_entries(constraints, environment, CATASTROPHE)
        # With constraints on info keys, also wrap training: a missing key then fails at the first
        # step instead of at the first evaluation.
        named = any(constraint.key is not None for constraint in constraints.values())
        if stage is Stage.TRAINING and not named:
            return environment
        return JudgedEnvironment(environment, self.below, constraints)


class JudgedEnvironment(gym.Wrapper[Any, Any, Any, Any]):
    """Adds to the info dictionary, at the end of an episode, whether it was a catastrophe."""

    def __init__(
        self, env: Env, below: float | None, constraints: Mapping[str, Constraint]
    ) -> None:
        super().__init__(env)
        self._below, self._constraints = below, constraints
        self._rewards: list[float] = []
        self._violated = False

    def reset(self, **settings: Any) -> tuple[Any, dict[str, Any]]:
        """Reset, and forget the episode before."""
        self._rewards.clear()
        self._violated = False
        return self.env.reset(**settings)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step, and judge the episode at its end."""
        # Wrappers of the task may change rewards, by which its return is not changed. A wrapper outside
        # may step several times before the sum of the task's rewards is read and begins again.
        summed = self.env.has_wrapper_attr(REWARD_SUM)
        before = self.env.get_wrapper_attr(REWARD_SUM) if summed else 0.0
        result = self.env.step(action)
        observation, reward, terminated, truncated, info = result
        if summed:
            reward = self.env.get_wrapper_attr(REWARD_SUM) - before
        self._rewards.append(float(reward))
        step_violations = violations(self._constraints, observation, action, info)
        self._violated = self._violated or any(step_violations.values())
        if terminated or truncated:
            info.setdefault(MEASURES, {})[CATASTROPHE] = float(self._is_catastrophe)
        return result

    @property
    def _is_catastrophe(self) -> bool:
        # `fsum` is what the return of an episode is computed by: the bound is that of the return.
        too_low = self._below is not None and math.fsum(self._rewards) < self._below
        return self._violated or too_low
