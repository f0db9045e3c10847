"""Trackers: mirrors of the records in other services. A tracker reads; nothing rests on it.

What is in a run's journals becomes rows, one for each environment step at which something was
recorded. A mirror process reads the rows, and pushes those that a service does not have yet. How
far a service is stands on disk, so that whoever pushes next goes on from there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from rlexp.metrics.estimate import Estimate
from rlexp.metrics.estimate_words import sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What is known of a run at one environment step.

    Attributes:
        step: Environment steps.
        time: When it was recorded, in seconds since 1970.
        metrics: By name: what the learner logged under the names of stable-baselines3
            (`rollout/ep_rew_mean`, `train/loss` …), and of an evaluation `eval/mean_reward`,
            `eval/std_reward` and `eval/mean_ep_length`; the same under `final/` of the final
            policy's fresh episodes. A value may be nan or infinite.
    """

    step: int
    time: float
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedExperiment:
    """An experiment, as a service sees it.

    Attributes:
        id: Made at random when the experiment was first mirrored: with it, the same name in
            another folder is another experiment. It may be deleted with all that stands beside
            it, then everything is pushed anew.
        name: Its name under `runs/`.
        project: The folder in which `runs/` is.
        folder: Where this tracker may keep files of its own.
        definition: What `experiment.json` says, secrets masked.
        is_sweep: Whether a tuner proposes its configurations.
        shared: Whether several machines see the project's folder, where a database in a file is
            not safe.
    """

    id: str
    name: str
    project: Path
    folder: Path
    definition: Mapping[str, Any]
    is_sweep: bool
    shared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedRun:
    """A run, as a service sees it.

    Attributes:
        id: 32 hexadecimal digits that no other run of any experiment has, the same at every call.
        name: Of its folder.
        group: What it is grouped by: its label, or the experiment's name where it belongs to a
            trial or a finalist of a sweep.
        label: What it is reported under.
        task: The environment on which it is scored.
        phase: `tuning`, `selection` or `test`.
        seed: Its number within the phase.
        trial: Number of the sweep's trial that it belongs to, if it does.
        fingerprint: Of its configuration, whatever the seed.
        configuration: What defines it, secrets masked, variables of the environment unresolved.
        provenance: Of its newest attempt: command, code, packages, machine; secrets masked.
        started: When its first attempt began, in seconds since 1970.
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

    @property
    def commit(self) -> str | None:
        """The commit of the study's code, where it is known."""
        code = self.provenance.get("code")
        commit = code.get("commit") if isinstance(code, Mapping) else None
        return commit if isinstance(commit, str) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a run stands after its newest attempt.

    Attributes:
        state: `completed`, `failed`, `pruned`, `interrupted` or `lost`. The last two go on when
            the same command is given again, and so does a run that the machine failed.
        time: When it ended, in seconds since 1970.
        step: How far it came, in environment steps.
        seconds: How long the attempt took.
        attempts: How many there were.
        score: As the budget declares it; none of a run that did not complete.
        score_rule: `final`, `auc` or `last_window`.
        failure: Why it failed, in a word.
        reason: Why it failed, in a line, secrets masked.
        weights: The sha256 of its final parameters.
        files: What may be uploaded, by file name: `spec.json`, `provenance.json`, `model.zip`,
            `normalisation.npz`.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """The scores of one label on one task, over seeds.

    Attributes:
        label: What is aggregated.
        task: Where.
        phase: `tuning` or `test`.
        planned: How many runs were asked for.
        n: How many scores there are.
        failed: How many runs failed for good.
        missing: How many have no score yet.
        score_rule: `final`, `auc` or `last_window`.
        scores: By seed.
        metric: Name of the aggregate (`iqm`).
        title: What tables call it (`IQM`).
        estimate: The aggregate with its interval; none without a score.
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

    @property
    def numbers(self) -> dict[str, float | None]:
        """The estimate and the ends of its interval, under the names that services show."""
        found = self.estimate
        ends = (None,) * 3 if found is None else (found.estimate, found.low, found.high)
        names = (self.metric, f"{self.metric}_low", f"{self.metric}_high")
        return dict(zip(names, ends, strict=True))

    @property
    def in_words(self) -> str:
        """The estimate with everything that belongs to it, on one line."""
        if self.estimate is None:
            return f"{self.title} —, no run has a score"
        return sentence(self.title, self.estimate)


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner:
    """What a sweep chose: the trial, its values, and the run whose model stands for it.

    Attributes:
        trial: Its number.
        parameters: Its values by key.
        run: The test run with the median score, its model the one to register.
    """

    trial: int
    parameters: Mapping[str, Any]
    run: TrackedRun | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """An experiment as it stands.

    Attributes:
        aggregates: Every label on every task.
        groups: The groups of its runs, those without an aggregate included.
        winner: Of a sweep that has chosen.
        figures: SVG texts by name, the intervals of the aggregates among them.
        files: What may be uploaded, by name relative to the report's folder: the report.
    """

    aggregates: Sequence[Aggregate]
    groups: Sequence[str]
    winner: Winner | None = None
    figures: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """How far a service is with a run.

    Attributes:
        step: It safely has every row up to this one; -1 where it has none.
        kept: JSON values that the tracker wants to see again when it is next asked.
    """

    step: int = -1
    kept: Mapping[str, Any] = field(default_factory=dict)


class Sink(Protocol):
    """An open tracker. One thread calls it, in a process of its own.

    Every method but `close` may raise `TrackerUnreachable`, and is called again later with the
    same arguments or further ones, or `TrackerRefused`. What was taken twice must be there once.
    """

    def begin(self, run: TrackedRun, reached: Reached) -> Reached:
        """Open a run, or open it again; returns from where on rows are wanted.

        Args:
            run: The run.
            reached: What the last call of this tracker returned for it, in whatever process; it
                may lag behind what the service has, if that process was killed.
        """
        ...

    def push(self, run: TrackedRun, rows: Sequence[Row]) -> Reached:
        """Take rows in the order of their steps, all of them beyond what was pushed before.

        Returns what the service safely has now, which may be less than what was taken.
        """
        ...

    def end(self, run: TrackedRun, ended: Ended) -> Reached:
        """Say how a run stands that no process works at; everything taken is safe after this.

        It may begin again, and end again.
        """
        ...

    def summarise(self, summary: Summary) -> None:
        """Say how the experiment stands; replaces what was said before."""
        ...

    def close(self) -> None:
        """Let go of everything, at once."""
        ...


class Tracker(Protocol):
    """A service that records are mirrored to: its fields are its settings."""

    @property
    def wait(self) -> float:
        """Seconds that a command waits for the service at its end."""
        ...

    @property
    def required(self) -> bool:
        """Whether a command refuses to start while the service cannot be reached."""
        ...

    def place(self, project: Path) -> str:
        """Where it mirrors to, in words and without secrets: it is shown, and stored.

        How far a place is says nothing of another one. Nothing is mirrored where it is empty.

        Args:
            project: The folder in which `runs/` is.
        """
        ...

    def open(self, experiment: TrackedExperiment) -> Sink:
        """Reach the service.

        Raises:
            TrackerUnreachable: It does not answer, or not sensibly; it may later.
            TrackerRefused: It will not take anything as it is asked: no key, a wrong one, no
                such place, a package that is not installed.
        """
        ...
