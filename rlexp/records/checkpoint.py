"""What a checkpoint holds: everything that a run needs to go on as if nothing had happened."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

MODEL = "model.zip"
"""The learner's parameters and optimisers, in the format of stable-baselines3."""
NORMALISATION = "normalisation.npz"
"""Statistics of normalised observations and rewards, where there are any."""
STATE = "state.npz"
"""Everything else: counters, generators, environments."""


@dataclass(frozen=True, slots=True)
class Transitions:
    """A stretch of experience, counted from the run's first transition on."""

    begin: int
    end: int
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A complete checkpoint that is to be published.

    Attributes:
        step: Environment steps that the run had taken.
        files: Content of each file, by its name.
        oldest: The first transition that the replay buffer still holds; 0 where there is none.
        transitions: What the buffer has received since the checkpoint published before.
    """

    step: int
    files: Mapping[str, bytes] = field(repr=False)
    oldest: int = 0
    transitions: Transitions | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedCheckpoint:
    """A checkpoint that was read back; every sum of its files was right.

    Attributes:
        step: Environment steps that the run had taken.
        about: What was recorded of its origin: run, attempt, versions.
        files: Content of each file, by its name.
        transitions: Reads the stretches that the replay buffer held, oldest first, each verified
            as it is read; raises RecordError where one is damaged or missing.
    """

    step: int
    about: Mapping[str, Any]
    files: Mapping[str, bytes] = field(repr=False)
    transitions: Callable[[], Iterator[Transitions]] = field(repr=False)
