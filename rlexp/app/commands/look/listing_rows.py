"""The rows that `rlexp ls` lists: experiments, runs and configurations."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from rlexp.app.plans import RefusedCheckpoint
from rlexp.metrics.estimate import Estimate
from rlexp.protocol.experiment import Configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentRow:
    """One experiment in a listing.

    Attributes:
        experiment: The name of the experiment.
        task: Its tasks, separated by commas.
        label: Its labels; a long list is shortened.
        phase: The phases that have runs, separated by commas.
        planned: Number of runs in its definition.
        done: Number of planned runs that are completed or pruned.
        running: Number of planned runs that are running.
        failed: Number of planned runs that failed.
        missing: Number of planned runs in any other state.
        continued: Number of runs with an attempt that continued from a checkpoint.
        restarted: Number of runs with an attempt that started from step 0 although an earlier
            attempt had reached a later step.
        damaged: Number of runs whose records cannot be read.
        metric: The name of the aggregate (`iqm`); conditions may use it instead of `estimate`.
        estimate: The aggregate of the scores of an experiment with one configuration, in units of
            the task's return: of the test phase, or of its only phase. Null if there are several
            configurations, and for a sweep without test runs, whose runs are of several trials.
        interval: The aggregate with its interval and the method that computed it.
        last: The time of the latest record, in seconds since 1970.
        problem: Why its definition cannot be read; null if it can.
        tags: Its tags.
        note: The newest of its notes; null if it has none.
        columns: The values of the columns that were asked for, by name; of a key or of a column of
            runs, the list of the different values of its runs; of a measure, of its labels.
    """

    text_columns: ClassVar[tuple[str, ...]] = (
        *("experiment", "task", "label", "phase", "problem", "tags", "note"),
    )
    number_columns: ClassVar[tuple[str, ...]] = (
        *("planned", "done", "running", "failed", "missing", "continued", "restarted"),
        *("damaged", "estimate", "last"),
    )

    experiment: str
    task: str | None
    label: str | None
    phase: str | None
    planned: int
    done: int
    running: int
    failed: int
    missing: int
    continued: int
    restarted: int
    damaged: int
    metric: str
    estimate: float | None
    interval: Estimate | None
    last: float | None
    problem: str | None
    tags: tuple[str, ...] = ()
    note: str | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRun:
    """One run in a listing; for a damaged run, only `run`, `state` and `problem` are set.

    Attributes:
        run: The name of the run.
        label: The label under which it is compared.
        task: Its task.
        phase: Its phase.
        seed: Its seed within the phase.
        state: `planned`, `running`, `completed`, `failed`, `pruned`, `interrupted`, `lost` or
            `damaged`.
        failure: The kind of its failure; null if it did not fail.
        reason: Why it ended in its state.
        score: Its score; null if it has none.
        measure_means: Mean of each measure over the final episodes that report it, by name.
        measures: The same as text (`cost 2.1, success 0.83`); null if there are none.
        step: Steps so far.
        steps: Steps of its budget.
        unit: The unit of steps: `environment_steps`, or `environment.unit`.
        seconds: Duration of the attempts that form its record, in seconds.
        seconds_spent: Duration of all attempts, in seconds.
        attempts: Number of attempts.
        continued: Steps of the checkpoints from which attempts continued.
        restarts: Number of attempts that started from step 0 although an earlier attempt had
            reached a later step.
        refused: Checkpoints from which attempts did not continue.
        drift: The versions that had changed when an attempt continued anyway.
        unreadable_lines: Number of lines of its journal that cannot be read.
        began: Where the attempts after the first started (`checkpoint 40,000`, `anew`); null if
            there was only one.
        last: The time of the latest record, in seconds since 1970.
        parameters: In a sweep, the searched hyperparameters of its trial (`gamma=0.958
            n_epochs=5`), with up to four digits; null elsewhere.
        problem: What is wrong with its folder; null if nothing is.
        tags: Its tags.
        note: The newest of its notes; null if it has none.
        columns: The values of the columns that were asked for, by name.
        configuration: Its configuration, in Python only.
    """

    text_columns: ClassVar[tuple[str, ...]] = (
        *(
            "run",
            "label",
            "task",
            "phase",
            "state",
            "failure",
            "reason",
            "measures",
            "unit",
            "began",
            "parameters",
            "problem",
            "tags",
            "note",
        ),
    )
    number_columns: ClassVar[tuple[str, ...]] = (
        *("seed", "score", "step", "steps", "seconds", "seconds_spent", "attempts", "restarts"),
        *("unreadable_lines", "last"),
    )

    run: str
    label: str | None = None
    task: str | None = None
    phase: str | None = None
    seed: int | None = None
    state: str
    failure: str | None = None
    reason: str | None = None
    score: float | None = None
    measure_means: Mapping[str, float] = field(default_factory=dict)
    measures: str | None = None
    step: int | None = None
    steps: int | None = None
    unit: str | None = None
    seconds: float | None = None
    seconds_spent: float | None = None
    attempts: int | None = None
    continued: tuple[int, ...] = ()
    restarts: int | None = None
    refused: tuple[RefusedCheckpoint, ...] = ()
    drift: tuple[str, ...] = ()
    unreadable_lines: int | None = None
    began: str | None = None
    last: float | None = None
    parameters: str | None = None
    problem: str | None = None
    tags: tuple[str, ...] = ()
    note: str | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)
    configuration: Configuration | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationRow:
    """The scores of one configuration in one phase.

    Attributes:
        experiment: The name of the experiment.
        label: The label of the configuration.
        task: Its task.
        phase: The phase.
        planned: Number of planned runs.
        n: Number of scores in the aggregate.
        metric: The name of the aggregate (`iqm`); conditions may use it instead of `estimate`.
        estimate: The aggregate of the scores, in units of the score.
        low: The lower end of its interval.
        high: The upper end of its interval.
        failed: Number of failed runs.
        missing: Number of runs with neither a score nor a failure.
        counted_as_worst: Number of runs without a score that enter the aggregate with the
            declared worst score.
        interval: The aggregate with its interval and the method that computed it.
        parameters: In a sweep, the searched hyperparameters of its trial (`gamma=0.958
            n_epochs=5`), with up to four digits; null elsewhere.
        columns: The values of the columns that were asked for, by name.
    """

    text_columns: ClassVar[tuple[str, ...]] = (
        "experiment",
        "label",
        "task",
        "phase",
        "parameters",
    )
    number_columns: ClassVar[tuple[str, ...]] = (
        *("planned", "n", "estimate", "low", "high", "failed", "missing", "counted_as_worst"),
    )

    experiment: str
    label: str
    task: str
    phase: str
    planned: int
    n: int
    metric: str
    estimate: float | None
    low: float | None
    high: float | None
    failed: int
    missing: int
    counted_as_worst: int
    interval: Estimate | None
    parameters: str | None
    columns: Mapping[str, Any] = field(default_factory=dict)
