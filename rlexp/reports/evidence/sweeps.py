"""The evidence of a sweep: every trial, the choice, and what it all cost."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import fsum
from typing import Any

from rlexp.protocol.identity import PLUG_IN, TARGET, full_name
from rlexp.protocol.sweep import Sweep
from rlexp.records.selection import Selection
from rlexp.stats.interval import Interval
from rlexp.text import counted

LONGEST_VALUE = 60
"""Characters of a value that are told."""


def leaves(settings: Any, path: str) -> Iterator[tuple[str, str]]:
    """The leaves of nested settings that are set, with their paths, in order of the keys.

    The name of a plug-in stands under the path of its settings.
    """
    if isinstance(settings, Mapping):
        if PLUG_IN in settings:
            yield path, full_name(settings[PLUG_IN])
        for key in sorted(set(settings) - {TARGET, PLUG_IN}):
            yield from leaves(settings[key], f"{path}.{key}")
    elif settings is not None:
        yield path, value_text(settings)


def value_text(value: Any) -> str:
    """A value in a sentence: a text as it is, anything else as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialEvidence:
    """One trial.

    Attributes:
        number: From 0, the default configuration.
        parameters: The value of every parameter of the space that it had, those of the default
            included; one that was not there is left out.
        steps: Environment steps of each of its runs; fewer than the budget's at a low fidelity.
        state: `complete`, `pruned`, `failed` or `unfinished`.
        value: What was optimised (the first objective), in its own units; nothing without one.
        values: Every objective, in its own units.
        scores: Of its runs that have one, by tuning seed.
        eligible: Whether it was run on all tuning seeds at the full budget, and so could win.
        ended_at: Environment steps that the whole search had spent up to and including it.
        spent: Environment steps that its own runs took.
        runs: Names of its runs.
        reason: Why it failed or was pruned.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Importance:
    """How much the objective depends on each parameter, by one method.

    Attributes:
        method: `PED-ANOVA` or `fANOVA`.
        shares: By parameter, summing to 1, with intervals over resampled trials.
        quality: Cross-validated R² of the surrogate, where there is one.
        reason: Why there are no shares.
        pairs: By two parameters, the largest first: the share of what all do alone and in pairs
            that these two do together.
        note: What the shares rest on, in sentences.
    """

    method: str
    shares: Mapping[str, Interval]
    quality: float | None = None
    reason: str | None = None
    pairs: Mapping[tuple[str, str], float] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseCost:
    """What one phase took: runs begun, environment steps and seconds of its runs."""

    runs: int
    steps: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepEvidence:
    """A sweep as its records tell it.

    Attributes:
        experiment: Its name.
        definition: Search space, plan, tuner and pruner of the sweep.
        steps: Full budget of a run.
        tuning_seeds: Those that it could use.
        selection_seeds: Those that finalists were scored on.
        trials: By number.
        selection: The choice, once it was made.
        default: The value of every parameter in the default configuration.
        importances: By method; empty until there are trials enough.
        costs: By phase (`tuning`, `selection`, `test`).
        reference: Known scores of the task (`environment.reference`).
    """

    experiment: str
    definition: Sweep
    steps: int
    tuning_seeds: tuple[int, ...]
    selection_seeds: tuple[int, ...]
    trials: tuple[TrialEvidence, ...]
    selection: Selection | None
    default: Mapping[str, Any]
    importances: tuple[Importance, ...]
    costs: Mapping[str, PhaseCost]
    reference: Mapping[str, Any] = field(default_factory=dict)


SEARCH = ("tuning", "selection")
"""Phases whose runs choose a configuration."""


@dataclass(frozen=True, slots=True)
class TuningEffort:
    """What was spent on finding a label's configuration."""

    trials: int
    steps: int

    def __str__(self) -> str:
        """In a sentence."""
        return f"{self.steps:,} environment steps in {counted(self.trials, 'trial')}"


def tuning_effort(sweep: SweepEvidence) -> TuningEffort:
    """What a sweep spent on tuning and selection."""
    steps = sum(cost.steps for phase, cost in sweep.costs.items() if phase in SEARCH)
    return TuningEffort(len(sweep.trials), steps)


def full_runs(sweep: SweepEvidence) -> float:
    """Full-run equivalents: a configuration at the full budget is one, whatever its seeds."""
    shares = [t.spent / (len(t.runs) * sweep.steps) for t in sweep.trials if t.runs]
    return fsum(min(share, 1.0) for share in shares)
