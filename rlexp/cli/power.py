"""`rlexp power`: plans the number of seeds, and says what so many seeds find."""

from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.options import Allow, Json, console_for, here, render_result
from rlexp.cli.report_settings import Alpha, Set, setting_overrides

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlexp.app.commands.power import EffectPlan, PilotPlan
    from rlexp.reports.drawing.blocks import Block, Table

NOTHING = (
    "There is nothing to plan by: no label has two runs with different scores on a task. Run more "
    "seeds first, or plan with --effect, which needs no experiment."
)
PILOT_COLUMNS = {
    "pilot": "pilot",
    "n": "runs",
    "standard_deviation": "standard deviation",
    "seeds": "seeds of each label",
    "low": "at least",
    "high": "at most",
    "detectable": "difference found",
    "reason": "why not",
}
"""Titles of the fields of a pilot that are shown where one of the pilots has them."""


def power(
    target: Annotated[
        str | None, typer.Argument(help="A pilot: EXPERIMENT or EXPERIMENT/LABEL")
    ] = None,
    effect: Annotated[
        float | None, typer.Option("--effect", help="To be found, in standard deviations")
    ] = None,
    difference: Annotated[
        float | None, typer.Option("--difference", help="To be found, in units of the scores")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option("--seeds", min=2, help="Say what so many seeds find")
    ] = None,
    alpha: Alpha = None,
    chance: Annotated[
        float | None, typer.Option("--power", help="How often it is to be found: 0.8")
    ] = None,
    settings: Set = None,
    allow_import: Allow = None,
    as_json: Json = False,
) -> None:
    """Plan the number of seeds, from an effect size or from a pilot."""
    from rlexp.app.commands.power import PowerRequest
    from rlexp.app.commands.power import power as use_case

    request = PowerRequest(
        target=target,
        effect=effect,
        difference=difference,
        seeds=seeds,
        overrides=setting_overrides(settings, alpha=alpha, power=chance),
    )
    plan = use_case(request, here(allow_import))
    render_result(
        plan, console_for(as_json=as_json), lambda p, console: console.blocks(power_blocks(p))
    )


def power_blocks(plan: "EffectPlan | PilotPlan") -> "Iterator[Block]":
    """A plan as sentences and a table."""
    from rlexp.app.commands.power import EffectPlan

    return _effect_blocks(plan) if isinstance(plan, EffectPlan) else _pilot_blocks(plan)


def _effect_blocks(plan: "EffectPlan") -> "Iterator[Block]":
    from rlexp.reports.drawing.blocks import Text

    if plan.effect is not None:
        unit = "standard deviation" if plan.effect == 1 else "standard deviations"
        yield Text(
            text=f"An effect of {plan.effect:g} {unit} is found with {plan.power:.0%} power, "
            f"tested at {plan.alpha:g}, by {plan.seeds:,} seeds of each label.",
        )
    if plan.planned is not None:
        yield Text(
            text=f"{plan.planned:,} seeds of each label find an effect of {plan.detectable:.2f} "
            f"standard deviations with {plan.power:.0%} power, tested at {plan.alpha:g}.",
        )
    yield _effect_table(plan)


def _effect_table(plan: "EffectPlan") -> "Table":
    from rlexp.reports.drawing.blocks import Column, Table

    titles = ["seeds of each label", "effect found"]
    rows: list[tuple[int | float | None, ...]] = [(r.seeds, r.detectable) for r in plan.table]
    if plan.effect is not None:
        titles.append("chance to find the effect")
        rows = [(r.seeds, r.detectable, r.power) for r in plan.table]
    return Table(
        name="power",
        title="What so many seeds find",
        columns=tuple(Column(title=title) for title in titles),
        rows=tuple(rows),
        note=f"Two-sided t test at {plan.alpha:g} of one pair on one task; the effect, in "
        f"standard deviations, that is found with {plan.power:.0%} power.",
    )


def _pilot_blocks(plan: "PilotPlan") -> "Iterator[Block]":
    from rlexp.reports.drawing.blocks import Notice, Text, Tone

    for text in plan.warnings:
        yield Notice(tone=Tone.WARNING, text=text)
    if all(row.standard_deviation is None for row in plan.pilots):
        yield Notice(tone=Tone.PROBLEM, text=NOTHING)
    else:
        yield from (Text(text=text) for text in _answers(plan))
    if plan.pilots:
        yield _pilot_table(plan)


def _answers(plan: "PilotPlan") -> "Iterator[str]":
    """What the least favourable pilot says: whoever plans by another one hopes."""
    chance = f"with {plan.power:.0%} power, tested at {plan.alpha:g}"
    needed = [(row.seeds, row) for row in plan.pilots if row.seeds]
    if needed:
        seeds, row = max(needed, key=lambda pair: pair[0])
        upper = f"{row.high:,}" if row.high else "far more"
        yield (
            f"A difference of {plan.difference:g} ({plan.unit}) is found {chance}, by "
            f"{seeds:,} seeds of each label, by the spread of {row.pilot}. Its "
            f"{row.n:,} runs do not tell that spread better than that {row.low:,} to "
            f"{upper} may be needed."
        )
    detectable = [(row.detectable, row) for row in plan.pilots if row.detectable is not None]
    if detectable:
        difference, row = max(detectable, key=lambda pair: pair[0])
        yield (
            f"{plan.planned:,} seeds of each label find a difference of {difference:.4g} "
            f"({plan.unit}) {chance}, by the spread of {row.pilot}."
        )


def _pilot_table(plan: "PilotPlan") -> "Table":
    from rlexp.reports.drawing.blocks import Column, Table

    shown = [
        key for key in PILOT_COLUMNS if any(getattr(row, key) is not None for row in plan.pilots)
    ]
    interval = (
        f" At least, at most: by the {plan.level:.0%} chi-square interval of the pilot's "
        "standard deviation."
    )
    return Table(
        name="pilot",
        title="Seeds by the spread of the pilot",
        columns=tuple(Column(title=PILOT_COLUMNS[key]) for key in shown),
        rows=tuple(tuple(getattr(row, key) for key in shown) for row in plan.pilots),
        note=f"Two-sided t test of one pair at {plan.alpha:g} with {plan.power:.0%} power; "
        f"unit: {plan.unit}. A label by itself stands for both sides."
        + (interval if "low" in shown else ""),
    )
