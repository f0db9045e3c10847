"""`rlexp compare`: compares labels; with `--adaptive`, it first launches further test seeds."""

import sys
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.options import (
    AllowImport,
    Json,
    Probe,
    console_for,
    current_workspace,
    observer_for,
    render_result,
    show_result,
)
from rlexp.cli.report_settings import (
    AlphaOption,
    IntervalOption,
    LevelOption,
    MarginOption,
    PhaseOption,
    SeedOption,
    SettingsOption,
    StrictOption,
    TargetsOption,
    setting_overrides,
)
from rlexp.cli.short_form import FullOption

if TYPE_CHECKING:
    from rlexp.app.commands.judge.compare import CompareRequest, Comparison
    from rlexp.app.commands.judge.compare_adaptive import (
        AdaptiveComparison,
        AdaptiveRequest,
        NextLook,
    )
    from rlexp.app.comparison.sequential import PairDecision
    from rlexp.app.workspace import Workspace
    from rlexp.console import Console

AdaptiveOption = Annotated[
    bool, typer.Option("--adaptive", help="Launch test seeds until every pair is decided.")
]
GroupOption = Annotated[
    int,
    typer.Option("--group", min=2, help="With --adaptive: new seeds per label at each analysis."),
]
InterimsOption = Annotated[
    int, typer.Option("--interims", min=1, help="With --adaptive: maximum number of analyses.")
]
FamilyOption = Annotated[
    str,
    typer.Option(
        "--family",
        help="With --adaptive: correction for several pairs (holm, bonferroni or maxt).",
    ),
]
RestartOption = Annotated[
    bool,
    typer.Option("--restart", help="With --adaptive: replace the frozen design by a new one."),
]
DryRunOption = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="With --adaptive: only show the runs of the next interim analysis."
    ),
]
DECISION_PHRASES = {
    "better": "is better than",
    "worse": "is worse than",
    "continue": "is still undecided against",
}


def compare(
    targets: TargetsOption,
    phase: PhaseOption = None,
    margin: MarginOption = None,
    alpha: AlphaOption = None,
    interval: IntervalOption = None,
    level: LevelOption = None,
    seed: SeedOption = None,
    settings: SettingsOption = None,
    allow_import: AllowImport = None,
    adaptive: AdaptiveOption = False,
    group: GroupOption = 5,
    interims: InterimsOption = 5,
    family: FamilyOption = "holm",
    restart: RestartOption = False,
    dry_run: DryRunOption = False,
    probe: Probe = None,
    strict: StrictOption = False,
    full: FullOption = False,
    as_json: Json = False,
) -> None:
    """Compare labels of experiments, with a verdict for each pair."""
    overrides = setting_overrides(
        settings, margin=margin, alpha=alpha, interval=interval, level=level, seed=seed
    )
    console = console_for(as_json=as_json)
    _check_option_combination(
        phase,
        adaptive=adaptive,
        needs_adaptive=restart or dry_run or probe is not None,
        strict=strict,
    )
    workspace = current_workspace(allow_import)
    if not adaptive:
        from rlexp.app.commands.judge.compare import CompareRequest

        request = CompareRequest(
            targets=tuple(targets), phase=phase, overrides=overrides, strict=strict
        )
        # Who names the sections wants to see them.
        named = any(override.partition("=")[0] == "section" for override in overrides)
        raise typer.Exit(_compare_once(request, workspace, console, full=full or named))
    from rlexp.app.commands.judge.compare_adaptive import AdaptiveRequest

    adaptive_request = AdaptiveRequest(
        targets=tuple(targets),
        group=group,
        interims=interims,
        family=family,
        dry_run=dry_run,
        restart=restart,
        overrides=overrides,
        command=("rlexp", *sys.argv[1:]),
        probe=probe,
    )
    raise typer.Exit(compare_adaptively(adaptive_request, workspace, console))


def _compare_once(
    request: "CompareRequest", workspace: "Workspace", console: "Console", *, full: bool
) -> int:
    """Compare the recorded runs, and return the exit code."""
    from rlexp.app.commands.judge.compare import compare as use_case
    from rlexp.cli.exit_codes import COMPLETE, REFUSED

    result = use_case(request, workspace)
    render_result(result, console, partial(show_comparison, strict=request.strict, full=full))
    return REFUSED if request.strict and result.failed_checks else COMPLETE


