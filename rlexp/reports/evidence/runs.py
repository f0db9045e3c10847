"""The evidence of a report: the planned runs of one phase, as their records tell them."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlexp.errors import ProtocolError
from rlexp.protocol.experiment import Configuration, Experiment
from rlexp.protocol.seeds import Phase
from rlexp.records.integrity import Integrity
from rlexp.records.run import LARGEST_SCORE, RunRecord, State
from rlexp.records.scores import Entry, ScoreTable
from rlexp.reports.evidence.sweeps import SweepEvidence
from rlexp.text import counted


@dataclass(frozen=True, kw_only=True)
class Member:
    """A planned run. `provenance` is that of its last attempt, empty where it has none."""

    experiment: str
    label: str
    configuration: Configuration
    record: RunRecord
    provenance: Mapping[str, Any] = field(default_factory=dict, repr=False)
    problem: str | None = None

    @property
    def task(self) -> str:
        """The task that it is scored on."""
        return self.configuration.task

    @property
    def imported(self) -> Mapping[str, Any] | None:
        """What says that another tool made it; nothing for a run of ours."""
        return self.record.spec.imported

    @property
    def name(self) -> str:
        """Its name as commands take it (`EXPERIMENT/RUN`)."""
        return f"{self.experiment}/{self.record.spec.name}"

    @property
    def score(self) -> float | None:
        """Its score, if it has one and that is a number."""
        score = self.record.score
        return score if score is not None and math.isfinite(score) else None

    @cached_property
    def steps(self) -> NDArray[np.float64]:
        """Environment steps of its evaluations, of shape (T,)."""
        return np.asarray([e.step for e in self.record.evaluations], dtype=np.float64)

    @cached_property
    def returns(self) -> NDArray[np.float64]:
        """Mean return of each of them, of shape (T,); what is beyond all measure is NaN."""
        means = np.asarray([e.mean for e in self.record.evaluations], dtype=np.float64)
        return np.where(np.abs(means) <= LARGEST_SCORE, means, np.nan)

    @cached_property
    def is_evaluated(self) -> bool:
        """Whether it has evaluations, at rising steps."""
        return len(self.steps) > 0 and bool((np.diff(self.steps) > 0).all())


def state(member: Member) -> str:
    """Where a run stands (`failed (nan)`), damage and scores that are no number included."""
    record = member.record
    if member.problem and record.attempts == 0:
        return "unreadable"
    if record.state is State.COMPLETED and member.score is None:
        return "completed without a finite score"
    return f"failed ({record.failure})" if record.failure else str(record.state)


def states(members: Iterable[Member]) -> str:
    """How many runs are in which state (`2 failed (nan), 1 planned`), by name of the state."""
    counts = Counter(state(member) for member in members)
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


def score_in_words(budget: Mapping[str, Any]) -> str:
    """What the score of a run is, as its budget declares it."""
    match budget["score"]:
        case "final":
            count = budget["final_episodes"]
            # Of imported means it is not known how many episodes they are of.
            episodes = counted(count, "fresh episode") if count else "fresh episodes"
            return f"the mean return of the final policy over {episodes}"
        case "auc":
            return "the mean height of the curve of evaluations during training"
        case _:
            return "the mean return of the evaluations in the last tenth of training"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """The runs of one label on one task.

    Attributes:
        members: Every run that was asked for, in order of its seed.
        worst: What a failed run counts as, where the experiment says that it counts.
    """

    label: str
    task: str
    members: tuple[Member, ...]
    worst: float | None

    @cached_property
    def scored(self) -> list[Member]:
        """Runs with a score of their own."""
        return [m for m in self.members if m.score is not None]

    @property
    def failed(self) -> list[Member]:
        """Runs that failed for good or for now."""
        return [m for m in self.members if m.record.state is State.FAILED]

    @property
    def unscored(self) -> list[Member]:
        """Completed runs whose score is no number."""
        return [m for m in self.members if m.score is None and m.record.state is State.COMPLETED]

    @property
    def missing(self) -> list[Member]:
        """Runs that have neither a score nor failed: planned, running, interrupted, lost."""
        ended = {State.FAILED, State.COMPLETED}
        return [m for m in self.members if m.record.state not in ended]

    @property
    def scoreless(self) -> list[Member]:
        """Runs that ended for good without a score; those to be tried again are not among them."""
        return [m for m in self.members if m.record.scoreless]

    @property
    def counted_as_worst(self) -> int:
        """Failed runs that stand among the scores as the task's worst."""
        return 0 if self.worst is None else len(self.scoreless)

    @cached_property
    def scores(self) -> NDArray[np.float64]:
        """Scores, rising, of shape (n,), those counted as worst included."""
        scores = [m.score for m in self.scored]
        counted = [self.worst] * self.counted_as_worst
        return np.sort(np.asarray([*scores, *counted], dtype=np.float64))

    @property
    def n(self) -> int:
        """Scores that it has."""
        return len(self.scored) + self.counted_as_worst

    @property
    def planned(self) -> int:
        """Runs that were asked for."""
        return len(self.members)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Everything that a report may say anything about.

    Attributes:
        members: Every planned run of the phase, in order of label, task, root and seed.
        left_out: Runs of other phases in the same experiments, which nothing here is about.
        problems: What could not be read, a line each.
        folders: Where the experiments are, by name.
        sweeps: The sweeps among the experiments, with everything that led to the winner.
        integrity: What the ledger of each experiment says of its records, where that was asked.
        running: Runs of the experiments that a process holds, asked for or not.
    """

    phase: Phase
    experiments: tuple[Experiment, ...]
    members: tuple[Member, ...]
    left_out: Mapping[Phase, int] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    folders: Mapping[str, str] = field(default_factory=dict)
    sweeps: tuple[SweepEvidence, ...] = ()
    integrity: tuple[Integrity, ...] = ()
    running: int = 0

    def __post_init__(self) -> None:
        """Refuse runs that must not stand together.

        Raises:
            ProtocolError: A run is of another phase; a label's runs on a task share a seed or
                differ in budget.
        """
        entries: dict[str, list[Entry]] = {}
        for m in self.members:
            entries.setdefault(m.label, []).append(Entry(m.label, m.task, m.record))
        for label_entries in entries.values():
            ScoreTable.from_records(label_entries, self.phase)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Labels under comparison, in the order in which they were asked for."""
        return tuple(dict.fromkeys(m.label for m in self.members))

    @cached_property
    def tasks(self) -> tuple[str, ...]:
        """Tasks, in order of their names."""
        return tuple(sorted({m.task for m in self.members}))

    @cached_property
    def cells(self) -> Mapping[tuple[str, str], Cell]:
        """The runs by label and task; there is no cell where nothing was asked for."""
        members: dict[tuple[str, str], list[Member]] = {}
        order = {label: number for number, label in enumerate(self.labels)}
        for member in sorted(self.members, key=lambda m: (order[m.label], *_place(m))):
            members.setdefault((member.label, member.task), []).append(member)
        return {
            (label, task): Cell(
                label=label,
                task=task,
                members=tuple(cell_members),
                worst=self._worst(cell_members[0]),
            )
            for (label, task), cell_members in members.items()
        }

    def cell(self, label: str, task: str) -> Cell | None:
        """The runs of a label on a task, or nothing where none was asked for."""
        return self.cells.get((label, task))

    def of_label(self, label: str) -> list[Cell]:
        """The cells of a label, in order of the tasks."""
        return [self.cells[label, task] for task in self.tasks if (label, task) in self.cells]

    def of_task(self, task: str) -> list[Cell]:
        """The cells of a task, in order of the labels."""
        return [self.cells[label, task] for label in self.labels if (label, task) in self.cells]

    def reference(self, task: str) -> Mapping[str, Any]:
        """Known scores of a task (`random`, `threshold`, `minimum`, `maximum`, `source`)."""
        return self.of_task(task)[0].members[0].configuration.reference

    def _worst(self, member: Member) -> float | None:
        experiment = next(e for e in self.experiments if e.name == member.experiment)
        minimum: float | None = member.configuration.reference.get("minimum")
        return minimum if experiment.failures == "worst" else None


def imported_members(evidence: Evidence) -> list[Member]:
    """The imported runs."""
    return [member for member in evidence.members if member.imported]


def unambiguous(labels: Sequence[tuple[str, str, str]]) -> list[str]:
    """Labels of several experiments, told apart by the experiment where they must be.

    Args:
        labels: Experiment, label and task of every configuration.

    Returns:
        The label of each: as it is, or `experiment/label` where two experiments have it for the
        same task.

    Raises:
        ProtocolError: One experiment has a label twice for a task.
    """
    homes: dict[tuple[str, str], list[str]] = {}
    for experiment, label, task in labels:
        home = homes.setdefault((label, task), [])
        if experiment in home:
            raise ProtocolError(
                f"{experiment} has {label} twice on {task}; give the configurations labels of "
                "their own",
            )
        home.append(experiment)
    doubled = {label for (label, _), home in homes.items() if len(home) > 1}
    return [
        f"{experiment}/{label}" if label in doubled else label for experiment, label, _ in labels
    ]


def _place(member: Member) -> tuple[str, int, int]:
    spec = member.record.spec
    return member.task, spec.root, spec.seed
