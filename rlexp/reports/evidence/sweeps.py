"""The evidence of a sweep: its trials, the selection, importances and costs."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import fsum
from typing import Any

from rlexp.protocol.identity import PLUG_IN, TARGET, full_name
from rlexp.protocol.spec import RunSpec
from rlexp.protocol.sweep import MINIMISED, Sweep, SweepTask
from rlexp.records.selection import Selection
from rlexp.records.trial import TrialOrigin
from rlexp.reports.evidence.fronts import FrontEvidence
from rlexp.stats.interval import Interval
from rlexp.text import format_count

LONGEST_VALUE = 60
"""Maximal number of characters of a value in a text."""


def flat_settings(settings: Any, path: str) -> Iterator[tuple[str, str]]:
    """Pairs of path and text of the nested settings that are set, in order of the keys.

    The name of a plug-in has the path of its settings.
    """
    if isinstance(settings, Mapping):
        if PLUG_IN in settings:
            yield path, full_name(settings[PLUG_IN])
        for key in sorted(set(settings) - {TARGET, PLUG_IN}):
            yield from flat_settings(settings[key], f"{path}.{key}")
    elif settings is not None:
        yield path, value_text(settings)


def learning_parts(spec: RunSpec) -> dict[str, Any]:
    """The parts of a run whose settings are its hyperparameters, by name."""
    return {
        "algorithm": spec.algorithm,
        "agent": spec.agent,
        "replay": spec.replay,
        "callback": spec.callback,
    }


def hyperparameters(spec: RunSpec) -> dict[str, str]:
    """The settings of the algorithm, the agent, the replay and the callbacks of a run, by path."""
    parts = learning_parts(spec)
    return {k: v for name, part in parts.items() for k, v in flat_settings(part, name)}


def value_text(value: Any) -> str:
    """Text of a value: a string as it is, other values as JSON, shortened."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialEvidence:
    """One trial.

    Attributes:
        number: Number of the trial; 0 is the default configuration.
        parameters: Value of every parameter of the trial, including defaults; inactive conditional
            parameters are left out.
        steps: Environment steps of each run; fewer than the full budget at a low fidelity.
        state: `complete`, `pruned`, `failed` or `unfinished`.
        value: Value of the first objective, in its units; `None` without one.
        values: Value of every objective, in its units.
        scores: Scores of the runs that have one, by tuning seed. On several tasks, a seed has one score,
            the mean normalised score over the tasks on which it was run; a seed with a failed run has
            none.
        by_task: Scores of the runs that have one, by task, in the units of the task; empty in a sweep
            on one task.
        eligible: Whether the trial ran on all tuning seeds at the full budget and could win.
        ended_at: Environment steps of the whole search up to and including this trial.
        spent: Environment steps of the runs of this trial.
        runs: Names of the runs.
        reason: Why the trial failed or was pruned; in a population, its generation and member, too.
        origin: Where the configuration comes from; None from the tuner.
        schedules: The schedule of each parameter that changed while the runs trained, of which
            `parameters` has the last value.
    """

    number: int
    parameters: Mapping[str, Any]
    steps: int
    state: str
    value: float | None
    values: tuple[float, ...]
    scores: Mapping[int, float]
    eligible: bool
    ended_at: int
    spent: int
    runs: tuple[str, ...]
    reason: str | None = None
    origin: TrialOrigin | None = None
    by_task: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    schedules: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportanceByMethod:
    """Importance of each parameter for the objective, by one method.

    Attributes:
        method: `PED-ANOVA` or `fANOVA`.
        shares: Share of each parameter; they sum to 1, with intervals over resampled trials.
        quality: Cross-validated R² of the surrogate, if the method has one.
        reason: Why there are no shares.
        pairs: Share of the interaction of two parameters in the total effect of single parameters
            and pairs, largest first.
        note: Data behind the shares, in sentences.
    """

    method: str
    shares: Mapping[str, Interval]
    quality: float | None = None
    reason: str | None = None
    pairs: Mapping[tuple[str, str], float] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseCost:
    """Cost of one phase: number of started runs, their environment steps and seconds."""

    runs: int
    steps: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepEvidence:
    """A sweep with its records.

    Attributes:
        experiment: Name of the sweep.
        definition: Search space, plan, tuner and pruner of the sweep.
        steps: Full budget of a run.
        tuning_seeds: Seeds of the tuning phase.
        selection_seeds: Seeds on which finalists were scored again.
        trials: Trials in order of their numbers.
        selection: The selection; `None` before it was made.
        default: Value of every parameter in the default configuration.
        importances: Importances by method; empty without enough trials.
        costs: Costs by phase (`tuning`, `selection`, `test`).
        reference: Known scores of the task.
        minimised: The objectives whose lower values are better.
        score_minimised: Whether lower scores are better.
        imported: Whether another tool made the search, so that its seeds are not known.
        regret_bound: At most so much could more trials gain; `None` without `sweep.stop_at_regret`, and
            with too few trials for a bound.
        front: The front of several objectives; `None` with one objective.
    """

    experiment: str
    definition: Sweep
    steps: int
    tuning_seeds: tuple[int, ...]
    selection_seeds: tuple[int, ...]
    trials: tuple[TrialEvidence, ...]
    selection: Selection | None
    default: Mapping[str, Any]
    importances: tuple[ImportanceByMethod, ...]
    costs: Mapping[str, PhaseCost]
    reference: Mapping[str, Any] = field(default_factory=dict)
    minimised: frozenset[str] = MINIMISED
    score_minimised: bool = False
    imported: bool = False
    regret_bound: float | None = None
    front: FrontEvidence | None = None

    @property
    def tasks(self) -> tuple[SweepTask, ...]:
        """The tasks of a sweep on several ones; empty in a sweep on one task."""
        return self.definition.tasks

    @property
    def ranks(self) -> bool:
        """Whether the value of a trial is its rank among the trials, which no test score can be."""
        return self.definition.plan.normalisation == "ranks"


SEARCH = ("tuning", "selection")
"""Phases whose runs select a configuration."""


@dataclass(frozen=True, slots=True)
class TuningEffort:
    """Number of trials and environment steps spent on tuning a label."""

    trials: int
    steps: int

    def __str__(self) -> str:
        """Text of the effort for a sentence."""
        return f"{self.steps:,} environment steps in {format_count(self.trials, 'trial')}"


def tuning_effort(sweep: SweepEvidence) -> TuningEffort:
    """Trials and environment steps of a sweep's tuning and selection."""
    steps = sum(cost.steps for phase, cost in sweep.costs.items() if phase in SEARCH)
    return TuningEffort(len(sweep.trials), steps)


def full_runs(sweep: SweepEvidence) -> float:
    """Full-run equivalents of a search: a configuration at full budget counts 1 for any seeds."""
    # Repeated attempts can spend more than the budget; fsum keeps the sum exact in any order.
    shares = [t.spent / (len(t.runs) * sweep.steps) for t in sweep.trials if t.runs]
    return fsum(min(share, 1.0) for share in shares)
