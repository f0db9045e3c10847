"""Commands that say what the scores show: compare, power."""

from typing import Annotated

import typer

from rlexp.cli.options import Allow, Json, console_for, here
from rlexp.cli.report_settings import (
    Alpha,
    Set,
    setting_overrides,
)


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
    wanted: Annotated[
        float | None, typer.Option("--power", help="How often it is to be found: 0.8")
    ] = None,
    settings: Set = None,
    allow_import: Allow = None,
    as_json: Json = False,
) -> None:
    """Plan the number of seeds, from an effect size or from a pilot."""
    from rlexp.app.commands.power import Plan, plan_seeds

    plan = Plan(
        effect=effect,
        difference=difference,
        seeds=seeds,
        words=setting_overrides(settings, alpha=alpha, power=wanted),
    )
    raise typer.Exit(plan_seeds(target, plan, here(allow_import), console_for(as_json=as_json)))
