"""What importers return: the runs of another tool, with the names that the tool gave them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import isfinite
from typing import Any

from rlexp.conditions import Condition
from rlexp.errors import ConfigError, RlexpError
from rlexp.exchange.importers.name_patterns import PathPattern
from rlexp.records.events import Ending, Failure
from rlexp.records.run import LARGEST_SCORE

LONGEST_ERROR = 1000
"""Characters of the longest error message about a file."""


class ReturnKind(StrEnum):
    """The kind of returns: of evaluations of a fixed policy, or of training episodes."""

    EVALUATIONS = "evaluations"
    EVALUATION_MEANS = "means of evaluations"
    TRAINING = "training episodes"
    TRAINING_MEANS = "means of training episodes"
    OBJECTIVE = "values of trials"
    SCORES = "scores of final policies"

    @property
    def of_training(self) -> bool:
        """Whether the policy was learning during the episodes."""
        return self in {ReturnKind.TRAINING, ReturnKind.TRAINING_MEANS}


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationPoint:
    """One point of a run's curve.

    Attributes:
        step: Environment steps.
        returns: Undiscounted return of each episode.
        lengths: Steps of each episode; empty if unknown.
        time: Seconds since 1970, if known.
        final: Whether the source marks this as the evaluation of the final policy.
    """

    step: int
    returns: tuple[float, ...]
    lengths: tuple[int, ...] = ()
    time: float | None = None
    final: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyEnd:
    """How a run ended before its budget was used."""

    step: int
    ending: Ending
    reason: str
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRun:
    """A run of another tool.

    Attributes:
        name: The name of the run in its source.
        label: The label under which it is reported.
        task: The task on which it is scored.
        seed: Its seed; None if the source does not name it.
        points: Points in rising order of steps.
        returns: The kind of the returns.
        files: Names and sha256 sums of the files that were read.
        settings: Hyperparameters, if known; equal for all runs of a label on a task.
        details: Further information worth keeping.
        steps: Planned environment steps, if the source names them.
        started: Seconds since 1970.
        deterministic: Whether evaluations used the most probable action, if known.
        trouble: How the run ended early; None if it was completed.
        parameters: Parameters by which the run can be distinguished from others.
        metric: The name of the imported series, if its values are no returns.
    """

    name: str
    label: str
    task: str
    seed: int | None
    points: tuple[EvaluationPoint, ...]
    returns: ReturnKind
    files: tuple[tuple[str, str], ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    steps: int | None = None
    started: float | None = None
    deterministic: bool | None = None
    trouble: EarlyEnd | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    metric: str | None = None

    def __str__(self) -> str:
        """The run's name, label, task and seed, for messages."""
        return f"{self.name} ({self.label} on {self.task}, seed {self.seed})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedStudy:
    """Everything that was read from a source.

    Attributes:
        kind: The kind of source.
        runs: Runs in the order of their names.
        left_out: Files and parts that were not read, a line each.
    """

    kind: str
    runs: tuple[ImportedRun, ...]
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepUnit:
    """The unit of a source's steps: `per` units are `steps` environment steps."""

    name: str
    per: int = 1
    steps: int = 1

    def convert(self, count: int) -> int:
        """Convert a count of the source's steps into environment steps, rounded down."""
        return count * self.steps // self.per

    def plain(self) -> dict[str, Any]:
        """The unit as JSON values."""
        return {"unit": self.name, "per": self.per, "environment_steps": self.steps}


ENVIRONMENT = StepUnit(name="environment")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """The user's options for reading a source; None: as the source says.

    Attributes:
        label: Label of all runs.
        task: Task of all runs.
        seed: Seed of the only run, or of the first one if the source names no seeds.
        unit: Unit of the steps.
        metric: Name of the series to import.
        returns: The kind of the returns.
        collection: Name of the experiment to import from a source with several experiments.
        path: The pattern of the paths of runs, which names their labels, tasks and seeds.
        label_from: Parameters whose values become part of the label.
        task_from: The parameter that names the task.
        seed_from: The parameter that is the seed.
        where: The conditions that a run must satisfy.
        columns: The column of a table for each field that has another name there.
    """

    label: str | None = None
    task: str | None = None
    seed: int | None = None
    unit: StepUnit | None = None
    metric: str | None = None
    returns: ReturnKind | None = None
    collection: str | None = None
    path: PathPattern | None = None
    label_from: tuple[str, ...] = ()
    task_from: str | None = None
    seed_from: str | None = None
    where: tuple[Condition, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)

    def required_unit(self, source: str) -> StepUnit:
        """The unit of a source that does not define its steps.

        Raises:
            ConfigError: The user did not give the unit.
        """
        if self.unit is None:
            raise ConfigError(
                f"{source} does not define the unit of its steps: give --steps-unit environment, "
                "--steps-unit frames --frame-skip N, or --steps-unit updates --steps-per-update N"
            )
        return self.unit


class MalformedError(RlexpError):
    """A file has another form than expected; the message names the file, and the line or key."""


def malformed_error(name: str, where: str, what: str) -> MalformedError:
    """The error that refuses a whole import because of one position in one file."""
    position = f"{name}, {where}" if where else name
    # Names of files and series may contain line breaks and have any length.
    text = " ".join(f"{position}: {what}".split())
    shown = text if len(text) <= LONGEST_ERROR else f"{text[:LONGEST_ERROR]}…"
    return MalformedError(f"{shown}; nothing was imported")


def is_number(value: float) -> bool:
    """Whether a return is finite and small enough to be averaged."""
    return isfinite(value) and abs(value) <= LARGEST_SCORE


def until_not_finite(
    points: tuple[EvaluationPoint, ...],
) -> tuple[tuple[EvaluationPoint, ...], EarlyEnd | None]:
    """The points before the first non-finite return, and the failure at that point."""
    for position, point in enumerate(points):
        unusable = [value for value in point.returns if not is_number(value)]
        if unusable:
            # The text of the reason is part of the digest by which a run is recognised when it is
            # imported again: it must not change.
            reason = f"its return at step {point.step:,} is {unusable[0]}, which is no number"
            trouble = EarlyEnd(
                step=point.step, ending=Ending.FAILED, reason=reason, failure=Failure.NAN
            )
            return points[:position], trouble
    return points, None
