"""Plans of runs and sweeps: the runs to start, and their expected time and disk space."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rlexp.app.results import Displayed, Schema
from rlexp.protocol.units import ENVIRONMENT_STEPS

POPULATIONS = frozenset({"pbt", "pb2"})
"""The tuners whose trials are parts of the trainings of members; a rival is tested beside the winner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedCheckpoint:
    """A checkpoint that a run cannot continue from.

    Attributes:
        step: The step of the checkpoint.
        reason: Why the checkpoint was refused.
    """

    step: int
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartingPoints:
    """Where the runs of a plan that have checkpoints start.

    Attributes:
        continued: The step from which each run continues, by the run's name.
        drifts: The versions that changed since the checkpoint from which a run continues anyway,
            by the run's name.
        anew: The refused checkpoint of each run that starts from step 0, by the run's name.
        allow_drift: The command that continues from checkpoints of other versions; null where no
            checkpoint was refused for its versions.
        replay_bytes: Size of the largest replay buffer in a checkpoint, in bytes.
        rewritten_bytes: Size of what changes in place in the largest replay buffer, which each checkpoint
            writes whole, in bytes.
    """

    continued: Mapping[str, int]
    drifts: Mapping[str, str | None]
    anew: Mapping[str, RefusedCheckpoint]
    allow_drift: str | None
    replay_bytes: int
    rewritten_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionEstimate:
    """How runs are executed, and their expected time and disk space.

    Attributes:
        beginnings: Where runs with checkpoints start.
        workers: Number of runs, or of batches of runs, at a time.
        batch: Compiled runs that are advanced together in a batch; 1 for runs by themselves.
        threads: Threads of each run.
        seconds: Expected duration of all runs, in seconds.
        bytes: Expected disk space of all runs, in bytes.
        seconds_low: The least duration to expect, in seconds; null for a first guess.
        seconds_high: The longest duration to expect, in seconds; null for a first guess.
        measured: Whether the expected values were measured, by earlier runs or by probes.
        basis: Where the least certain part of the expectation comes from: `runs` (earlier runs),
            `probe` (some seconds of training) or `guess`.
        code: The git commit, and whether files differ from it.
    """

    beginnings: StartingPoints
    workers: int
    batch: int
    threads: int
    seconds: float
    seconds_low: float | None
    seconds_high: float | None
    bytes: int
    measured: bool
    basis: str
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedCell:
    """A configuration of a plan that cannot be trained.

    Attributes:
        label: The label of the configuration.
        task: The task of the configuration.
        reason: Why it cannot be trained, and what to do.
    """

    label: str
    task: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan(ExecutionEstimate, Displayed):
    """The plan of one phase of an experiment.

    Attributes:
        experiment: The name of the experiment.
        phase: `test`, `selection` or `tuning`.
        runs: Number of missing runs, which will be started.
        done: Number of completed runs.
        failed: Number of runs whose failure is final; `--retry` repeats them.
        steps: Steps of all missing runs together.
        steps_per_run: The distinct numbers of steps per missing run.
        unit: The unit of steps: `environment_steps`, or `environment.unit`.
        offline_steps_per_run: The distinct numbers of gradient steps on a dataset before the first step
            of a missing run; empty where no run has any.
        reach: Why no verdict is possible with the planned seeds; null if one is possible, or if
            there is nothing to compare.
        looks: What to do where the test seeds have been looked at with other configurations; null
            otherwise.
        protocol: The registered protocol, and whether the plan keeps it; null where the experiment is not
            registered.
        refused: Configurations that cannot be trained, which are in no number of the plan; empty
            outside a dry run, because a run with one of them is refused.
        kept_replay_bytes: Size of the replay buffers that stay on disk when the runs have ended, in
            bytes, at most.
        remarks: What never acts in so few steps, and callbacks that keep no state, one sentence each.
    """

    schema: ClassVar[Schema] = Schema("run-plan")

    experiment: str
    phase: str
    runs: int
    done: int
    failed: int
    steps: int
    steps_per_run: tuple[int, ...]
    unit: str = ENVIRONMENT_STEPS
    offline_steps_per_run: tuple[int, ...] = ()
    reach: str | None = None
    looks: str | None = None
    protocol: str | None = None
    refused: tuple[RefusedCell, ...] = ()
    kept_replay_bytes: int = 0
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOutline(ExecutionEstimate, Displayed):
    """The plan of a sweep.

    Attributes:
        experiment: The name of the experiment.
        stage: The present stage (`search`, `promotion`, `selection`, `test` or `done`).
        algorithm: The algorithm that is tuned.
        task: The task on which it is tuned; several are separated by commas.
        tasks: The tasks on which it is tuned.
        normalisation: How scores on several tasks become comparable; null with one task.
        screening_tasks: Number of tasks of every trial.
        tuner: The tuner that proposes trials.
        pruner: The pruner that ends trials early.
        parameters: The names of the searched hyperparameters.
        trials: Maximum number of trials.
        trials_ended: Number of trials that have ended.
        enqueued: Number of given configurations that are tried after the default one.
        allocation: The rule by which trials get tuning seeds.
        screening_seeds: Number of tuning seeds of every trial.
        screening_episodes: Episodes of the final evaluation of a run on the first tuning seed; null: as
            many as in every other run.
        tuning_seeds: Number of tuning seeds of a promoted trial.
        promoted: Maximum number of trials that get all tuning seeds.
        finalists: Number of trials that are scored again on selection seeds.
        selection_seeds: Number of selection seeds.
        test_seeds: Number of test seeds of the winner and of the default configuration.
        objective: The names of the optimised measures.
        aggregate: The aggregate of scores over seeds.
        lag: Number of latest trials that a suggestion does not use.
        limits: Further limits of the search, as text.
        continuation: How runs with more steps begin, as text; null where no run continues another.
        runs: Maximum number of runs that are still to come.
        steps_per_run: Steps per run.
        unit: The unit of steps: `environment_steps`, or `environment.unit`.
        offline_steps: Gradient steps on a dataset before the first step of a run of the default
            configuration; 0 without a dataset.
        population_runs: In the search of a population, the maximum number of runs that are still to come,
            parts of trainings among them; `runs` is then the number of whole runs with as many steps.
            Null otherwise.
    """

    schema: ClassVar[Schema] = Schema("sweep-plan")

    experiment: str
    stage: str
    algorithm: str
    task: str
    tasks: tuple[str, ...]
    normalisation: str | None
    screening_tasks: int
    tuner: str
    pruner: str
    parameters: tuple[str, ...]
    trials: int
    trials_ended: int
    enqueued: int
    allocation: str
    screening_seeds: int
    screening_episodes: int | None
    tuning_seeds: int
    promoted: int
    finalists: int
    selection_seeds: int
    test_seeds: int
    objective: tuple[str, ...]
    aggregate: str
    lag: int | None
    limits: str
    continuation: str | None
    runs: int
    steps_per_run: int
    unit: str
    offline_steps: int = 0
    population_runs: int | None = None
