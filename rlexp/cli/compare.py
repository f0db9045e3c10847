"""`rlexp compare`: shows labels side by side; with `--adaptive`, it launches seeds first."""

import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.options import Allow, Json, console_for, here, render_result
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

if TYPE_CHECKING:
    from rlexp.app.commands.compare import Comparison
    from rlexp.console import Console


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
    from rlexp.app.commands.compare import CompareRequest
    from rlexp.app.commands.compare import compare as use_case
    from rlexp.cli.exit_codes import COMPLETE, REFUSED

    comparison = CompareRequest(targets=tuple(targets), phase=phase, overrides=words)
    result = use_case(comparison, here(allow_import))
    render_result(result, console, partial(show_comparison, strict=strict))
    raise typer.Exit(REFUSED if strict and result.failed_checks else COMPLETE)


def show_comparison(result: "Comparison", console: "Console", *, strict: bool) -> None:
    """Show verdicts and tables, with `strict` the checks that failed, and what makes sense now."""
    from rlexp.cli.summaries import next_lines

    for part in result.parts:
        console.line()
        console.blocks(part.blocks)
    console.line()
    for text in result.failed_checks if strict else ():
        console.line(f"Check failed: {text}")
    for line in next_lines(result.next):
        console.line(line)


def _check_together(adaptive: bool, of_adaptive: bool, phase: str | None, strict: bool) -> None:
    from rlexp.errors import ConfigError

    if of_adaptive and not adaptive:
        raise ConfigError("--restart and --dry-run belong to --adaptive; give that, too")
    if adaptive and (strict or phase not in {None, "test"}):
        raise ConfigError("--adaptive is about test seeds: leave out --phase and --strict")
