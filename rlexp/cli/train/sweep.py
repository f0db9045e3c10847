"""`rlexp sweep`: tunes, selects a winner once, and tests it."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.completion import complete_sweep, one_of
from rlexp.cli.options import (
    AllowDrift,
    AllowImport,
    DryRun,
    Json,
    Probe,
    Quiet,
    Retry,
    console_for,
    current_workspace,
    observer_for,
    render_result,
    show_result,
)
from rlexp.cli.short_form import FullOption

if TYPE_CHECKING:
    from rlexp.app.commands.train.sweep import SweepOptions, SweepOutcome
    from rlexp.app.plans import SweepOutline
    from rlexp.app.workspace import Workspace
    from rlexp.console import Console
    from rlexp.reports.drawing.blocks import Block, ReportDocument

Definition = Annotated[
    list[str] | None,
    typer.Argument(
        autocompletion=complete_sweep,
        help="A definition in sweeps/ or a study file, then overrides: quick sweep.trials=20.",
    ),
]
NOTABLE_SHARE = 0.05
"""Share of the search's time above which the time of suggestions is printed."""


def sweep(
    arguments: Definition = None,
    dry_run: DryRun = False,
    retry: Retry = False,
    until: Annotated[
        str,
        typer.Option(
            "--until",
            autocompletion=one_of("search", "selection", "test"),
            help="Stop after this stage: search, selection or test.",
        ),
    ] = "test",
    tries: Annotated[
        list[str] | None,
        typer.Option(
            "--try",
            metavar="WORDS",
            help="Try this configuration as the next trial: algorithm.gamma=0.9. Repeatable.",
        ),
    ] = None,
    allow_drift: AllowDrift = False,
    probe: Probe = None,
    allow_import: AllowImport = None,
    quiet: Quiet = False,
    full: FullOption = False,
    as_json: Json = False,
) -> None:
    """Tune hyperparameters, select a winner once, and test it.

    Tuning, selection and test use separate seeds, so that the test scores are not biased by the search.
    """
    from rlexp.app.commands.train.sweep import SweepOptions, read_stage
    from rlexp.app.sweeps.request import split_definition

    name, overrides = split_definition(arguments or ())
    options = SweepOptions(
        dry_run=dry_run,
        retry=retry,
        allow_drift=allow_drift,
        probe=probe,
        until=read_stage(until),
        tries=tuple(tries or ()),
    )
    console = console_for(as_json=as_json, quiet=quiet)
    workspace = current_workspace(allow_import)
    raise typer.Exit(execute(name, overrides, options, workspace, console, full=full))


def execute(
    name: str | None,
    overrides: "Sequence[str]",
    options: "SweepOptions",
    workspace: "Workspace",
    console: "Console",
    *,
    full: bool = True,
) -> int:
    """Run the command and show its result; return the exit code."""
    from rlexp.app.commands.train.sweep import sweep as use_case

    outcome = use_case(name, overrides, options, workspace, observer_for(console))
    show_sweep(outcome, console, full=full)
    return sweep_exit_code(outcome)


def sweep_exit_code(outcome: "SweepOutcome | SweepOutline") -> int:
    """The exit code; 0 for a plan."""
    from rlexp.app.plans import SweepOutline
    from rlexp.cli.exit_codes import exit_code

    if isinstance(outcome, SweepOutline):
        return 0
    return exit_code(complete=outcome.complete, interrupted=outcome.interrupted)


def show_sweep(
    outcome: "SweepOutcome | SweepOutline", console: "Console", *, full: bool = True
) -> None:
    """Show the plan, or the winner with its test scores and the next commands.

    Without `full`, what fits on one screen.
    """
    from rlexp.app.plans import SweepOutline
    from rlexp.cli.plans import sweep_plan_lines

    if isinstance(outcome, SweepOutline):
        show_result(outcome, console, sweep_plan_lines)
        return
    _show_halt(outcome, console)
    render_result(outcome, console, _show_outcome if full else _show_short_outcome)


