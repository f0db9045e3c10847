"""`rlexp extend`: trains finished runs further, and shows their scores."""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.completion import complete_words
from rlexp.cli.options import (
    AllowDrift,
    AllowImport,
    Detach,
    DryRun,
    Json,
    Probe,
    Quiet,
    Retry,
    TargetName,
    console_for,
    current_workspace,
    observer_for,
    render_result,
)
from rlexp.cli.short_form import FullOption

if TYPE_CHECKING:
    from rlexp.app.commands.train.extend import ExtendOutcome
    from rlexp.console import Console


def extend(
    target: TargetName,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            autocompletion=complete_words,
            help="budget.steps=STEPS, the new length of a run from its first step; "
            "experiment=NAME; and overrides that change no number: executor.workers=2.",
        ),
    ] = None,
    restart_schedules: Annotated[
        bool,
        typer.Option(
            "--restart-schedules",
            help="Let schedules that depend on the length of training begin again.",
        ),
    ] = False,
    dry_run: DryRun = False,
    retry: Retry = False,
    detach: Detach = False,
    allow_drift: AllowDrift = False,
    probe: Probe = None,
    allow_import: AllowImport = None,
    quiet: Quiet = False,
    full: FullOption = False,
    as_json: Json = False,
) -> None:
    """Train finished runs further, as an experiment of their own."""
    from rlexp.app.commands.train.extend import ExtendOptions
    from rlexp.app.commands.train.extend import extend as use_case

    console = console_for(as_json=as_json, quiet=quiet)
    options = ExtendOptions(
        dry_run=dry_run,
        retry=retry,
        detach=detach,
        allow_drift=allow_drift,
        restart_schedules=restart_schedules,
        probe=probe,
    )
    workspace = current_workspace(allow_import)
    outcome = use_case(target, overrides or [], options, workspace, observer_for(console))
    render_result(outcome, console, partial(show_extended, full=full))
    raise typer.Exit(extend_exit_code(outcome))


def show_extended(outcome: "ExtendOutcome", console: "Console", *, full: bool) -> None:
    """Show what the runs continue from, then the plan or the scores of each phase.

    Without `full`, what fits on one screen.
    """
    from rlexp.cli.train.run import show_outcome

    for line in extension_lines(outcome):
        console.line(line)
    for part in outcome.parts:
        show_outcome(part, console, full=full)


def extension_lines(outcome: "ExtendOutcome") -> Iterator[str]:
    """What the runs continue from, as lines."""
    from rlexp.text import format_count

    distinct = sorted(set(outcome.begins.values()))
    # Seeds begin at the same step, unless their rollouts end with episodes.
    steps = f"{distinct[0]:,}" if len(distinct) == 1 else f"{distinct[0]:,} to {distinct[-1]:,}"
    runs = format_count(len(outcome.begins), "run")
    yield (
        f"{outcome.experiment} extends {outcome.parent}: {runs} from step {steps}, "
        f"up to {outcome.steps:,}"
    )
    if outcome.restarted:
        yield f"  schedules that begin again there: {', '.join(outcome.restarted)}"


def extend_exit_code(outcome: "ExtendOutcome") -> int:
    """The exit code of the first phase that is not 0."""
    from rlexp.cli.train.run import run_exit_code

    return next((code for part in outcome.parts if (code := run_exit_code(part))), 0)
