"""Trackers copy the records of runs to other services; no result depends on a tracker.

The journals of a run become rows, one for each environment step at which something was recorded.
A mirror process reads the rows and uploads those that the service does not have yet. The sync
position of each service is stored on disk, so that the next process continues from there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from rlexp.metrics.estimate import Estimate
from rlexp.metrics.estimate_text import sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRow:
    """The metrics of a run at one environment step.

    Attributes:
        step: Environment steps.
        time: When it was recorded, in seconds since 1970.
        metrics: Values by name: what the learner logged, under the names of stable-baselines3
            (`rollout/ep_rew_mean`, `train/loss` …); of an evaluation `eval/mean_reward`,
            `eval/std_reward` and `eval/mean_ep_length`; of the final evaluation the same names
            under `final/`. A value may be nan or infinite.
    """

    step: int
    time: float
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedExperiment:
    """An experiment, as it is shown to a service.

    Attributes:
        id: Random, made when the experiment was first mirrored: experiments of the same name in
            different folders have different ids. If its file is deleted, everything is uploaded
            again under a new id.
        name: The experiment's name under `runs/`.
        project: The folder that holds `runs/`.
        folder: Where this tracker may keep its files.
        definition: The content of `experiment.json`, secrets masked.
        is_sweep: Whether a tuner proposes the configurations.
        shared: Whether several machines use the project's folder; a database file is not safe
            there.
    """

    id: str
    name: str
    project: Path
    folder: Path
    definition: Mapping[str, Any]
    is_sweep: bool
    shared: bool = False

    @property
    def configurations(self) -> Sequence[Mapping[str, Any]]:
        """The configurations in its definition; of a sweep, the default one only."""
        listed = self.definition.get("configurations")
        return [c for c in listed if isinstance(c, Mapping)] if isinstance(listed, list) else []

    @property
    def tasks(self) -> frozenset[str]:
        """The tasks of its configurations."""
        return frozenset(str(c.get("task")) for c in self.configurations)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedRun:
    """A run, as it is shown to a service.

    Attributes:
        id: 32 hexadecimal digits, unique among all experiments, and the same at every call.
        name: The name of its folder.
        group: Its label; the experiment's name for a trial or a finalist of a sweep.
        label: The name under which it is reported.
        task: The environment on which it is scored.
        phase: `tuning`, `selection` or `test`.
        seed: Its number within the phase.
        trial: Number of the sweep's trial that it belongs to, if any.
        fingerprint: Hash of its configuration without the seed.
        configuration: What defines it: secrets masked, environment variables unresolved.
        provenance: Command, code, packages and machine of the newest attempt; secrets masked.
        started: Start of the first attempt, in seconds since 1970.
        tags: The tags that users gave the experiment or the run.
        group_started: Start of the first run of its group; None where it is not known.
    """

    id: str
    name: str
    group: str
    label: str
    task: str
    phase: str
    seed: int
    trial: int | None
    fingerprint: str
    configuration: Mapping[str, Any]
    provenance: Mapping[str, Any]
    started: float
    tags: Sequence[str] = ()
    group_started: float | None = None

    @property
    def title(self) -> str:
        """What it is, in words: its trial or its label, its phase and its seed."""
        configuration = self.label if self.trial is None else f"trial {self.trial}"
        return f"{configuration} {self.phase} seed {self.seed}"

    @property
    def commit(self) -> str | None:
        """The git commit of the user's code, if it was recorded."""
        code = self.provenance.get("code")
        commit = code.get("commit") if isinstance(code, Mapping) else None
        return commit if isinstance(commit, str) else None

    def title_in(self, experiment: TrackedExperiment) -> str:
        """Its title, with its task where the experiment has several tasks."""
        return f"{self.title} on {self.task}" if len(experiment.tasks) > 1 else self.title


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """The state of a run after its newest attempt.

    Attributes:
        state: `completed`, `failed`, `pruned`, `interrupted` or `lost`. Runs in the last two
            states, and runs that failed because of the machine, continue when the same command
            is given again.
        time: End of the attempt, in seconds since 1970.
        step: Environment steps that were reached.
        seconds: Duration of the attempt.
        attempts: Number of attempts.
        score: The score by the budget's rule; None for a run that did not complete.
        score_rule: `final`, `auc`, `last_window`, or the name of a measure.
        failure: The kind of failure (`nan`, `timeout` …).
        reason: One line on why it failed, secrets masked.
        weights: The sha256 of the final parameters.
        files: Files that may be uploaded, by file name: `spec.json`, `provenance.json`,
            `model.zip`, `normalisation.npz`.
        training_seconds: Duration of all attempts, as far as it was recorded.
    """

    state: str
    time: float
    step: int
    seconds: float | None
    attempts: int
    score: float | None
    score_rule: str
    failure: str | None
    reason: str | None
    weights: str | None
    files: Mapping[str, Path]
    training_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedAggregate:
    """The scores of one label on one task, over seeds.

    Attributes:
        label: The label whose runs are aggregated.
        task: The task on which they are scored.
        phase: `tuning` or `test`.
        planned: Number of planned runs.
        n: Number of scores.
        failed: Number of runs that failed and are not retried.
        missing: Number of runs without a score so far.
        score_rule: `final`, `auc`, `last_window`, or the name of a measure.
        scores: Scores by seed.
        metric: Name of the aggregate (`iqm`).
        title: Its name in tables (`IQM`).
        estimate: The aggregate with its interval; None without a score.
        unscored: The state of each planned run without a score (`failed`, `planned` …), by seed.
    """

    label: str
    task: str
    phase: str
    planned: int
    n: int
    failed: int
    missing: int
    score_rule: str
    scores: Mapping[int, float]
    metric: str
    title: str
    estimate: Estimate | None
    unscored: Mapping[int, str] = field(default_factory=dict)

    @property
    def numbers(self) -> dict[str, float | None]:
        """The estimate and the ends of its interval, under the names shown by services."""
        estimate = self.estimate
        ends = (
            (None,) * 3 if estimate is None else (estimate.estimate, estimate.low, estimate.high)
        )
        names = (self.metric, f"{self.metric}_low", f"{self.metric}_high")
        return dict(zip(names, ends, strict=True))

    @property
    def in_words(self) -> str:
        """One line with the estimate, its interval, n and the method."""
        if self.estimate is None:
            return f"{self.title} —, no run has a score"
        return sentence(self.title, self.estimate)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedPhase:
    """The mean score of a sweep's winner in one phase, as in the report.

    Attributes:
        phase: `tuning`, `selection` or `test`.
        planned: Number of planned runs.
        mean: The mean over runs with its interval; None without a score.
    """

    phase: str
    planned: int
    mean: Estimate | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedAnswer:
    """The answer of an experiment's report: what terminal, page and services show first.

    Attributes:
        text: The answer on one line.
        basis: What the answer rests on; may be empty.
        phases: The mean score of a sweep's winner in each phase in which it was run.
        optimism: Mean tuning score of the winner minus its mean test score.
        optimism_text: The same with its interval, in words; empty where there is none.
    """

    text: str
    basis: str = ""
    phases: Sequence[TrackedPhase] = ()
    optimism: float | None = None
    optimism_text: str = ""

    @property
    def in_words(self) -> str:
        """The answer with what it rests on."""
        return f"{self.text}. {self.basis}" if self.basis else self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedWinner:
    """The winner of a sweep: its trial, its hyperparameters, and the run whose model is registered.

    Attributes:
        trial: Number of the trial.
        parameters: Hyperparameters by key.
        run: The test run with the median score; its model is registered.
    """

    trial: int
    parameters: Mapping[str, Any]
    run: TrackedRun | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentSummary:
    """The current results of an experiment.

    Attributes:
        aggregates: One aggregate for each label and task.
        groups: All groups of runs, including those without an aggregate.
        winner: The winner of a sweep, once it is chosen.
        figures: SVG texts by name, including the intervals of the aggregates.
        files: The report's files, by name relative to the report's folder.
        answer: The answer of the experiment's report; None without a result.
    """

    aggregates: Sequence[TrackedAggregate]
    groups: Sequence[str]
    winner: TrackedWinner | None = None
    figures: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)
    answer: TrackedAnswer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncPosition:
    """The sync position of a run at a service.

    Attributes:
        step: The service has stored every row up to this step; -1: it has none.
        kept: JSON values that are handed to the tracker at its next call.
    """

    step: int = -1
    kept: Mapping[str, Any] = field(default_factory=dict)


