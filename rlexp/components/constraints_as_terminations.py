"""Constraints as terminations (CaT; Chane-Sane et al. 2024).

A violation ends the episode with a probability that grows with its size. The paper multiplies the
discounted future by one minus this probability; ending the episode with this probability is the
same in expectation, and needs no change of the learner.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, SupportsFloat

import gymnasium as gym
from annotated_types import Gt, Interval

from rlexp.components.constraints import Constraint, check_entries, require_some, violations
from rlexp.environments import Stage
from rlexp.errors import ConfigError
from rlexp.protocol.identity import Identity

Env = gym.Env[Any, Any]
Probability = Annotated[float, Interval(ge=0, le=1)]
NAME = "constraints_as_terminations"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintsAsTerminations:
    """Ends episodes with a probability that grows with the violation of constraints."""

    identity: ClassVar = Identity("component", "constraints_as_terminations")

    constraints: dict[str, Constraint]
    """The constraints by name."""
    probability: Probability | dict[str, Probability]
    """Probability that the worst violation ends an episode: one for all constraints, or by name."""
    scale: dict[str, Annotated[float, Gt(0)]] | None
    """Worst violation by name of the constraint, in its units; it is learnt for the others."""
    decay: Annotated[float, Interval(ge=0, le=1)]
    """Weight of the old value in the update of a learnt worst violation; the paper uses 0.95."""
    shift: float
    """Added to every reward before scaling; with negative rewards, ending early would pay."""
    stage: Literal["training", "both"]
    """Stage at which constraints end episodes; `training` leaves evaluations unchanged."""

    def __post_init__(self) -> None:
        require_some(self.constraints, NAME)
        for setting in ("probability", "scale"):
            value = getattr(self, setting)
            if isinstance(value, Mapping):
                self._check_names(setting, value)
        if isinstance(self.probability, Mapping) and (
            missing := [n for n in self.constraints if n not in self.probability]
        ):
            raise ConfigError(
                f"environment.components.{NAME}.probability lacks {', '.join(missing)}: give one "
                "to each constraint, or a single number to all"
            )
        if self.stage == "both" and (
            learnt := [n for n in self.constraints if n not in (self.scale or {})]
        ):
            raise ConfigError(
                f"component {NAME} with stage=both needs a scale of {', '.join(learnt)}: "
                f"environment.components.{NAME}.scale={{{learnt[0]}: …}}; a learnt scale would make "
                "scores depend on earlier evaluations"
            )

    def _check_names(self, setting: str, values: Mapping[str, float]) -> None:
        for name in values:
            if name not in self.constraints:
                raise ConfigError.unknown(
                    f"environment.components.{NAME}.{setting} names '{name}', which is not a "
                    "constraint",
                    name,
                    self.constraints,
                    key=f"environment.components.{NAME}.{setting}",
                )

    @property
    def splits(self) -> bool:
        """False: evaluation uses the same distribution as training."""
        return False

    def wrap(self, environment: Env, stage: Stage) -> Env:
        """Return the environment whose episodes may end at violations, or unchanged.

        Raises:
            ConfigError: A constraint does not fit the environment.
        """
        check_entries(self.constraints, environment, NAME)
        if stage is not Stage.TRAINING and self.stage != "both":
            return environment
        return TerminatingEnvironment(environment, self)

    def highest(self, name: str) -> float:
        """Return the probability that the worst violation of a constraint ends an episode."""
        probability = self.probability
        return probability[name] if isinstance(probability, Mapping) else probability


class TerminatingEnvironment(gym.Wrapper[Any, Any, Any, Any]):
    """Ends episodes at random where constraints are violated.

    Learnt worst violations are kept over episodes, and a replay of the current episode cannot
    restore them: a killed run then starts from scratch. With a scale for every constraint, a killed
    run continues from its checkpoint.
    """

    acts_as = "component constraints_as_terminations"

    def __init__(self, env: Env, settings: ConstraintsAsTerminations) -> None:
        super().__init__(env)
        self.acted = 0
        self._settings = settings
        self._fixed = settings.scale or {}
        self._learnt: dict[str, float] = {}
        self._worst: dict[str, float] = {}

    def reset(self, **settings: Any) -> tuple[Any, dict[str, Any]]:
        """Reset, and update the learnt worst violations with those of the last episode.

        The paper updates them with batches of steps from thousands of environments.
        """
        decay = self._settings.decay
        for name, worst in self._worst.items():
            before = self._learnt.get(name)
            learnt = worst if before is None else decay * before + (1 - decay) * worst
            # Later violations are divided by this number, which must not be 0.
            if learnt > 0:
                self._learnt[name] = learnt
        self._worst = {}
        return self.env.reset(**settings)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step, scale the reward, and perhaps end the episode."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        shifted = float(reward) + self._settings.shift
        chance = self._chance(violations(self._settings.constraints, observation, action, info))
        if chance > 0:
            self._check_sign(shifted)
            self.acted += 1
            terminated = terminated or bool(self.np_random.random() < chance)
        return observation, shifted * (1 - chance), terminated, truncated, info

    def _chance(self, step_violations: Mapping[str, float]) -> float:
        """Return the largest probability over constraints that this step ends the episode."""
        highest = 0.0
        for name, violation in step_violations.items():
            worst = self._fixed.get(name) or self._learn(name, violation)
            if violation > 0:
                share = min(1.0, violation / worst)
                highest = max(highest, self._settings.highest(name) * share)
        return highest

    def _learn(self, name: str, violation: float) -> float:
        """Return the worst violation so far: of earlier episodes, else of the current one."""
        self._worst[name] = max(self._worst.get(name, 0.0), violation)
        return self._learnt.get(name) or self._worst[name]

    def _check_sign(self, reward: float) -> None:
        if reward < 0:
            raise ConfigError(
                f"component {NAME}: the reward of a violation is {reward:g}, so that ending "
                f"early would pay; raise environment.components.{NAME}.shift by at least "
                f"{-reward:g}"
            )
