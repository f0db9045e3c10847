"""Commands that say what the scores show: compare, power."""

import sys
from typing import Annotated

import typer

from rlexp.cli.options import Allow, Json, console_for, here
from rlexp.cli.report_settings import (
    Alpha,
    Interval,
    Level,
    Margin,
    Phase,
    Seed,
    Set,
    Strict,
    Targets,
    setting_overrides,
)


def compare(
    targets: Targets,
    phase: Phase = None,
    margin: Margin = None,
    alpha: Alpha = None,
    interval: Interval = None,
    level: Level = None,
    seed: Seed = None,
    settings: Set = None,
    allow_import: Allow = None,
    adaptive: Annotated[
        bool, typer.Option("--adaptive", help="Launch test seeds until every pair is decided")
    ] = False,
    group: Annotated[
        int, typer.Option("--group", min=2, help="With --adaptive: new seeds of a label a look")
    ] = 5,
    interims: Annotated[
        int, typer.Option("--interims", min=1, help="With --adaptive: looks at most")
    ] = 5,
    family: Annotated[
        str, typer.Option("--family", help="With --adaptive: holm, bonferroni or maxt")
    ] = "holm",
    restart: Annotated[
        bool, typer.Option("--restart", help="With --adaptive: give up the frozen design")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --adaptive: show what the next look needs")
    ] = False,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Compare labels of one or several experiments, with a verdict for each pair."""
    words = setting_overrides(
        settings, margin=margin, alpha=alpha, interval=interval, level=level, seed=seed
    )
    console = console_for(as_json=as_json)
    _check_together(adaptive, restart or dry_run, phase, strict)
    if adaptive:
        from rlexp.app.commands.compare_adaptive import Asked, compare_adaptively

        asked = Asked(
            targets=tuple(targets),
            group=group,
            interims=interims,
            family=family,
            dry_run=dry_run,
            restart=restart,
            words=words,
            command=("rlexp", *sys.argv[1:]),
        )
        raise typer.Exit(compare_adaptively(asked, here(allow_import), console))
    from rlexp.app.commands.compare import Sides
    from rlexp.app.commands.compare import compare as use_case

    sides = Sides(targets=tuple(targets), phase=phase, strict=strict, words=words)
    raise typer.Exit(use_case(sides, here(allow_import), console))


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


def _check_together(adaptive: bool, of_adaptive: bool, phase: str | None, strict: bool) -> None:
    from rlexp.errors import ConfigError

    if of_adaptive and not adaptive:
        raise ConfigError("--restart and --dry-run belong to --adaptive; give that, too")
    if adaptive and (strict or phase not in {None, "test"}):
        raise ConfigError("--adaptive is about test seeds: leave out --phase and --strict")
