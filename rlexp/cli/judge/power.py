"""`rlexp power`: plans the number of seeds, and shows what a number of seeds can detect."""

from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.completion import complete_label
from rlexp.cli.options import AllowImport, Json, console_for, current_workspace, render_result
from rlexp.cli.report_settings import (
    AlphaOption,
    SettingsOption,
    StrictRecordsOption,
    setting_overrides,
)
from rlexp.text import format_percentage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlexp.app.commands.judge.power import EffectPlan, PilotPlan
    from rlexp.reports.drawing.blocks import Block, Table

NO_PILOT_SPREAD = (
    "The number of seeds cannot be planned: no label has two runs with different scores on a task. "
    "Run more seeds first, or use --effect, which needs no experiment."
)
PILOT_COLUMNS = {
    "pilot": "pilot",
    "n": "runs",
    "standard_deviation": "standard deviation",
    "seeds": "seeds per label",
    "low": "at least",
    "high": "at most",
    "detectable": "detectable difference",
    "reason": "reason",
}
"""Column titles of the fields of `PilotRow`; a column without any value is left out."""


def power(
    target: Annotated[
        str | None,
        typer.Argument(
            autocompletion=complete_label, help="A pilot: EXPERIMENT or EXPERIMENT/LABEL."
        ),
    ] = None,
    effect: Annotated[
        float | None,
        typer.Option("--effect", help="Effect to detect, in standard deviations."),
    ] = None,
    difference: Annotated[
        float | None,
        typer.Option("--difference", help="Difference to detect, in units of the scores."),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option("--seeds", min=2, help="Show what this number of seeds can detect."),
    ] = None,
    labels: Annotated[
        int | None,
        typer.Option("--labels", min=2, help="Number of labels that are compared."),
    ] = None,
    scores: Annotated[
        str,
        typer.Option("--scores", help="Shape of the scores: normal, or bimodal (some runs fail)."),
    ] = "normal",
    alpha: AlphaOption = None,
    chance: Annotated[
        float | None,
        typer.Option("--power", help="Probability of detecting it: 0.8."),
    ] = None,
    settings: SettingsOption = None,
    strict: StrictRecordsOption = False,
    allow_import: AllowImport = None,
    as_json: Json = False,
) -> None:
    """Plan the number of seeds from an effect size or a pilot."""
    from rlexp.app.commands.judge.power import PowerRequest
    from rlexp.app.commands.judge.power import power as use_case

    request = PowerRequest(
        target=target,
        effect=effect,
        difference=difference,
        seeds=seeds,
        labels=labels,
        scores=scores,
        overrides=setting_overrides(settings, alpha=alpha, power=chance),
        strict=strict,
    )
    plan = use_case(request, current_workspace(allow_import))
    render_result(
        plan, console_for(as_json=as_json), lambda p, console: console.blocks(power_blocks(p))
    )


def power_blocks(plan: "EffectPlan | PilotPlan") -> "Iterator[Block]":
    """The plan as sentences and a table."""
    from rlexp.app.commands.judge.power import EffectPlan

    return _effect_blocks(plan) if isinstance(plan, EffectPlan) else _pilot_blocks(plan)


def _effect_blocks(plan: "EffectPlan") -> "Iterator[Block]":
    from rlexp.reports.drawing.blocks import Text

    if plan.effect is not None:
        unit = "standard deviation" if plan.effect == 1 else "standard deviations"
        yield Text(
            text=f"To detect an effect of {plan.effect:g} {unit} with {format_percentage(plan.power)} power at "
            f"level {plan.alpha:g}, {plan.seeds:,} seeds per label are needed.",
        )
    if plan.planned is not None:
        effect = (
            "no effect, however large,"
            if plan.detectable is None
            else (f"an effect of {plan.detectable:.2f} standard deviations")
        )
        yield Text(
            text=f"{plan.planned:,} seeds per label detect {effect} with {format_percentage(plan.power)} power at "
            f"level {plan.alpha:g}.",
        )
    yield _effect_table(plan)


