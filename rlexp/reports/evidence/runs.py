"""The evidence of a report: the planned runs of one phase, with their records."""

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
from rlexp.protocol.measures import declaration_key
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import ASK_AND_TELL, RunSpec
from rlexp.protocol.units import ENVIRONMENT_STEPS, differing_units
from rlexp.records.events import Evaluated, Measured
from rlexp.records.integrity import Integrity
from rlexp.records.logged_values import logged_values
from rlexp.records.look import CountedLooks
from rlexp.records.registration import RegisteredExperiments
from rlexp.records.run import LARGEST_SCORE, RunRecord, State
from rlexp.records.score_table import Entry, ScoreTable
from rlexp.records.system_metrics import SystemUsage
from rlexp.reports.evidence.ablations import AblationEvidence
from rlexp.reports.evidence.sweeps import SweepEvidence
from rlexp.text import format_count


@dataclass(frozen=True, slots=True, eq=False)
class LoggedSeries:
    """The values of one logged metric of a run.

    Attributes:
        steps: Environment steps, of shape (T,), rising.
        times: Times in seconds since 1970, of shape (T,).
        values: Of shape (T,); NaN where a value is not finite or out of range.
    """

    steps: NDArray[np.float64]
    times: NDArray[np.float64]
    values: NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """A planned run with its record.

    `provenance` is that of its last attempt, or empty. `system` is what the run used of its
    machine; None where it was not measured. `series` is what was logged in training, where the
    caller has collected it (`logged_series`).
    """

    experiment: str
    label: str
    configuration: Configuration
    record: RunRecord
    provenance: Mapping[str, Any] = field(default_factory=dict, repr=False)
    problem: str | None = None
    system: SystemUsage | None = None
    series: Mapping[str, LoggedSeries] | None = field(default=None, repr=False)

    @property
    def task(self) -> str:
        """The task on which the run is scored."""
        return self.configuration.task

    @property
    def recorded_quantity(self) -> str:
        """What the score is made of, by its name in evaluations: `return`, or a measure.

        The values of an imported metric are recorded as returns.
        """
        return self.configuration.budget.quantity

    @cached_property
    def imported(self) -> Mapping[str, Any] | None:
        """Origin of an imported run; `None` for a run of rlexp."""
        return self.record.spec.imported

    @property
    def name(self) -> str:
        """Name of the run as commands take it (`EXPERIMENT/RUN`)."""
        return f"{self.experiment}/{self.record.spec.name}"

    @cached_property
    def score(self) -> float | None:
        """The score of the run; `None` where it has none, or none that is finite."""
        score = self.record.score
        return score if score is not None and math.isfinite(score) else None

    @cached_property
    def steps(self) -> NDArray[np.float64]:
        """Environment steps of the evaluations, of shape (T,)."""
        return np.asarray([e.step for e in self.record.evaluations], dtype=np.float64)

    @cached_property
    def logged(self) -> Mapping[str, LoggedSeries]:
        """What was logged in training, by the name of the metric; see `logged_series`."""
        return logged_series(self.record) if self.series is None else self.series

    @cached_property
    def heights(self) -> NDArray[np.float64]:
        """Mean of the score's quantity in each evaluation, of shape (T,); NaN out of range."""
        means = [e.mean_of(self.recorded_quantity) for e in self.record.evaluations]
        return _in_range(np.asarray(means, dtype=np.float64))

    @cached_property
    def is_evaluated(self) -> bool:
        """Whether the run has evaluations, at increasing steps."""
        return len(self.steps) > 0 and bool((np.diff(self.steps) > 0).all())


def logged_series(record: RunRecord) -> Mapping[str, LoggedSeries]:
    """What was logged in training, by the name of the metric.

    These are the learner's metrics and the values of evaluations in training. The later of two
    values of one metric at one step counts.
    """
    measured, evaluated = _columns(record.measurements), _columns(record.evaluations)
    if measured is not None and evaluated is not None and not measured.keys() & evaluated.keys():
        every = {**measured, **evaluated}
        return {name: every[name] for name in sorted(every)}
    points: dict[str, dict[int, tuple[float, float]]] = {}
    events: list[Measured | Evaluated] = [*record.measurements]
    for event in (*events, *record.evaluations):
        for name, value in logged_values(event):
            points.setdefault(name, {})[event.step] = event.time, value
    return {name: _series(points[name]) for name in sorted(points)}


