"""`rlexp run`: trains configurations on seeds and shows their scores."""

from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.options import (
    AllowDrift,
    AllowImport,
    FromSweep,
    Json,
    Overrides,
    Probe,
    Quiet,
    TrialNumber,
    console_for,
    current_workspace,
    observer_for,
    show_result,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rlexp.app.commands.run import RunOptions, RunOutcome
    from rlexp.app.plans import RunPlan
    from rlexp.app.workspace import Workspace
    from rlexp.console import Console


def run(
    overrides: Overrides = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the plan.")] = False,
    retry: Annotated[
        bool,
        typer.Option("--retry", help="Also repeat failed runs that are not repeated by default."),
    ] = False,
    from_sweep: FromSweep = None,
    trial: TrialNumber = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Exit once the runs are queued.")
    ] = False,
    allow_drift: AllowDrift = False,
    probe: Probe = None,
    allow_import: AllowImport = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Train configurations on seeds, and show their scores."""
    from rlexp.app.commands.run import RunOptions
    from rlexp.app.sweeps.retrain import read_sweep_trial

    console = console_for(as_json=as_json, quiet=quiet)
    options = RunOptions(
        dry_run=dry_run,
        retry=retry,
        allow_drift=allow_drift,
        probe=probe,
        detach=detach,
        origin=read_sweep_trial(from_sweep, trial),
    )
    raise typer.Exit(execute(overrides or [], options, current_workspace(allow_import), console))


def execute(
    overrides: "Sequence[str]", options: "RunOptions", workspace: "Workspace", console: "Console"
) -> int:
    """Run the command and show its result; return the exit code."""
    from rlexp.app.commands.run import run as use_case

    outcome = use_case(overrides, options, workspace, observer_for(console))
    show_result(outcome, console, run_lines)
    return run_exit_code(outcome)


def run_lines(outcome: "RunOutcome | RunPlan") -> "Iterator[str]":
    """The plan, or the scores of the experiment and the next commands, as lines."""
    from rlexp.app.plans import RunPlan
    from rlexp.cli.plans import run_plan_lines
    from rlexp.cli.summaries import next_lines, summary_lines

    if isinstance(outcome, RunPlan):
        yield from run_plan_lines(outcome)
        return
    if outcome.detached:
        return
    if not outcome.ran:
        name = outcome.summary.experiment
        yield f"{name}: nothing to run, every requested run has ended"
    yield from summary_lines(outcome.summary)
    if outcome.problem:
        yield f"{outcome.summary.experiment}: {outcome.problem}"
    yield from next_lines(outcome.next)


def run_exit_code(outcome: "RunOutcome | RunPlan") -> int:
    """The exit code; 0 for a plan and for detached runs."""
    from rlexp.app.plans import RunPlan
    from rlexp.cli.exit_codes import exit_code

    if isinstance(outcome, RunPlan):
        return 0
    complete = outcome.complete or outcome.detached
    return exit_code(complete=complete, interrupted=outcome.interrupted)