def _effect_table(plan: "EffectPlan") -> "Table":
    from rlexp.reports.drawing.blocks import Table, TableColumn

    titles = ["seeds per label", "detectable effect"]
    rows: list[tuple[int | float | None, ...]] = [(r.seeds, r.detectable) for r in plan.table]
    if plan.effect is not None:
        titles.append("power for the effect")
        rows = [(r.seeds, r.detectable, r.power) for r in plan.table]
    return Table(
        name="power",
        title="Detectable effect by number of seeds",
        columns=tuple(TableColumn(title=title) for title in titles),
        rows=tuple(rows),
        note=f"{_method(plan)}, on one task at level {plan.alpha:g}. The detectable effect is in "
        f"standard deviations, with {format_percentage(plan.power)} power; empty: no effect can be detected.",
    )


def _method(plan: "EffectPlan | PilotPlan") -> str:
    """The simulated comparison, in words."""
    return (
        f"Simulation of the test that rlexp compare makes: {plan.metric} of {plan.labels} labels "
        f"with {plan.scores} scores, of which one differs"
    )


def _pilot_blocks(plan: "PilotPlan") -> "Iterator[Block]":
    from rlexp.reports.drawing.blocks import Callout, Text, Tone

    for text in plan.warnings:
        yield Callout(tone=Tone.WARNING, text=text)
    if all(row.standard_deviation is None for row in plan.pilots):
        yield Callout(tone=Tone.PROBLEM, text=NO_PILOT_SPREAD)
    else:
        yield from (Text(text=text) for text in _answers(plan))
    if plan.pilots:
        yield _pilot_table(plan)


def _answers(plan: "PilotPlan") -> "Iterator[str]":
    """The seeds and the difference by the pilot with the largest spread, as sentences."""
    from rlexp.stats.pairs.power import MOST_SEEDS

    # The plan must hold for every label, so it uses the pilot that needs the most seeds.
    chance = f"with {format_percentage(plan.power)} power at level {plan.alpha:g}"
    needed = [(row.seeds, row) for row in plan.pilots if row.seeds]
    if needed:
        seeds, row = max(needed, key=lambda pair: pair[0])
        upper = f"{row.high:,}" if row.high else f"more than {MOST_SEEDS:,}"
        yield (
            f"To detect a difference of {plan.difference:g} ({plan.unit}) {chance}, {seeds:,} "
            f"seeds per label are needed, by the spread of {row.pilot}. Its {row.n:,} runs "
            f"estimate this spread imprecisely: {row.low:,} to {upper} seeds may be needed."
        )
    detectable = [(row.detectable, row) for row in plan.pilots if row.detectable is not None]
    if detectable:
        difference, row = max(detectable, key=lambda pair: pair[0])
        yield (
            f"{plan.planned:,} seeds per label detect a difference of {difference:.4g} "
            f"({plan.unit}) {chance}, by the spread of {row.pilot}."
        )


def _pilot_table(plan: "PilotPlan") -> "Table":
    from rlexp.reports.drawing.blocks import Table, TableColumn

    shown = [
        key for key in PILOT_COLUMNS if any(getattr(row, key) is not None for row in plan.pilots)
    ]
    interval = (
        f" At least, at most: by the {format_percentage(plan.level)} chi-square interval of the pilot's "
        "standard deviation."
    )
    return Table(
        name="pilot",
        title="Seeds by the spread of the pilot",
        columns=tuple(TableColumn(title=PILOT_COLUMNS[key]) for key in shown),
        rows=tuple(tuple(getattr(row, key) for key in shown) for row in plan.pilots),
        note=f"{_method(plan)}, at level {plan.alpha:g} with {format_percentage(plan.power)} power; unit: "
        f"{plan.unit}. For a single label, all labels have its spread."
        + (interval if "low" in shown else ""),
    )