def _columns(events: Sequence[Measured | Evaluated]) -> dict[str, LoggedSeries] | None:
    """The series of events, as the columns of one array; None where the events are no table.

    They are a table where their steps rise and all have the same metrics, as those of most runs.
    """
    if not events:
        return {}
    rows = [dict(logged_values(event)) for event in events]
    steps = np.asarray([event.step for event in events], dtype=np.float64)
    if (np.diff(steps) <= 0).any() or any(row.keys() != rows[0].keys() for row in rows):
        return None
    times = np.asarray([event.time for event in events], dtype=np.float64)
    values = [[row[name] for row in rows] for name in rows[0]]
    columns = _in_range(np.asarray(values, dtype=np.float64).reshape(len(rows[0]), len(rows)))
    return {
        name: LoggedSeries(steps, times, column)
        for name, column in zip(rows[0], columns, strict=True)
    }


def _series(points: Mapping[int, tuple[float, float]]) -> LoggedSeries:
    """The series of times and values by step."""
    steps = sorted(points)
    times, values = np.asarray([points[step] for step in steps], dtype=np.float64).T
    return LoggedSeries(np.asarray(steps, dtype=np.float64), times, _in_range(values))


def _in_range(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The values, with NaN in place of those that are not finite or too large."""
    # The comparison is false for NaN.
    return np.where(np.abs(values) <= LARGEST_SCORE, values, np.nan)


def state(member: PlannedRun) -> str:
    """State of a run as text (`failed (nan)`, `unreadable`, `completed without a finite score`)."""
    record = member.record
    if member.problem and record.attempts == 0:
        return "unreadable"
    if record.state is State.COMPLETED and member.score is None:
        return "completed without a finite score"
    return f"failed ({record.failure})" if record.failure else str(record.state)


def run_states_text(members: Iterable[PlannedRun]) -> str:
    """Number of runs in each state (`2 failed (nan), 1 planned`), sorted by state."""
    counts = Counter(state(member) for member in members)
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


def score_definition(spec: RunSpec) -> str:
    """Definition of the score of a run."""
    budget, quantity = spec.budget, spec.quantity
    match budget["score"]:
        case "auc":
            return "the mean height of the curve of evaluations during training"
        case "last_window":
            return f"the mean {quantity} of the evaluations in the last tenth of training"
        case _:
            count = budget["final_episodes"]
            # An imported mean does not tell its number of episodes.
            episodes = format_count(count, "fresh episode") if count else "fresh episodes"
            return f"the mean {quantity} of the final policy over {episodes}"


@dataclass(frozen=True, kw_only=True)
class LabelTaskRuns:
    """The runs of one label on one task.

    Attributes:
        members: Every planned run, in order of its seed.
        worst: Score of a failed run, where failed runs of the experiment count; else `None`.
    """

    label: str
    task: str
    members: tuple[PlannedRun, ...]
    worst: float | None

    @cached_property
    def scored(self) -> list[PlannedRun]:
        """Runs with a score."""
        return [m for m in self.members if m.score is not None]

    @cached_property
    def unlike(self) -> list[PlannedRun]:
        """One run for each combination of configuration, provenance and parts of a specification."""
        # Runs of one label share these objects in memory. Comparing identities instead of contents
        # keeps reports on thousands of runs fast; equal copies only repeat work.
        different = {}
        for member in self.members:
            spec = member.record.spec
            shared = (spec.algorithm, spec.environment, spec.callback, spec.budget, spec.compute)
            key = id(member.configuration), id(member.provenance), *map(id, shared)
            different[key] = member
        return list(different.values())

    @property
    def failed(self) -> list[PlannedRun]:
        """Runs that failed, finally or with attempts left."""
        return [m for m in self.members if m.record.state is State.FAILED]

    @property
    def missing(self) -> list[PlannedRun]:
        """Runs that neither completed nor failed: planned, running, interrupted, lost."""
        ended = {State.FAILED, State.COMPLETED}
        return [m for m in self.members if m.record.state not in ended]

    @property
    def scoreless(self) -> list[PlannedRun]:
        """Runs that ended finally without a score, without those that will be repeated."""
        return [m for m in self.members if m.record.scoreless]

    @property
    def counted_as_worst(self) -> int:
        """Number of failed runs that get the minimum score of the task."""
        return 0 if self.worst is None else len(self.scoreless)

    @cached_property
    def scores(self) -> NDArray[np.float64]:
        """Scores, rising, of shape (n,), including the worst score of each failed run."""
        scores = [m.score for m in self.scored]
        # Sorted scores make every statistic independent of the order of the runs.
        counted = [self.worst] * self.counted_as_worst
        return np.sort(np.asarray([*scores, *counted], dtype=np.float64))

    @property
    def lower_is_better(self) -> bool:
        """Whether the score is a measure that is declared as minimised."""
        return self.members[0].configuration.lower_is_better

    @property
    def merits(self) -> NDArray[np.float64]:
        """The scores with the sign that makes greater ones better, rising, of shape (n,)."""
        return -self.scores[::-1] if self.lower_is_better else self.scores

    @property
    def worst_word(self) -> str:
        """The end of the possible scores that is the worst: `minimum` or `maximum`."""
        return "maximum" if self.lower_is_better else "minimum"

    @property
    def n(self) -> int:
        """Number of scores."""
        return len(self.scored) + self.counted_as_worst

    @property
    def planned(self) -> int:
        """Number of planned runs."""
        return len(self.members)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """All data of a report.

    Attributes:
        members: Every planned run of the phase, in order of label, task, root and seed.
        left_out: Number of runs of other phases in the same experiments, which are left out.
        problems: Unreadable records, one line each.
        folders: Folder of each experiment by name.
        sweeps: The sweeps among the experiments, with their trials and selection.
        integrity: Result of comparing the records with the ledger, where that was requested.
        running: Number of runs of the experiments in progress, planned here or not.
        looks: The looks at the test seeds of the report; empty for other phases.
        protocols: The experiments that are registered; empty for other phases.
        ablations: The ablations among the experiments, with the tests that they declared.
        unused_references: Tasks whose declared reference scores are left out, because they are in
            other units than the recorded scores.
    """

    phase: Phase
    experiments: tuple[Experiment, ...]
    members: tuple[PlannedRun, ...]
    left_out: Mapping[Phase, int] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    folders: Mapping[str, str] = field(default_factory=dict)
    sweeps: tuple[SweepEvidence, ...] = ()
    integrity: tuple[Integrity, ...] = ()
    running: int = 0
    unused_references: tuple[str, ...] = ()
    looks: CountedLooks = field(default_factory=CountedLooks)
    protocols: RegisteredExperiments = field(default_factory=RegisteredExperiments)
    ablations: tuple[AblationEvidence, ...] = ()
    combined: tuple[Phase, tuple[PlannedRun, ...]] | None = field(
        default=None, repr=False, compare=False
    )
    """The phase and the runs that were found to fit together, where they were looked at."""

    def __post_init__(self) -> None:
        """Refuse runs that cannot be combined.

        Raises:
            ProtocolError: A run is of another phase; a label's runs on a task share a seed or
                differ in budget; scores on a task are of different quantities.
        """
        # Evidence is completed step by step, by copies with the same runs.
        if self.combined and self.combined[0] is self.phase and self.combined[1] is self.members:
            return
        self._check_quantities()
        self._check_units()
        entries: dict[str, list[Entry]] = {}
        for m in self.members:
            entries.setdefault(m.label, []).append(Entry(m.label, m.task, m.record))
        # Built only for its checks: a table refuses what must not be aggregated.
        for label_entries in entries.values():
            ScoreTable.from_records(label_entries, self.phase)
        object.__setattr__(self, "combined", (self.phase, self.members))

    def _check_quantities(self) -> None:
        first: dict[str, PlannedRun] = {}
        # Runs of a configuration share its parts: of thousands of runs, a few differ.
        different: dict[tuple[str, int, int, int], PlannedRun] = {}
        for m in self.members:
            parts = id(m.configuration), id(m.record.spec.algorithm), id(m.record.spec.budget)
            different.setdefault((m.task, *parts), m)
        for member in different.values():
            other = first.setdefault(member.task, member)
            sides = [_scored_by(each) for each in (other, member)]
            if sides[0] != sides[1]:
                raise ProtocolError(
                    f"scores on {member.task} are of different quantities: {sides[0]} for "
                    f"{other.label}, {sides[1]} for {member.label}; compare runs with the same "
                    "budget.score and direction"
                )

    def _check_units(self) -> None:
        if words := differing_units((m.label, m.record.spec.unit) for m in self.members):
            raise ProtocolError(
                f"steps are counted {words}, and units are never mixed: name experiments of one "
                "environment.unit"
            )

    @cached_property
    def unit(self) -> str:
        """The unit of all steps, as `environment.unit` writes it."""
        units = [m.record.spec.unit for m in self.members[:1]]
        # A search has costs before the first test run is planned.
        units += [c.unit for experiment in self.experiments for c in experiment.configurations]
        return units[0] if units else ENVIRONMENT_STEPS

    @property
    def is_under_way(self) -> bool:
        """Whether runs are running and none has failed or stopped: what is missing comes later."""
        usual = {State.PLANNED, State.RUNNING, State.COMPLETED}
        return self.running > 0 and all(m.record.state in usual for m in self.members)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Labels under comparison, in the requested order."""
        return tuple(dict.fromkeys(m.label for m in self.members))

    @cached_property
    def tasks(self) -> tuple[str, ...]:
        """Names of the tasks, sorted."""
        return tuple(sorted({m.task for m in self.members}))

    @cached_property
    def cells(self) -> Mapping[tuple[str, str], LabelTaskRuns]:
        """The runs by label and task, where any are planned."""
        members: dict[tuple[str, str], list[PlannedRun]] = {}
        order = {label: number for number, label in enumerate(self.labels)}
        for member in sorted(self.members, key=lambda m: (order[m.label], *_place(m))):
            members.setdefault((member.label, member.task), []).append(member)
        return {
            (label, task): LabelTaskRuns(
                label=label,
                task=task,
                members=tuple(cell_members),
                worst=self._worst(cell_members[0]),
            )
            for (label, task), cell_members in members.items()
        }

    def cell(self, label: str, task: str) -> LabelTaskRuns | None:
        """The runs of a label on a task; `None` where none is planned."""
        return self.cells.get((label, task))

    def of_label(self, label: str) -> list[LabelTaskRuns]:
        """The cells of a label, in order of the tasks."""
        return [self.cells[label, task] for task in self.tasks if (label, task) in self.cells]

    def of_task(self, task: str) -> list[LabelTaskRuns]:
        """The cells of a task, in order of the labels."""
        return [self.cells[label, task] for label in self.labels if (label, task) in self.cells]

    def reference(self, task: str) -> Mapping[str, Any]:
        """Known scores of a task (`random`, `threshold`, `minimum`, `maximum`, `source`)."""
        return self.of_task(task)[0].members[0].configuration.score_reference

    def dataset_anchors(self, task: str) -> tuple[float, float] | None:
        """The returns of a random policy and of an expert that the datasets of a task declare.

        None where no dataset declares them, where two datasets declare different ones, and where runs on
        another task begin with the same dataset, which was recorded on one of them.
        """
        pairs = {c.dataset_anchors for c in self._configurations(task)} - {None}
        elsewhere = {d for other in self.tasks if other != task for d in self._datasets(other)}
        if len(pairs) != 1 or elsewhere & self._datasets(task):
            return None
        return pairs.pop()

    def _configurations(self, task: str) -> list[Configuration]:
        return [cell.members[0].configuration for cell in self.of_task(task)]

    def _datasets(self, task: str) -> set[str]:
        """The digests of the datasets with which runs on a task begin."""
        datasets = (c.dataset for c in self._configurations(task))
        return {str(d["digest"]) for d in datasets if d is not None and d.get("digest")}

    def quantity(self, task: str) -> str:
        """What the scores on a task are made of: `return`, a measure, or an imported metric."""
        return self.of_task(task)[0].members[0].record.spec.quantity

    @cached_property
    def quantities(self) -> tuple[str, ...]:
        """What the scores of all tasks are made of, each once."""
        return tuple(dict.fromkeys(self.quantity(task) for task in self.tasks))

    def lower_is_better(self, task: str) -> bool:
        """Whether the scores on a task are a measure that is declared as minimised."""
        return self.of_task(task)[0].lower_is_better

    @cached_property
    def is_minimised(self) -> bool:
        """Whether raw scores are compared, and lower ones are better: only on a single task."""
        return len(self.tasks) == 1 and self.lower_is_better(self.tasks[0])

    def declaration_key(self, task: str) -> str:
        """The key of the configuration that declares the known scores of a task."""
        return declaration_key(self.of_task(task)[0].members[0].configuration.budget.score)

    def _worst(self, member: PlannedRun) -> float | None:
        experiment = next(e for e in self.experiments if e.name == member.experiment)
        return member.configuration.worst_score if experiment.failures == "worst" else None


def trained_by_program(members: Iterable[PlannedRun]) -> list[PlannedRun]:
    """The runs that a program has trained for a study that asked for them."""
    return [m for m in members if m.imported and m.imported.get("kind") == ASK_AND_TELL]


def imported_members(evidence: Evidence) -> list[PlannedRun]:
    """The imported runs."""
    return [member for member in evidence.members if member.imported]


def unambiguous(labels: Sequence[tuple[str, str, str]]) -> list[str]:
    """Labels of several experiments, made unique by the name of the experiment where needed.

    Args:
        labels: Experiment, label and task of every configuration.

    Returns:
        The label of each configuration: unchanged, or `experiment/label` where two experiments
        have it for the same task.

    Raises:
        ProtocolError: One experiment has a label twice for a task.
    """
    homes: dict[tuple[str, str], list[str]] = {}
    for experiment, label, task in labels:
        home = homes.setdefault((label, task), [])
        if experiment in home:
            raise ProtocolError(
                f"{experiment} has {label} twice on {task}; give each configuration a different "
                "label",
            )
        home.append(experiment)
    doubled = {label for (label, _), home in homes.items() if len(home) > 1}
    return [
        f"{experiment}/{label}" if label in doubled else label for experiment, label, _ in labels
    ]


def _scored_by(member: PlannedRun) -> str:
    """The quantity of a run's score, with its direction if that is not the usual one."""
    lower = " (lower is better)" if member.configuration.lower_is_better else ""
    return f"{member.record.spec.quantity}{lower}"


def _place(member: PlannedRun) -> tuple[str, int, int]:
    spec = member.record.spec
    return member.task, spec.root, spec.seed
