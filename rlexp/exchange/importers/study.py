"""What importers read: runs of another tool, as plain numbers under the names that it gave them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import isfinite
from typing import Any

from rlexp.errors import ConfigError, RlexpError
from rlexp.records.events import Ending, Failure
from rlexp.records.run import LARGEST_SCORE

LONGEST_ERROR = 1000
"""Letters of an error that names what a file holds."""


class Returns(StrEnum):
    """What returns are of: episodes of a fixed policy, or those that the learner trained on."""

    EVALUATIONS = "evaluations"
    EVALUATION_MEANS = "means of evaluations"
    TRAINING = "training episodes"
    TRAINING_MEANS = "means of training episodes"

    @property
    def of_training(self) -> bool:
        """Whether the policy changed while they were played."""
        return self in {Returns.TRAINING, Returns.TRAINING_MEANS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What a source says of one step.

    Attributes:
        step: Environment steps.
        returns: Of each episode, undiscounted.
        lengths: Of each episode in steps; empty where they are not known.
        time: Seconds since 1970, where that is known.
        final: Whether the source says that this is the evaluation of the final policy.
    """

    step: int
    returns: tuple[float, ...]
    lengths: tuple[int, ...] = ()
    time: float | None = None
    final: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyEnd:
    """How a run ended that was not brought to its end, where the source says so."""

    step: int
    ending: Ending
    reason: str
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRun:
    """A run of another tool.

    Attributes:
        name: What the source calls it.
        label: Under which it is reported.
        task: On which it is scored.
        seed: Its seed; nothing where the source does not say.
        points: In rising order of their steps.
        returns: What the returns are of.
        files: Names and sha256 sums of what was read.
        settings: Hyperparameters, where they are known; runs of a label and a task share them.
        details: Everything else worth keeping.
        steps: Environment steps that it was asked for, where the source says so.
        started: Seconds since 1970.
        deterministic: Whether evaluations took the likeliest action, where that is known.
        trouble: How it ended early.
    """

    name: str
    label: str
    task: str
    seed: int | None
    points: tuple[Point, ...]
    returns: Returns
    files: tuple[tuple[str, str], ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    steps: int | None = None
    started: float | None = None
    deterministic: bool | None = None
    trouble: EarlyEnd | None = None

    def __str__(self) -> str:
        """Who it is, in a sentence."""
        return f"{self.name} ({self.label} on {self.task}, seed {self.seed})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedStudy:
    """Everything that was read.

    Attributes:
        kind: Of the source.
        runs: In the order of their names.
        left_out: What was there and was not read, a line each.
    """

    kind: str
    runs: tuple[ImportedRun, ...]
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What a step of the source is: `per` of them are `steps` environment steps."""

    name: str
    per: int = 1
    steps: int = 1

    def convert(self, count: int) -> int:
        """So many of the source's steps in environment steps, rounded down."""
        return count * self.steps // self.per

    def plain(self) -> dict[str, Any]:
        """As JSON values."""
        return {"unit": self.name, "per": self.per, "environment_steps": self.steps}


ENVIRONMENT = Unit(name="environment")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the user says of the source.

    Attributes:
        label: Instead of what the source says, as are `task` and `seed`.
        task: See `label`.
        seed: Of the only run; or of the first one, where the source names no seeds.
        unit: Of steps; nothing where the user does not say.
        metric: Name of what is imported, where a source holds several series.
        returns: What the returns are of, where the source cannot tell.
        collection: Name of an experiment in a source that holds several.
    """

    label: str | None = None
    task: str | None = None
    seed: int | None = None
    unit: Unit | None = None
    metric: str | None = None
    returns: Returns | None = None
    collection: str | None = None

    def required_unit(self, source: str) -> Unit:
        """The unit, of a source that does not say what its steps are.

        Raises:
            ConfigError: The user did not say it either.
        """
        if self.unit is None:
            raise ConfigError(
                f"{source} does not say what a step is: give --steps-unit environment, "
                "--steps-unit frames --frame-skip N, or --steps-unit updates --steps-per-update N"
            )
        return self.unit


class MalformedError(RlexpError):
    """A file is not what it should be; names the file, and the line or key."""


def malformed_error(name: str, where: str, what: str) -> MalformedError:
    """The error that refuses a whole import for one place in one file."""
    place = f"{name}, {where}" if where else name
    # Names of files and series may hold line breaks, and be of any length.
    text = " ".join(f"{place}: {what}".split())
    shown = text if len(text) <= LONGEST_ERROR else f"{text[:LONGEST_ERROR]}…"
    return MalformedError(f"{shown}; nothing was imported")


def is_number(value: float) -> bool:
    """Whether a return is one that can be averaged."""
    return isfinite(value) and abs(value) <= LARGEST_SCORE


def until_not_finite(points: tuple[Point, ...]) -> tuple[tuple[Point, ...], EarlyEnd | None]:
    """The points before the first whose returns are no numbers, and how the run failed there."""
    for position, point in enumerate(points):
        broken = [value for value in point.returns if not is_number(value)]
        if broken:
            reason = f"its return at step {point.step:,} is {broken[0]}, which is no number"
            trouble = EarlyEnd(
                step=point.step, ending=Ending.FAILED, reason=reason, failure=Failure.NAN
            )
            return points[:position], trouble
    return points, None
