"""The random teacher: draws every task uniformly."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rlexp.components.teachers import Array, Lessons
from rlexp.components.teachers.taught import Env, taught
from rlexp.environments import Stage
from rlexp.protocol.identity import Identity


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomTeacher:
    """Uniform draws within the bounds: the baseline for all other teachers.

    Portelas et al. 2019, section 5.1 (Random).
    """

    identity: ClassVar = Identity("teacher", "random")
    splits: ClassVar = False
    """A teacher does not change evaluation."""

    def wrap(self, environment: Env, stage: Stage) -> Env:
        """Return the environment with contexts from this teacher for training, else unchanged."""
        return taught(environment, stage, self, None)

    def begin(self, low: Array, high: Array, generator: np.random.Generator) -> Lessons:
        """Return new lessons for one environment."""
        return RandomLessons(low, high, generator)


@dataclass(frozen=True, slots=True)
class RandomLessons:
    """Uniform draws between two corners of a box."""

    low: Array
    high: Array
    generator: np.random.Generator

    def propose(self) -> Array:
        """Draw a task."""
        return self.generator.uniform(self.low, self.high)

    def learn(self, task: Array, outcome: float) -> None:
        """Ignore the outcome."""
        del task, outcome
