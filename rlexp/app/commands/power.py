"""`rlexp power`: how many seeds a comparison needs, from an effect size or from a pilot."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from rlexp.app.gather import gather
from rlexp.app.pilot import Sought, by_pilot
from rlexp.app.workspace import Workspace
from rlexp.config.report import read_report
from rlexp.console import Console
from rlexp.errors import ConfigError
from rlexp.reports.blocks import Block, Column, Table, Text
from rlexp.reports.settings import Settings
from rlexp.stats.power import detectable_effect, power, seeds_for_power

STEPS = (3, 5, 10, 20, 30, 50, 100)
"""Numbers of seeds that a table always shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be found: an effect in standard deviations, or a difference in units of scores.

    `seeds` asks the other way round: what so many seeds find.
    """

    effect: float | None = None
    difference: float | None = None
    seeds: int | None = None
    words: tuple[str, ...] = ()


def plan_seeds(target: str | None, plan: Plan, workspace: Workspace, console: Console) -> int:
    """Say how many seeds find what is to be found; returns 0.

    Raises:
        RlexpError: Nothing to plan by was named, or the pilot has no scores.
    """
    _check(target, plan)
    workspace.make_allowed_importable()
    settings = read_report(
        ["section=[]", *plan.words], workspace.folder, workspace.allowed
    ).settings
    try:
        if target is None:
            value, blocks = _by_effect(plan, settings)
        else:
            sought = Sought(difference=plan.difference, seeds=plan.seeds)
            value, blocks = by_pilot(gather([target], None, workspace), sought, settings)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    if console.as_json:
        console.json({"alpha": settings.alpha, "power": settings.power, **value})
    else:
        console.blocks(blocks)
    return 0


def _check(target: str | None, plan: Plan) -> None:
    if plan.effect is not None and plan.difference is not None:
        raise ConfigError("--effect and --difference are two ways to say the same; give one")
    if target is None and plan.difference is not None:
        raise ConfigError(
            "--difference is in units of scores, whose spread a pilot tells: "
            "rlexp power EXPERIMENT --difference …; or give --effect in standard deviations",
        )
    if target is not None and plan.effect is not None:
        raise ConfigError(
            "--effect needs no pilot; give --difference in units of scores, or leave out the "
            "experiment",
        )
    if not all(isfinite(found) for found in (plan.effect, plan.difference) if found is not None):
        raise ConfigError("what is to be found must be a finite number")
    if plan.effect is None and plan.difference is None and plan.seeds is None:
        raise ConfigError(
            "say what is to be found: --effect in standard deviations, --difference in units of "
            "scores with an experiment as a pilot, or --seeds for what so many seeds find",
        )


def _by_effect(plan: Plan, settings: Settings) -> tuple[dict[str, Any], list[Block]]:
    alpha, wanted = settings.alpha, settings.power
    needed = None
    if plan.effect is not None:
        needed = seeds_for_power(plan.effect, power=wanted, alpha=alpha)
    rows = _rows(needed, plan.seeds, plan.effect, settings)
    said: list[Block] = []
    if plan.effect is not None:
        said.append(
            Text(
                text=f"An effect of {plan.effect:g} {_deviations(plan.effect)} is found with {wanted:.0%} "
                f"power, tested at {alpha:g}, by {needed:,} seeds of each label.",
            )
        )
    if plan.seeds is not None:
        found = detectable_effect(plan.seeds, power=wanted, alpha=alpha)
        said.append(
            Text(
                text=f"{plan.seeds:,} seeds of each label find an effect of {found:.2f} standard "
                f"deviations with {wanted:.0%} power, tested at {alpha:g}.",
            )
        )
    value = {"effect": plan.effect, "seeds": needed, "table": rows}
    return value, [*said, _table(rows, settings)]


def _deviations(effect: float) -> str:
    return "standard deviation" if effect == 1 else "standard deviations"


def _rows(
    needed: int | None, asked: int | None, effect: float | None, settings: Settings
) -> list[dict[str, Any]]:
    numbers = sorted({*STEPS, *filter(None, (needed, asked))})
    return [
        {
            "seeds": n,
            "detectable": detectable_effect(n, power=settings.power, alpha=settings.alpha),
            "power": power(effect, n, alpha=settings.alpha) if effect is not None else None,
        }
        for n in numbers
        if n >= 2
    ]


def _table(rows: Sequence[dict[str, Any]], settings: Settings) -> Table:
    known = [row for row in rows if row["power"] is not None]
    columns = [Column(title="seeds of each label"), Column(title="effect found")]
    columns += [Column(title="chance to find the effect")] if known else []
    keys = ["seeds", "detectable", "power"][: len(columns)]
    return Table(
        name="power",
        title="What so many seeds find",
        columns=tuple(columns),
        rows=tuple(tuple(row[key] for key in keys) for row in rows),
        note=f"Two-sided t test at {settings.alpha:g} of one pair on one task; the effect, in "
        f"standard deviations, that is found with {settings.power:.0%} power.",
    )
