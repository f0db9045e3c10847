"""Constraints as terminations (CaT; Chane-Sane et al. 2024).

A violation ends, with some probability, all that could still be earned. The paper multiplies the
future by one minus that probability; here an episode is ended with that probability, which is the
same in expectation and needs no change of the learner.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, SupportsFloat

import gymnasium as gym
from annotated_types import Gt, Interval

from rlexp.components.constraints import Constraint, check_places, require_some, violations
from rlexp.environments import Stage
from rlexp.errors import ConfigError
from rlexp.protocol.identity import Identity

Env = gym.Env[Any, Any]
Probability = Annotated[float, Interval(ge=0, le=1)]
NAME = "constraints_as_terminations"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintsAsTerminations:
    """An episode ends with a probability that grows with what is beyond the bounds."""

    identity: ClassVar = Identity("component", "constraints_as_terminations")

    constraints: dict[str, Constraint]
    """What is to stay within bounds, by name."""
    probability: Probability | dict[str, Probability]
    """That the worst violation ends an episode: of all constraints, or of each by its name."""
    scale: dict[str, Annotated[float, Gt(0)]] | None
    """The worst violation of constraints by name, in their units; that of others is learnt."""
    decay: Annotated[float, Interval(ge=0, le=1)]
    """How much of a learnt worst violation an episode leaves; the paper's code has 0.95."""
    shift: float
    """Added to every reward first: where one is negative, ending early would pay."""
    stage: Literal["training", "both"]
    """Where it acts; what is evaluated is the task as it is, unless it is both."""

    def __post_init__(self) -> None:
        require_some(self.constraints, NAME)
        for setting in ("probability", "scale"):
            given = getattr(self, setting)
            if isinstance(given, Mapping):
                self._check_names(setting, given)
        if isinstance(self.probability, Mapping) and (
            missing := [n for n in self.constraints if n not in self.probability]
        ):
            raise ConfigError(
                f"environment.components.{NAME}.probability lacks {', '.join(missing)}: give one "
                "to each constraint, or a single number to all"
            )

    def _check_names(self, setting: str, given: Mapping[str, float]) -> None:
        for name in given:
            if name not in self.constraints:
                raise ConfigError.unknown(
                    f"environment.components.{NAME}.{setting} is about '{name}', which is no "
                    "constraint",
                    name,
                    self.constraints,
                    key=f"environment.components.{NAME}.{setting}",
                )

        if self.stage == "both" and (
            learnt := [n for n in self.constraints if n not in (self.scale or {})]
        ):
            raise ConfigError(
                f"component {NAME} with stage=both needs a scale of {', '.join(learnt)}: "
                f"environment.components.{NAME}.scale={{{learnt[0]}: …}}; a learnt one would let "
                "scores depend on the evaluations before"
            )

    @property
    def splits(self) -> bool:
        """It helps to learn; evaluation holds nothing out."""
        return False

    def wrap(self, environment: Env, stage: Stage) -> Env:
        """Return the environment, ended by violations where that acts.

        Raises:
            ConfigError: A constraint does not fit the environment.
        """
        check_places(self.constraints, environment, NAME)
        if stage is not Stage.TRAINING and self.stage != "both":
            return environment
        return TerminatingEnvironment(environment, self)

    def highest(self, name: str) -> float:
        """The probability of a constraint at its worst violation."""
        given = self.probability
        return given[name] if isinstance(given, Mapping) else given


class TerminatingEnvironment(gym.Wrapper[Any, Any, Any, Any]):
    """An environment whose episodes end where constraints are violated, by chance.

    What it learns of the worst violations outlives an episode: a run that was killed begins anew
    then. Where every scale is given, it goes on from its checkpoint.
    """

    def __init__(self, env: Env, settings: ConstraintsAsTerminations) -> None:
        super().__init__(env)
        self._settings = settings
        self._fixed = settings.scale or {}
        self._learnt: dict[str, float] = {}
        self._worst: dict[str, float] = {}

    def reset(self, **settings: Any) -> tuple[Any, dict[str, Any]]:
        """Reset; what was worst in the episode before moves what counts as worst.

        The paper averages so over batches of steps from thousands of environments.
        """
        decay = self._settings.decay
        for name, worst in self._worst.items():
            before = self._learnt.get(name)
            learnt = worst if before is None else decay * before + (1 - decay) * worst
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
            terminated = terminated or bool(self.np_random.random() < chance)
        return observation, shifted * (1 - chance), terminated, truncated, info

    def _chance(self, found: Mapping[str, float]) -> float:
        """The highest chance of an end that a violation brings about."""
        highest = 0.0
        for name, violation in found.items():
            worst = self._fixed.get(name) or self._learn(name, violation)
            if violation > 0:
                share = min(1.0, violation / worst)
                highest = max(highest, self._settings.highest(name) * share)
        return highest

    def _learn(self, name: str, violation: float) -> float:
        """The worst violation to compare with: that of episodes before, or of this one so far."""
        self._worst[name] = max(self._worst.get(name, 0.0), violation)
        return self._learnt.get(name) or self._worst[name]

    def _check_sign(self, reward: float) -> None:
        if reward < 0:
            raise ConfigError(
                f"component {NAME}: the reward of a violation is {reward:g}, so that ending "
                f"early would pay; raise environment.components.{NAME}.shift by at least "
                f"{-reward:g}"
            )
