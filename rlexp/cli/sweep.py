"""`rlexp sweep`: tunes, chooses once, and tests the choice."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.options import (
    Allow,
    Drift,
    Json,
    Quiet,
    console_for,
    here,
    observer_for,
    render_result,
    show_result,
)

if TYPE_CHECKING:
    from rlexp.app.commands.sweep import SweepOptions, SweepOutcome
    from rlexp.app.plans import SweepOutline
    from rlexp.app.workspace import Workspace
    from rlexp.console import Console
    from rlexp.reports.drawing.blocks import Block, Study

Definition = Annotated[
    list[str] | None,
    typer.Argument(help="A definition in sweeps/, then configuration: quick sweep.trials=20"),
]
NOTABLE_SHARE = 0.05
"""Share of the search's time from which on the time of suggestions is printed."""


def sweep(
    words: Definition = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan only.")] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Try final failures again.")] = False,
    until: Annotated[
        str, typer.Option("--until", help="Stop after: search, selection or test")
    ] = "test",
    allow_drift: Drift = False,
    allow_import: Allow = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Tune on tuning seeds, choose once, and test the choice on seeds never seen before."""
    from rlexp.app.commands.sweep import SweepOptions, read_stage
    from rlexp.app.sweeps.request import split_definition

    name, overrides = split_definition(words or ())
    options = SweepOptions(
        dry_run=dry_run, retry=retry, allow_drift=allow_drift, until=read_stage(until)
    )
    console = console_for(as_json=as_json, quiet=quiet)
    raise typer.Exit(execute(name, overrides, options, here(allow_import), console))


def execute(
    name: str | None,
    overrides: "Sequence[str]",
    options: "SweepOptions",
    workspace: "Workspace",
    console: "Console",
) -> int:
    """Carry out the command, and show its result; returns the exit code."""
    from rlexp.app.commands.sweep import sweep as use_case

    outcome = use_case(name, overrides, options, workspace, observer_for(console))
    show_sweep(outcome, console)
    return sweep_exit_code(outcome)


def sweep_exit_code(outcome: "SweepOutcome | SweepOutline") -> int:
    """The exit code: of a plan, 0."""
    from rlexp.app.plans import SweepOutline
    from rlexp.cli.exit_codes import exit_code

    if isinstance(outcome, SweepOutline):
        return 0
    return exit_code(complete=outcome.complete, interrupted=outcome.interrupted)


def show_sweep(outcome: "SweepOutcome | SweepOutline", console: "Console") -> None:
    """Show a plan, or the winner with its tests and what makes sense now."""
    from rlexp.app.plans import SweepOutline
    from rlexp.cli.plans import sweep_plan_lines

    if isinstance(outcome, SweepOutline):
        show_result(outcome, console, sweep_plan_lines)
        return
    _show_halt(outcome, console)
    render_result(outcome, console, _show_outcome)


def _show_halt(outcome: "SweepOutcome", console: "Console") -> None:
    """Say on standard error why the sweep stopped."""
    if outcome.halt is None:
        return
    console.error(f"the sweep stops: {outcome.halt.reason}")
    for line in outcome.halt.log:
        console.note(f"  {line}")
    if outcome.halt.run is not None:
        log = shlex.join(["rlexp", "logs", outcome.halt.run])
        console.note(f"To see its whole log: {log}")


def _show_outcome(outcome: "SweepOutcome", console: "Console") -> None:
    from rlexp.text import counted

    if not outcome.ran and outcome.stage == "done":
        console.line(f"{outcome.experiment}: nothing to run, the sweep is at its end")
    for block in _leading_blocks(outcome.report):
        console.line()
        console.blocks([block])
    console.line()
    for line in _closing_lines(outcome):
        console.line(line)
    if outcome.secret_words:
        console.note(
            f"{counted(outcome.secret_words, 'word')} with a secret left out: keep it in an "
            "environment variable, and write '${oc.env:NAME}'"
        )


def _closing_lines(outcome: "SweepOutcome") -> Iterator[str]:
    from rlexp.cli.summaries import next_lines

    yield f"Cost: {_cost(outcome)}"
    taken = outcome.suggestions
    if taken.suggestions and taken.share > NOTABLE_SHARE:
        yield (
            f"Suggesting {taken.suggestions} trials took {taken.share:.0%} of the search's time, "
            f"at most {taken.longest:.1f} s each"
        )
    yield from outcome.past.sentences()
    yield f"Records: {outcome.folder}"
    yield from next_lines(outcome.next)


def _leading_blocks(report: "Study") -> "Iterator[Block]":
    """The blocks of the report that the terminal shows at once."""
    from rlexp.reports.drawing.blocks import Notice, Table

    notices: list[Block] = [b for p in report.parts for b in p.blocks if isinstance(b, Notice)]
    tables = {b.name: b for p in report.parts for b in p.blocks if isinstance(b, Table)}
    yield from notices[:1]
    if (scores := tables.get("winner-scores")) is not None:
        yield scores
    if (settings := tables.get("winner-settings")) is not None:
        searched = tuple(row for row in settings.rows if row[1] is not None)
        yield replace(settings, title="What was searched", rows=searched, note="")
    yield from notices[1:] if report.labels else ()


def _cost(outcome: "SweepOutcome") -> str:
    """What each phase took, in words."""
    from rlexp.text import counted, duration

    phases = [
        f"{phase} {counted(cost.runs, 'run')}, {cost.steps:,} environment steps, "
        f"{duration(cost.seconds)} of training"
        for phase, cost in outcome.cost.items()
        if cost.runs
    ]
    return " · ".join(phases) or "nothing yet"
