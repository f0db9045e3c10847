"""What a command is about to run, and what that is expected to take."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rlexp.app.results import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedCheckpoint:
    """A checkpoint that a run does not continue from: its step, and the reason."""

    step: int
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginnings:
    """How the runs of a plan begin that have checkpoints.

    Attributes:
        continued: The step from which a run continues, by the run's name.
        drifts: What changed since the checkpoint of a run that continues all the same, by its name.
        anew: Checkpoints of runs that begin at step 0 in spite of them, by the run's name.
        allow_drift: The command that continues from checkpoints of other versions, if that helps.
        replay_bytes: Size of the largest replay buffer in a checkpoint, in bytes.
    """

    continued: Mapping[str, int]
    drifts: Mapping[str, str | None]
    anew: Mapping[str, RefusedCheckpoint]
    allow_drift: str | None
    replay_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """How runs are executed, and what they are expected to take.

    Attributes:
        beginnings: How runs with checkpoints begin.
        workers: Runs at a time.
        threads: Threads of each run.
        seconds: Expected duration, in seconds.
        bytes: Disk space that the runs are expected to fill, in bytes.
        measured: Whether the expectation comes from earlier runs.
        code: The commit, and whether files differ from it.
    """

    beginnings: Beginnings
    workers: int
    threads: int
    seconds: float
    bytes: int
    measured: bool
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan(Expectation):
    """What is about to run of one phase of an experiment.

    Attributes:
        experiment: Its name.
        phase: `test`, `selection` or `tuning`.
        runs: Runs that are missing, and will be started.
        done: Runs that are complete.
        failed: Runs whose failure is final; `--retry` starts them again.
        steps: Environment steps of all missing runs.
        steps_per_run: The different numbers of environment steps of the missing runs.
    """

    schema: ClassVar[Schema] = Schema("run-plan")

    experiment: str
    phase: str
    runs: int
    done: int
    failed: int
    steps: int
    steps_per_run: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOutline(Expectation):
    """What a sweep is about to do.

    Attributes:
        experiment: Its name.
        stage: The stage at which it stands.
        algorithm: The algorithm that is tuned.
        task: The task on which it is tuned.
        tuner: What proposes trials.
        pruner: What ends trials early.
        parameters: The hyperparameters that are searched.
        trials: Trials at most.
        trials_ended: Trials that have ended.
        allocation: How tuning seeds are spread over trials.
        screening_seeds: Tuning seeds that every trial gets.
        tuning_seeds: Tuning seeds of a trial that is promoted.
        promoted: Trials that get all tuning seeds, at most.
        finalists: Trials that are scored again on selection seeds.
        selection_seeds: Their number.
        test_seeds: Test seeds of the winner and of the default.
        objective: What is optimised.
        aggregate: How the scores of seeds become one number.
        lag: How many trials back a suggestion looks.
        limits: Further limits of the search, in words.
        runs: Runs to come, at most.
        steps_per_run: Environment steps of a run.
    """

    schema: ClassVar[Schema] = Schema("sweep-plan")

    experiment: str
    stage: str
    algorithm: str
    task: str
    tuner: str
    pruner: str
    parameters: tuple[str, ...]
    trials: int
    trials_ended: int
    allocation: str
    screening_seeds: int
    tuning_seeds: int
    promoted: int
    finalists: int
    selection_seeds: int
    test_seeds: int
    objective: tuple[str, ...]
    aggregate: str
    lag: int | None
    limits: str
    runs: int
    steps_per_run: int