def _show_halt(outcome: "SweepOutcome", console: "Console") -> None:
    """Print to standard error why the sweep stopped."""
    if outcome.halt is None:
        return
    console.error(f"the sweep stopped: {outcome.halt.reason}")
    for line in outcome.halt.log:
        console.note(f"  {line}")
    if outcome.halt.run is not None:
        log = shlex.join(["rlexp", "logs", outcome.halt.run])
        console.note(f"To see the whole log: {log}")


def _show_short_outcome(outcome: "SweepOutcome", console: "Console") -> None:
    from rlexp.cli.short_form import show_sweep_card
    from rlexp.cli.summaries import next_lines

    _show_unchanged(outcome, console)
    details = shlex.join(["rlexp", "show", outcome.experiment, "--full"])
    if outcome.report.card is not None:
        show_sweep_card(outcome.report.card, console, details)
    for sentence in outcome.past.sentences():
        console.paragraph(sentence)
    for line in next_lines(outcome.next):
        console.line(line)
    _note_secrets(outcome, console)


def _show_unchanged(outcome: "SweepOutcome", console: "Console") -> None:
    if not outcome.ran and outcome.stage == "done":
        console.line(f"{outcome.experiment}: nothing to run, the sweep is complete")


def _show_outcome(outcome: "SweepOutcome", console: "Console") -> None:
    _show_unchanged(outcome, console)
    for block in _leading_blocks(outcome.report):
        console.line()
        console.blocks([block])
    console.line()
    for line in _closing_lines(outcome):
        console.line(line)
    _note_secrets(outcome, console)


def _note_secrets(outcome: "SweepOutcome", console: "Console") -> None:
    from rlexp.text import format_count

    if outcome.secret_words:
        console.note(
            f"{format_count(outcome.secret_words, 'override')} with a secret left out of the commands "
            "above: keep the secret in an environment variable and write '${oc.env:NAME}'"
        )


def _closing_lines(outcome: "SweepOutcome") -> Iterator[str]:
    from rlexp.cli.summaries import next_lines
    from rlexp.text import format_percentage

    yield f"Cost: {_cost(outcome)}"
    taken = outcome.suggestions
    if taken.suggestions and taken.share > NOTABLE_SHARE:
        share = format_percentage(round(taken.share, 2))
        yield (
            f"Suggesting {taken.suggestions} trials took {share} of the search's time, "
            f"at most {taken.longest:.1f} s each"
        )
    yield from outcome.past.sentences()
    yield f"Records: {outcome.folder}"
    yield from next_lines(outcome.next)


def _leading_blocks(report: "ReportDocument") -> "Iterator[Block]":
    """The blocks of the report that the terminal shows: verdict, scores and searched settings."""
    from rlexp.reports.drawing.blocks import Callout, Table

    notices: list[Block] = [b for p in report.parts for b in p.blocks if isinstance(b, Callout)]
    tables = {b.name: b for p in report.parts for b in p.blocks if isinstance(b, Table)}
    yield from notices[:1]
    if (scores := tables.get("winner-scores")) is not None:
        yield scores
    if (front := tables.get("front-policies")) is not None:
        yield replace(front, rows=tuple(row for row in front.rows if "test" in row))
    if (settings := tables.get("winner-settings")) is not None:
        # The second column has the searched range, which other settings lack.
        searched = tuple(row for row in settings.rows if row[1] is not None)
        yield replace(settings, title="Searched hyperparameters", rows=searched, note="")
    yield from notices[1:] if report.labels else ()


def _cost(outcome: "SweepOutcome") -> str:
    """The runs, steps and training time of each phase, as text."""
    from rlexp.protocol.units import unit_text
    from rlexp.text import format_count, format_duration

    phases = [
        f"{phase} {format_count(cost.runs, 'run')}, {cost.steps:,} {unit_text(outcome.unit)}, "
        f"{format_duration(cost.seconds)} of training"
        for phase, cost in outcome.cost.items()
        if cost.runs
    ]
    return " · ".join(phases) or "nothing yet"