def show_comparison(result: "Comparison", console: "Console", *, strict: bool, full: bool) -> None:
    """Show the answer or, with `full`, every section; then the next commands.

    With `strict`, show also the checks that failed.
    """
    from rlexp.cli.short_form import show_short_comparison, with_full
    from rlexp.cli.summaries import next_lines

    if full:
        _show_sections(result, console)
    else:
        show_short_comparison(result, console, with_full())
        console.line(f"To see every test: {with_full()}")
    for text in result.failed_checks if strict else ():
        console.line(f"Check failed: {text}")
    for line in next_lines(result.next):
        console.line(line)


def _show_sections(result: "Comparison", console: "Console") -> None:
    from rlexp.cli.summaries import protocol_lines

    for part in result.parts:
        console.line()
        console.blocks(part.blocks)
    console.line()
    for line in protocol_lines(result.card):
        console.line(line)


def _check_option_combination(
    phase: str | None, *, adaptive: bool, needs_adaptive: bool, strict: bool
) -> None:
    from rlexp.errors import ConfigError

    if needs_adaptive and not adaptive:
        raise ConfigError("--restart, --dry-run and --probe need --adaptive; add --adaptive")
    if adaptive and (strict or phase not in {None, "test"}):
        raise ConfigError("--adaptive always compares test seeds: leave out --phase and --strict")


def compare_adaptively(
    request: "AdaptiveRequest", workspace: "Workspace", console: "Console"
) -> int:
    """Launch test seeds until every pair is decided, and show the decisions.

    Returns:
        The exit code.
    """
    from rlexp.app.commands.judge.compare_adaptive import AdaptiveComparison
    from rlexp.app.commands.judge.compare_adaptive import compare_adaptively as use_case
    from rlexp.cli.exit_codes import exit_code

    result = use_case(request, workspace, observer_for(console))
    show_result(result, console, adaptive_lines)
    interrupted = result.interrupted if isinstance(result, AdaptiveComparison) else None
    return exit_code(complete=True, interrupted=interrupted)


def adaptive_lines(result: "AdaptiveComparison | NextLook") -> Iterator[str]:
    """The decisions on all pairs, or the runs of the next interim analysis, as lines."""
    from rlexp.app.commands.judge.compare_adaptive import NextLook
    from rlexp.cli.summaries import next_lines

    if isinstance(result, NextLook):
        yield from _next_look_lines(result)
        return
    if result.finished:
        for pair in result.pairs:
            if pair.last_look is not None:
                yield _decision(pair, result.design.interims)
                if pair.warning is not None:
                    yield f"Warning: {pair.warning}"
        yield (
            f"{result.runs} runs in {result.looks} interim analyses; the fixed design with "
            f"{result.design.interims} × {result.design.group} seeds of every label needs "
            f"{result.fixed_design} runs: {result.saved} saved, {result.trained} trained"
        )
    yield from next_lines(result.next)


def _next_look_lines(result: "NextLook") -> Iterator[str]:
    from rlexp.cli.plans import run_plan_lines

    if result.plan is None:
        yield "Nothing to run: the existing scores are all that the design needs"
        return
    yield from run_plan_lines(result.plan)
    yield (
        f"Interim analysis {result.look} of {result.looks}: {', '.join(result.wanted)}; at most "
        f"{result.most_runs} runs in total"
    )


def _decision(pair: "PairDecision", interims: int) -> str:
    """The decision on a pair as a sentence with its p-value."""
    at = f"interim analysis {pair.last_look} of {interims}"
    p = f"p = {pair.p:.4f}, threshold {pair.allowed:.4f}"
    if pair.decision == "equal":
        return (
            f"no difference between {pair.first} and {pair.second} was found by {at} ({p}); "
            "this is no evidence that they are equally good"
        )
    if pair.crossed not in {None, pair.last_look}:
        # A step-down family decides a pair only after all pairs with smaller p-values.
        p = f"{p} at interim analysis {pair.crossed}; other pairs had to be decided first"
    return f"{pair.first} {DECISION_PHRASES[pair.decision]} {pair.second}, decided at {at} ({p})"
