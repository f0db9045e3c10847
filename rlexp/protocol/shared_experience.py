"""Transitions of other runs that enter the replay buffer of a training at given steps."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlexp.protocol.spec import RunSpec
from rlexp.protocol.value_schedule import changes, is_scheduled, scheduled

EXPERIENCE = "experience"
"""The setting of an algorithm: a schedule by steps of digests, null before the first one."""
EXPERIENCE_KEY = f"algorithm.{EXPERIENCE}"


def changes_in_training(parts: Mapping[str, Any], keys: Iterable[str]) -> bool:
    """Whether a setting changes while a run trains, or its replay buffer receives transitions of others.

    Args:
        parts: The parts of a configuration, by name.
        keys: Dotted keys of settings.
    """
    return changes(parts, (*keys, EXPERIENCE_KEY))


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedExperience:
    """What the members of a generation share with the next one.

    Attributes:
        before: The schedule of the training that is continued; None without one.
        step: The environment step at which the transitions enter.
        runs: The runs that have made them, in the order of their trials and seeds.
    """

    before: Any
    step: int
    runs: tuple[RunSpec, ...]

    def schedule(self, digest: str) -> Any:
        """The setting of the training that goes on, as a JSON value.

        Args:
            digest: The digest of the transitions.
        """
        steps: Sequence[int] = [0]
        values: Sequence[Any] = [None]
        if is_scheduled(self.before):
            steps, values = self.before["steps"], self.before["values"]
        return scheduled([*steps, self.step], [*values, digest])
