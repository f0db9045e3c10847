"""Transitions of other runs, which enter the replay buffer of a training at given steps."""

from bisect import bisect_right
from collections.abc import Callable, Iterable
from math import inf

from stable_baselines3.common.base_class import BaseAlgorithm

from rlexp.protocol.step_schedule import StepSchedule
from rlexp.records.checkpoint import Transitions
from rlexp.training.learner_state import add_rows

STAGE = "experience_stage"
"""Attribute of a learner: the number of the last part of the schedule whose transitions it has."""
ReadExperience = Callable[[str], Iterable[Transitions]]
"""Reads the transitions with a digest."""


class EnteringExperience:
    """Adds shared transitions to a learner's buffer at the first rollout from their step on."""

    def __init__(
        self, schedule: StepSchedule[str | None] | None, read: ReadExperience | None
    ) -> None:
        self._schedule, self._read = schedule, read
        self._due: float = inf if schedule is None else 0

    def set_on(self, model: BaseAlgorithm) -> None:
        """Add what is due at the rollout that begins now."""
        step = model.num_timesteps
        # Off-policy learners begin a rollout at each step: the usual case costs one comparison.
        if step < self._due or self._schedule is None:
            return
        present = bisect_right(self._schedule.steps, step) - 1
        for stage in range(int(getattr(model, STAGE, -1)) + 1, present + 1):
            digest = self._schedule.values[stage]
            if digest is not None:
                if self._read is None:
                    raise ValueError("this process cannot read the transitions of other runs")
                add_rows(model, self._read(digest))
            setattr(model, STAGE, stage)
        following = self.next_change(step)
        self._due = inf if following is None else following

    def next_change(self, after: int) -> int | None:
        """The first step after `after` at which transitions enter, or None."""
        return None if self._schedule is None else self._schedule.next_change(after)
