"""`rlexp power`: how many seeds a comparison needs, from an effect size or from a pilot."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, sqrt
from typing import ClassVar

from rlexp.app.reporting.evidence import gather
from rlexp.app.results import Schema
from rlexp.app.workspace import Workspace
from rlexp.config.report import read_report
from rlexp.errors import ConfigError
from rlexp.reports.analysis.estimates import unit
from rlexp.reports.analysis.fairness import warnings
from rlexp.reports.analysis.inquiry import Settings
from rlexp.reports.analysis.scale import common_scale, task_scores
from rlexp.reports.drawing.blocks import Tone
from rlexp.reports.evidence.runs import Cell, Evidence
from rlexp.stats import power as t_test
from rlexp.stats.pilot import SeedsNeeded, seeds_from_pilot
from rlexp.stats.task_scores import TaskScores

STEPS = (3, 5, 10, 20, 30, 50, 100)
"""Numbers of seeds that the table of an effect always has."""
ANY_DIFFERENCE = 1.0
"""A difference for which a pilot is asked where only its spread is needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerRequest:
    """What to plan seeds for; at least one of effect, difference and seeds is given.

    Attributes:
        target: A pilot: an experiment, or a label of one (`EXPERIMENT/LABEL`).
        effect: The effect to find, in standard deviations; it needs no pilot.
        difference: The difference to find, in units of the scores; it needs a pilot.
        seeds: Seeds of each label, to learn what so many find.
        overrides: Changed settings of `conf/report.yaml` (`power=0.9`).
    """

    target: str | None = None
    effect: float | None = None
    difference: float | None = None
    seeds: int | None = None
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectRow:
    """What a number of seeds finds.

    Attributes:
        seeds: Seeds of each label.
        detectable: The effect that they find, in standard deviations.
        power: The chance that they find the effect in question; nothing where there is none.
    """

    seeds: int
    detectable: float
    power: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectPlan:
    """Seeds and effects of one pair of labels on one task, by the two-sided t test.

    Attributes:
        alpha: The level of the test.
        power: The chance with which an effect is to be found.
        effect: The effect to find, in standard deviations, if there is one.
        seeds: Seeds of each label that find it.
        planned: Seeds of each label in question, if there are any.
        detectable: The effect that those find, in standard deviations.
        table: The same for common numbers of seeds.
    """

    schema: ClassVar[Schema] = Schema("power-by-effect")

    alpha: float
    power: float
    effect: float | None
    seeds: int | None
    planned: int | None
    detectable: float | None
    table: tuple[EffectRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotRow:
    """Seeds by the spread of one label, or of both labels together.

    Attributes:
        pilot: The label, or both (`ppo and a2c`).
        n: Its scores.
        standard_deviation: Of scores within a task, in `PilotPlan.unit`.
        standard_deviation_low: The lower end of its chi-square interval.
        standard_deviation_high: The upper end of its chi-square interval.
        level: The nominal coverage of that interval.
        seeds: Seeds of each label on each task that find the difference.
        low: As many would be enough if the spread were at the lower end.
        high: As many are needed if the spread is at the upper end; nothing above 100,000.
        detectable: The difference that the planned seeds find, in `PilotPlan.unit`.
        reason: Why a number is not there.
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
    """Seeds and differences by the spread of a pilot, by the two-sided t test of one pair.

    Attributes:
        alpha: The level of the test.
        power: The chance with which a difference is to be found.
        level: The nominal coverage of the interval of a pilot's standard deviation.
        difference: The difference to find, in `unit`, if there is one.
        planned: Seeds of each label in question, if there are any.
        unit: The unit of scores, differences and standard deviations.
        pilots: Each label by itself, and both together where there are two.
        warnings: Why labels are left out, and in what they are not comparable.
    """

    schema: ClassVar[Schema] = Schema("power-by-pilot")

    alpha: float
    power: float
    level: float
    difference: float | None
    planned: int | None
    unit: str
    pilots: tuple[PilotRow, ...]
    warnings: tuple[str, ...]


def power(request: PowerRequest, workspace: Workspace) -> EffectPlan | PilotPlan:
    """Plan the number of seeds: by a pilot where a target is named, else by an effect.

    Raises:
        RlexpError: There is nothing to plan by, or the pilot does not exist.
    """
    _check(request)
    workspace.make_allowed_importable()
    overrides = ["section=[]", *request.overrides]
    settings = read_report(overrides, workspace.folder, workspace.allowed).settings
    try:
        if request.target is None:
            return _by_effect(request, settings)
        return _by_pilot(gather([request.target], None, workspace), request, settings)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _check(request: PowerRequest) -> None:
    if request.effect is not None and request.difference is not None:
        raise ConfigError("--effect and --difference are two ways to say the same; give one")
    if request.target is None and request.difference is not None:
        raise ConfigError(
            "--difference is in units of scores, whose spread a pilot tells: "
            "rlexp power EXPERIMENT --difference …; or give --effect in standard deviations",
        )
    if request.target is not None and request.effect is not None:
        raise ConfigError(
            "--effect needs no pilot; give --difference in units of scores, or leave out the "
            "experiment",
        )
    numbers = [n for n in (request.effect, request.difference) if n is not None]
    if not all(map(isfinite, numbers)):
        raise ConfigError("what is to be found must be a finite number")
    if not numbers and request.seeds is None:
        raise ConfigError(
            "say what is to be found: --effect in standard deviations, --difference in units of "
            "scores with an experiment as a pilot, or --seeds for what so many seeds find",
        )


def _by_effect(request: PowerRequest, settings: Settings) -> EffectPlan:
    effect, planned = request.effect, request.seeds
    needed = None
    if effect is not None:
        needed = t_test.seeds_for_power(effect, power=settings.power, alpha=settings.alpha)
    numbers = sorted({*STEPS, *filter(None, (needed, planned))})
    return EffectPlan(
        alpha=settings.alpha,
        power=settings.power,
        effect=effect,
        seeds=needed,
        planned=planned,
        detectable=_effect_of(planned, settings) if planned is not None else None,
        table=tuple(_effect_row(n, effect, settings) for n in numbers if n >= 2),
    )


def _effect_row(seeds: int, effect: float | None, settings: Settings) -> EffectRow:
    chance = None if effect is None else t_test.power(effect, seeds, alpha=settings.alpha)
    return EffectRow(seeds=seeds, detectable=_effect_of(seeds, settings), power=chance)


def _effect_of(seeds: int, settings: Settings) -> float:
    """The effect that so many seeds of each label find, in standard deviations."""
    return t_test.detectable_effect(seeds, power=settings.power, alpha=settings.alpha)


def _by_pilot(evidence: Evidence, request: PowerRequest, settings: Settings) -> PilotPlan:
    scores, reasons = _scores(evidence, settings)
    pilots = [(label, [own]) for label, own in scores.items()]
    if len(scores) == 2:
        pilots.append((" and ".join(scores), list(scores.values())))
    doubts = [f"{label}: {reason}." for label, reason in reasons.items()]
    if len(pilots) > 1:
        doubts += [n.text for n in warnings(evidence) if n.tone is Tone.WARNING]
    return PilotPlan(
        alpha=settings.alpha,
        power=settings.power,
        level=settings.level,
        difference=request.difference,
        planned=request.seeds,
        unit=unit(evidence),
        pilots=tuple(_pilot_row(name, own, request, settings) for name, own in pilots),
        warnings=tuple(doubts),
    )


def _scores(
    evidence: Evidence, settings: Settings
) -> tuple[dict[str, TaskScores], dict[str, str]]:
    """The scores of each label, or why a label tells nothing."""
    scale = common_scale(evidence, settings)
    scores: dict[str, TaskScores] = {}
    reasons: dict[str, str] = {}
    for label in evidence.labels:
        cells = evidence.of_label(label)
        if reason := _unfit(cells, len(evidence.tasks)):
            reasons[label] = reason
            continue
        try:
            scores[label] = task_scores(cells, scale)
        except ValueError as error:
            reasons[label] = str(error)
    return scores, reasons


def _unfit(cells: Sequence[Cell], tasks: int) -> str | None:
    empty = [cell.task for cell in cells if not cell.n]
    if empty:
        return f"no score on {', '.join(empty)}: it tells no spread"
    return None if len(cells) == tasks else "it was not asked for on every task"


def _pilot_row(
    name: str, scores: Sequence[TaskScores], request: PowerRequest, settings: Settings
) -> PilotRow:
    difference = request.difference
    needed = seeds_from_pilot(
        *scores,
        difference=ANY_DIFFERENCE if difference is None else difference,
        alpha=settings.alpha,
        power=settings.power,
        level=settings.level,
    )
    # Without a difference to find, only what a pilot says of its spread means something.
    meant = difference is not None
    return PilotRow(
        pilot=name,
        n=sum(own.n for own in scores),
        standard_deviation=needed.standard_deviation,
        standard_deviation_low=needed.standard_deviation_low,
        standard_deviation_high=needed.standard_deviation_high,
        level=needed.level,
        seeds=needed.seeds if meant else None,
        low=needed.low if meant else None,
        high=needed.high if meant else None,
        detectable=_difference_of(needed, request, settings, tasks=len(scores[0].sizes)),
        reason=needed.reason if meant or needed.standard_deviation is None else None,
    )


def _difference_of(
    needed: SeedsNeeded, request: PowerRequest, settings: Settings, *, tasks: int
) -> float | None:
    """The smallest mean difference over the tasks that the planned seeds find."""
    if request.seeds is None or needed.standard_deviation is None:
        return None
    # As if all tasks together had the degrees of freedom of one: a little more than is needed.
    return _effect_of(request.seeds, settings) * needed.standard_deviation / sqrt(tasks)