class TrackerConnection(Protocol):
    """An open connection of a tracker to its service, used by one thread of a separate process.

    Every method except `close` may raise `TrackerUnreachable` or `TrackerRefused`. After
    `TrackerUnreachable` the method is called again later, with the same arguments or more rows.
    Rows that are pushed twice must be stored once.
    """

    def begin(self, run: TrackedRun, reached: SyncPosition) -> SyncPosition:
        """Open a run, or open it again; returns the position after which rows are expected.

        Args:
            run: The run.
            reached: The position returned by this tracker's last call for the run, in any
                process. It may lag behind the service if that process was killed.
        """
        ...

    def push(self, run: TrackedRun, rows: Sequence[MetricRow]) -> SyncPosition:
        """Upload rows, sorted by step, all of them after the rows pushed before.

        Returns the position up to which the service has stored rows; it may be before the last
        row pushed.
        """
        ...

    def end(self, run: TrackedRun, ended: RunEnd) -> SyncPosition:
        """Record the state of a run that no process executes; afterwards all its rows are stored.

        A run may begin and end several times.
        """
        ...

    def summarise(self, summary: ExperimentSummary) -> None:
        """Upload the experiment's current results; replaces the earlier ones."""
        ...

    def close(self) -> None:
        """Release all resources at once, without waiting for the service."""
        ...


class Tracker(Protocol):
    """A service to which records are copied; the fields of the dataclass are its settings."""

    @property
    def wait(self) -> float:
        """Seconds that a command waits for the service before it ends."""
        ...

    @property
    def required(self) -> bool:
        """Whether a command refuses to start while the service cannot be reached."""
        ...

    def destination(self, project: Path) -> str:
        """A name of the destination without secrets, which is shown to users and stored on disk.

        Each destination has its own sync positions. An empty name means: upload nothing.

        Args:
            project: The folder that holds `runs/`.
        """
        ...

    def open(self, experiment: TrackedExperiment) -> TrackerConnection:
        """Connect to the service.

        Raises:
            TrackerUnreachable: The service does not answer, or answers nonsense; a later try may
                succeed.
            TrackerRefused: The service rejects every request: a key or package is missing, the
                key is wrong, or the destination does not exist.
        """
        ...
