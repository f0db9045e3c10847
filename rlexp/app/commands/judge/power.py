"""`rlexp power`: plans the number of seeds of a comparison, from an effect size or a pilot."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import ClassVar, get_args

from rlexp.app.reading.integrity import refuse_changed
from rlexp.app.reporting.evidence import collect_evidence
from rlexp.app.results import Schema
from rlexp.app.workspace import Workspace
from rlexp.config.report_settings import read_report
from rlexp.errors import ConfigError
from rlexp.reports.analysis.estimates import unit
from rlexp.reports.analysis.fairness import warnings
from rlexp.reports.analysis.report_context import ReportSettings
from rlexp.reports.analysis.scale import common_scale, task_scores
from rlexp.reports.drawing.blocks import Tone
from rlexp.reports.evidence.runs import Evidence, LabelTaskRuns
from rlexp.stats.aggregate import without_cap
from rlexp.stats.pairs.pilot import SeedsNeeded, seeds_from_pilot
from rlexp.stats.pairs.power import ComparisonPlan, Shape, detectable_effect, seeds_for_power
from rlexp.stats.pairs.power import power as power_of
from rlexp.stats.task_scores import TaskScores

STEPS = (3, 5, 10, 20, 30, 50, 100)
"""Numbers of seeds in the table of every `EffectPlan`."""
SAMPLES = 1_000
"""Simulated comparisons: a power of 80 % is right to 1.3 points."""
ANY_DIFFERENCE = 1.0
"""The difference passed to `seeds_from_pilot` when only the spread of the pilot is used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerRequest:
    """The effect to detect or the number of seeds; at least one of them is given.

    Attributes:
        target: A pilot: an experiment, or a label of one (`EXPERIMENT/LABEL`).
        effect: The effect to detect, in standard deviations; it needs no pilot.
        difference: The difference to detect, in units of the scores; it needs a pilot.
        seeds: Number of seeds per label, to compute what they can detect.
        labels: Number of labels to compare; None takes those of the pilot, or two.
        scores: Shape of the distribution of scores: `normal` or `bimodal`.
        overrides: Changed settings of `conf/report.yaml` (`power=0.9`).
        strict: Whether to refuse a pilot of which any file differs from the ledger.
    """

    target: str | None = None
    effect: float | None = None
    difference: float | None = None
    seeds: int | None = None
    labels: int | None = None
    scores: str = "normal"
    overrides: tuple[str, ...] = ()
    strict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectRow:
    """The detectable effect and the power of a number of seeds.

    Attributes:
        seeds: Number of seeds per label.
        detectable: The effect that they detect with the planned power, in standard deviations;
            null if they can detect no effect, however large.
        power: The probability of detecting `EffectPlan.effect`; null if that is null.
    """

    seeds: int
    detectable: float | None
    power: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectPlan:
    """A plan for labels on one task, by simulation of the test that `rlexp compare` makes.

    Attributes:
        labels: Number of labels that are compared.
        metric: Name of the metric that is compared.
        scores: Shape of the simulated scores: `normal` or `bimodal`.
        alpha: The level of the test.
        power: The required probability of detecting an effect.
        effect: The effect to detect, in standard deviations; null if none was given.
        seeds: Number of seeds per label that detect the effect; null if none was given.
        planned: The given number of seeds per label; null if none was given.
        detectable: The effect that the given number of seeds detects, in standard deviations.
        table: Detectable effects for common numbers of seeds.
    """

    schema: ClassVar[Schema] = Schema("power-by-effect")

    labels: int
    metric: str
    scores: str
    alpha: float
    power: float
    effect: float | None
    seeds: int | None
    planned: int | None
    detectable: float | None
    table: tuple[EffectRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotRow:
    """The number of seeds by the spread of one label, or of both labels together.

    Attributes:
        pilot: The label, or both labels (`ppo and a2c`).
        n: Number of scores of the pilot.
        standard_deviation: The standard deviation of scores within a task, in `PilotPlan.unit`.
        standard_deviation_low: The lower end of its chi-square interval.
        standard_deviation_high: The upper end of its chi-square interval.
        level: The nominal coverage of that interval.
        seeds: Number of seeds per label on each task that detect the difference.
        low: The number of seeds for the lower end of the standard deviation.
        high: The number of seeds for the upper end of the standard deviation; null above 100,000.
        detectable: The difference that the given number of seeds detects, in `PilotPlan.unit`.
        reason: Why a number is null.
    """

    pilot: str
    n: int
    standard_deviation: float | None
    standard_deviation_low: float | None
    standard_deviation_high: float | None
    level: float
    seeds: int | None
    low: int | None
    high: int | None
    detectable: float | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotPlan:
    """A plan by the spread of a pilot, by simulation of the test that `rlexp compare` makes.

    Attributes:
        labels: Number of labels that are compared.
        metric: Name of the metric that is compared.
        scores: Shape of the simulated scores: `normal` or `bimodal`.
        alpha: The level of the test.
        power: The required probability of detecting a difference.
        level: The nominal coverage of the interval of a pilot's standard deviation.
        difference: The difference to detect, in `unit`; null if none was given.
        planned: The given number of seeds per label; null if none was given.
        unit: The unit of scores, differences and standard deviations.
        pilots: Each label, and both together if there are two.
        warnings: Why labels are left out or not comparable, and which records are damaged or
            differ from the ledger.
    """

    schema: ClassVar[Schema] = Schema("power-by-pilot")

    labels: int
    metric: str
    scores: str
    alpha: float
    power: float
    level: float
    difference: float | None
    planned: int | None
    unit: str
    pilots: tuple[PilotRow, ...]
    warnings: tuple[str, ...]


def power(request: PowerRequest, workspace: Workspace) -> EffectPlan | PilotPlan:
    """Plan the number of seeds: by a pilot if the request has a target, else by an effect.

    Raises:
        RlexpError: The options do not fit together, or the pilot does not exist.
    """
    _check(request)
    workspace.make_allowed_importable()
    # Only the settings are needed: without sections, none of their classes is imported.
    overrides = ["section=[]", *request.overrides]
    parts = read_report(overrides, workspace.folder, workspace.allowed)
    name, metric = next(iter(parts.metrics.items()))
    plan = ComparisonPlan(
        labels=request.labels or 2,
        statistic=without_cap(metric)[0],
        alpha=parts.settings.alpha,
        shape=_shape(request.scores),
        samples=SAMPLES,
    )
    try:
        if request.target is None:
            return _by_effect(request, parts.settings, plan, name)
        evidence = collect_evidence([request.target], None, workspace, integrity=request.strict)
        refuse_changed(evidence.integrity)
        return _by_pilot(evidence, request, parts.settings, plan, name)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _shape(name: str) -> Shape:
    shapes: dict[str, Shape] = {shape: shape for shape in get_args(Shape)}
    if name not in shapes:
        raise ConfigError.unknown(f"there is no --scores {name!r}", name, shapes, key="scores")
    return shapes[name]


def _check(request: PowerRequest) -> None:
    if request.effect is not None and request.difference is not None:
        raise ConfigError("--effect and --difference exclude each other; give only one of them")
    if request.target is None and request.difference is not None:
        raise ConfigError(
            "--difference is in units of the scores and needs a pilot that shows their spread: "
            "rlexp power EXPERIMENT --difference …; or give --effect in standard deviations",
        )
    if request.target is not None and request.effect is not None:
        raise ConfigError(
            "--effect is in standard deviations and takes no pilot: leave out the experiment, or "
            "give --difference in units of the scores",
        )
    numbers = [n for n in (request.effect, request.difference) if n is not None]
    if not all(map(isfinite, numbers)):
        raise ConfigError("--effect and --difference must be finite numbers")
    if not numbers and request.seeds is None:
        raise ConfigError(
            "give the effect to detect: --effect in standard deviations; or --difference in units "
            "of the scores, with an experiment as a pilot; or --seeds for the effect that a number "
            "of seeds detects",
        )


def _by_effect(
    request: PowerRequest, settings: ReportSettings, plan: ComparisonPlan, metric: str
) -> EffectPlan:
    effect, planned = request.effect, request.seeds
    needed = None if effect is None else seeds_for_power(plan, effect, settings.power)
    numbers = sorted({*STEPS, *filter(None, (needed, planned))})
    return EffectPlan(
        labels=plan.labels,
        metric=metric,
        scores=plan.shape,
        alpha=settings.alpha,
        power=settings.power,
        effect=effect,
        seeds=needed,
        planned=planned,
        detectable=None if planned is None else detectable_effect(plan, planned, settings.power),
        table=tuple(_effect_row(n, effect, settings, plan) for n in numbers if n >= 2),
    )


def _effect_row(
    seeds: int, effect: float | None, settings: ReportSettings, plan: ComparisonPlan
) -> EffectRow:
    return EffectRow(
        seeds=seeds,
        detectable=detectable_effect(plan, seeds, settings.power),
        power=None if effect is None else power_of(plan, effect, seeds),
    )


def _by_pilot(
    evidence: Evidence,
    request: PowerRequest,
    settings: ReportSettings,
    plan: ComparisonPlan,
    metric: str,
) -> PilotPlan:
    scores, reasons = _scores(evidence, settings)
    labels = request.labels or max(2, len(evidence.labels))
    plan = replace(plan, labels=labels, tasks=max(1, len(evidence.tasks)))
    pilots = [(label, [label_scores]) for label, label_scores in scores.items()]
    if len(scores) == 2:
        pilots.append((" and ".join(scores), list(scores.values())))
    doubts = [f"{label}: {reason}." for label, reason in reasons.items()]
    doubts += evidence.problems
    # A single label is compared with nothing, so warnings about unfairness do not apply.
    if len(pilots) > 1:
        doubts += [n.text for n in warnings(evidence) if n.tone is Tone.WARNING]
    return PilotPlan(
        labels=plan.labels,
        metric=metric,
        scores=plan.shape,
        alpha=settings.alpha,
        power=settings.power,
        level=settings.level,
        difference=request.difference,
        planned=request.seeds,
        unit=unit(evidence),
        pilots=tuple(
            _pilot_row(name, label_scores, request, settings, plan)
            for name, label_scores in pilots
        ),
        warnings=tuple(doubts),
    )


def _scores(
    evidence: Evidence, settings: ReportSettings
) -> tuple[dict[str, TaskScores], dict[str, str]]:
    """The scores of each label, and the reasons why other labels cannot serve as a pilot."""
    scale = common_scale(evidence, settings)
    scores: dict[str, TaskScores] = {}
    reasons: dict[str, str] = {}
    for label in evidence.labels:
        cells = evidence.of_label(label)
        if reason := _unfit_reason(cells, len(evidence.tasks)):
            reasons[label] = reason
            continue
        try:
            scores[label] = task_scores(cells, scale)
        except ValueError as error:
            reasons[label] = str(error)
    return scores, reasons


def _unfit_reason(cells: Sequence[LabelTaskRuns], tasks: int) -> str | None:
    """Why a label cannot serve as a pilot; None if it can."""
    empty = [cell.task for cell in cells if not cell.n]
    if empty:
        return f"no score on {', '.join(empty)}, so its spread is unknown"
    return None if len(cells) == tasks else "it has no runs on some of the tasks"


def _pilot_row(
    name: str,
    scores: Sequence[TaskScores],
    request: PowerRequest,
    settings: ReportSettings,
    plan: ComparisonPlan,
) -> PilotRow:
    difference = request.difference
    needed = seeds_from_pilot(
        *scores,
        difference=ANY_DIFFERENCE if difference is None else difference,
        plan=plan,
        chance=settings.power,
        level=settings.level,
    )
    # Without a requested difference, only the spread is meaningful: ANY_DIFFERENCE gave the rest.
    has_difference = difference is not None
    return PilotRow(
        pilot=name,
        n=sum(label_scores.n for label_scores in scores),
        standard_deviation=needed.standard_deviation,
        standard_deviation_low=needed.standard_deviation_low,
        standard_deviation_high=needed.standard_deviation_high,
        level=needed.level,
        seeds=needed.seeds if has_difference else None,
        low=needed.low if has_difference else None,
        high=needed.high if has_difference else None,
        detectable=_difference_of(needed, request, settings, plan),
        reason=needed.reason if has_difference or needed.standard_deviation is None else None,
    )


def _difference_of(
    needed: SeedsNeeded, request: PowerRequest, settings: ReportSettings, plan: ComparisonPlan
) -> float | None:
    """The smallest difference that the given number of seeds detects; None if there is none."""
    if request.seeds is None or needed.standard_deviation is None:
        return None
    effect = detectable_effect(plan, request.seeds, settings.power)
    return None if effect is None else effect * needed.standard_deviation
