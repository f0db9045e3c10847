"""Commands that say what the scores show: compare, report, power."""

import sys
from typing import Annotated

import typer

from rlexp.cli.options import Allow, Json, console_for, here

Targets = Annotated[
    list[str], typer.Argument(help="EXPERIMENT, or EXPERIMENT/LABEL for one label of it")
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="A setting of conf/report.yaml: --set interval=percentile"),
]
Margin = Annotated[
    float | None, typer.Option("--margin", help="A difference that does not matter")
]
Alpha = Annotated[float | None, typer.Option("--alpha", help="Family-wise error of the verdicts")]
Interval = Annotated[str | None, typer.Option("--interval", help="t, percentile, basic or bca")]
Level = Annotated[float | None, typer.Option("--level", help="Nominal coverage of intervals")]
Seed = Annotated[int | None, typer.Option("--seed", help="Of every resampling")]
Phase = Annotated[str | None, typer.Option("--phase", help="test, selection or tuning")]
Strict = Annotated[
    bool, typer.Option("--strict", help="Exit with 3 where data is missing or a check fails")
]


def report(
    targets: Targets,
    formats: Annotated[
        list[str] | None, typer.Option("--format", help="html (default), latex, csv, json, md")
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Folder to write to")
    ] = None,
    figures: Annotated[
        str | None, typer.Option("--figures", help="Folder for figures as PDF and SVG")
    ] = None,
    phase: Phase = None,
    margin: Margin = None,
    alpha: Alpha = None,
    interval: Interval = None,
    level: Level = None,
    seed: Seed = None,
    settings: Set = None,
    allow_import: Allow = None,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Write a reliability report: one page, or tables for a paper."""
    from rlexp.app.commands.report import Wanted
    from rlexp.app.commands.report import report as use_case

    wanted = Wanted(
        formats=tuple(formats or ("html",)),
        output=output,
        figures=figures,
        phase=phase,
        strict=strict,
        words=_words(
            settings, margin=margin, alpha=alpha, interval=interval, level=level, seed=seed
        ),
    )
    raise typer.Exit(use_case(targets, wanted, here(allow_import), console_for(as_json=as_json)))


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
    words = _words(settings, margin=margin, alpha=alpha, interval=interval, level=level, seed=seed)
    console = console_for(as_json=as_json)
    _check_together(adaptive, restart or dry_run, phase, strict)
    if adaptive:
        from rlexp.app.commands.compare_adaptive import AdaptiveRequest
        from rlexp.cli.compare_adaptive import compare_adaptively

        request = AdaptiveRequest(
            targets=tuple(targets),
            group=group,
            interims=interims,
            family=family,
            dry_run=dry_run,
            restart=restart,
            overrides=words,
            command=("rlexp", *sys.argv[1:]),
        )
        raise typer.Exit(compare_adaptively(request, here(allow_import), console))
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
        words=_words(settings, alpha=alpha, power=wanted),
    )
    raise typer.Exit(plan_seeds(target, plan, here(allow_import), console_for(as_json=as_json)))


def _check_together(adaptive: bool, of_adaptive: bool, phase: str | None, strict: bool) -> None:
    from rlexp.errors import ConfigError

    if of_adaptive and not adaptive:
        raise ConfigError("--restart and --dry-run belong to --adaptive; give that, too")
    if adaptive and (strict or phase not in {None, "test"}):
        raise ConfigError("--adaptive is about test seeds: leave out --phase and --strict")


def _words(settings: list[str] | None, **given: float | str | None) -> tuple[str, ...]:
    """Options as overrides of `conf/report.yaml`."""
    named = [f"{key}={value}" for key, value in given.items() if value is not None]
    return (*(settings or ()), *named)
