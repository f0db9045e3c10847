"""What a pilot tells of the number of seeds: label by label, and by both where there are two."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from typing import Any

from rlexp.reports.blocks import Block, Column, Notice, Table, Text, Tone
from rlexp.reports.estimates import unit as in_units_of
from rlexp.reports.evidence import Cell, Evidence
from rlexp.reports.fairness import warnings
from rlexp.reports.scale import common_scale, task_scores
from rlexp.reports.settings import Settings
from rlexp.stats.pilot import SeedsNeeded, seeds_from_pilot
from rlexp.stats.power import detectable_effect
from rlexp.stats.task_scores import TaskScores

_NOTHING = (
    "There is nothing to plan by: no label has two runs with different scores on a task. Run more "
    "seeds first, or plan with --effect, which needs no experiment."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """What is asked of a pilot: seeds that find a difference, a difference that seeds find."""

    difference: float | None = None
    seeds: int | None = None


def by_pilot(
    evidence: Evidence, sought: Sought, settings: Settings
) -> tuple[dict[str, Any], list[Block]]:
    """What a pilot says of the seeds: as JSON values, and in blocks.

    Raises:
        ValueError: The difference is 0 or no number, or a level is none.
    """
    pilots, reasons = _pilots(evidence, settings)
    rows = [_pilot_row(name, own, sought, settings) for name, own in pilots]
    unit = in_units_of(evidence)
    doubts = [f"{label}: {reason}." for label, reason in reasons.items()]
    if len(pilots) > 1:
        doubts += [n.text for n in warnings(evidence) if n.tone is Tone.WARNING]
    blocks: list[Block] = [Notice(tone=Tone.WARNING, text=text) for text in doubts]
    if all(row.get("standard_deviation") is None for row in rows):
        blocks.append(Notice(tone=Tone.PROBLEM, text=_NOTHING))
    else:
        blocks += [Text(text=text) for text in _answers(rows, sought, unit, settings)]
    if rows:
        blocks.append(_pilot_table(rows, unit, settings))
    value = {"difference": sought.difference, "unit": unit, "pilots": rows, "warnings": doubts}
    return value, blocks


def _answers(
    rows: Sequence[dict[str, Any]], sought: Sought, unit: str, settings: Settings
) -> Iterator[str]:
    """What the least favourable pilot says: whoever plans by another one hopes."""
    wanted = f"with {settings.power:.0%} power, tested at {settings.alpha:g}"
    needed = [row for row in rows if row.get("seeds")]
    if needed:
        most = max(needed, key=lambda row: row["seeds"])
        upper = f"{most['high']:,}" if most["high"] else "far more"
        yield (
            f"A difference of {sought.difference:g} ({unit}) is found {wanted}, by "
            f"{most['seeds']:,} seeds of each label, by the spread of {most['pilot']}. Its "
            f"{most['n']:,} runs do not tell that spread better than that {most['low']:,} to "
            f"{upper} may be needed."
        )
    found = [row for row in rows if row.get("detectable") is not None]
    if found:
        most = max(found, key=lambda row: row["detectable"])
        yield (
            f"{sought.seeds:,} seeds of each label find a difference of {most['detectable']:.4g} "
            f"({unit}) {wanted}, by the spread of {most['pilot']}."
        )


def _pilots(
    evidence: Evidence, settings: Settings
) -> tuple[list[tuple[str, list[TaskScores]]], dict[str, str]]:
    """Each label by itself, and the pair where there are two; or why a label tells nothing."""
    scale = common_scale(evidence, settings)
    found: dict[str, TaskScores] = {}
    reasons: dict[str, str] = {}
    for label in evidence.labels:
        cells = evidence.of_label(label)
        if reason := _unfit(cells, len(evidence.tasks)):
            reasons[label] = reason
            continue
        try:
            found[label] = task_scores(cells, scale)
        except ValueError as error:
            reasons[label] = str(error)
    pilots = [(label, [own]) for label, own in found.items()]
    if len(found) == 2:
        pilots.append((" and ".join(found), list(found.values())))
    return pilots, reasons


def _unfit(cells: Sequence[Cell], tasks: int) -> str | None:
    empty = [cell.task for cell in cells if not cell.n]
    if empty:
        return f"no score on {', '.join(empty)}: it tells no spread"
    return None if len(cells) == tasks else "it was not asked for on every task"


def _pilot_row(
    name: str, own: Sequence[TaskScores], sought: Sought, settings: Settings
) -> dict[str, Any]:
    probe = sought.difference if sought.difference is not None else 1.0
    planned = seeds_from_pilot(
        *own,
        difference=probe,
        alpha=settings.alpha,
        power=settings.power,
        level=settings.level,
    )
    row: dict[str, Any] = {"pilot": name, "n": sum(scores.n for scores in own)}
    if sought.difference is not None:
        row |= asdict(planned)
    else:
        row |= {"standard_deviation": planned.standard_deviation}
        row["reason"] = planned.reason if planned.standard_deviation is None else None
    row["detectable"] = _detectable(planned, sought, settings, tasks=len(own[0].sizes))
    return row


def _detectable(
    planned: SeedsNeeded, sought: Sought, settings: Settings, *, tasks: int
) -> float | None:
    """The smallest mean difference over the tasks that the seeds asked about find."""
    if sought.seeds is None or planned.standard_deviation is None:
        return None
    effect = detectable_effect(sought.seeds, power=settings.power, alpha=settings.alpha)
    # As if all tasks together had the degrees of freedom of one: a little more than is needed.
    return effect * planned.standard_deviation / sqrt(tasks)


def _pilot_table(rows: Sequence[dict[str, Any]], unit: str, settings: Settings) -> Table:
    wanted = [
        ("pilot", "pilot"),
        ("n", "runs"),
        ("standard_deviation", "standard deviation"),
        ("seeds", "seeds of each label"),
        ("low", "at least"),
        ("high", "at most"),
        ("detectable", "difference found"),
        ("reason", "why not"),
    ]
    kept = [(key, title) for key, title in wanted if any(row.get(key) is not None for row in rows)]
    return Table(
        name="pilot",
        title="Seeds by the spread of the pilot",
        columns=tuple(Column(title=title) for _, title in kept),
        rows=tuple(tuple(row.get(key) for key, _ in kept) for row in rows),
        note=f"Two-sided t test of one pair at {settings.alpha:g} with {settings.power:.0%} power; "
        f"unit: {unit}. A label by itself stands for both sides."
        + (_range(settings) if any(key == "low" for key, _ in kept) else ""),
    )


def _range(settings: Settings) -> str:
    return (
        f" At least, at most: by the {settings.level:.0%} chi-square interval of the pilot's "
        "standard deviation."
    )
