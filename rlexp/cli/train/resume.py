"""`rlexp resume`: continues unfinished runs and sweeps, and shows their results."""

import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.completion import complete_resumed
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
)
from rlexp.cli.short_form import FullOption
from rlexp.cli.train.run import run_exit_code, show_outcome
from rlexp.cli.train.sweep import show_sweep, sweep_exit_code

if TYPE_CHECKING:
    from rlexp.app.commands.train.resume import ResumedPart, ResumeOutcome
    from rlexp.app.execution.launch_settings import LaunchOptions
    from rlexp.app.workspace import Workspace
    from rlexp.console import Console


def resume(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            autocompletion=complete_resumed,
            help="An experiment or a run; default: everything unfinished. Then overrides that "
            "change no number: executor.workers=2 budget.checkpoint_minutes=5.",
        ),
    ] = None,
    dry_run: DryRun = False,
    retry: Retry = False,
    allow_drift: AllowDrift = False,
    probe: Probe = None,
    allow_import: AllowImport = None,
    quiet: Quiet = False,
    full: FullOption = False,
    as_json: Json = False,
) -> None:
    """Continue unfinished runs and sweeps from their checkpoints."""
    from rlexp.app.execution.launch_settings import LaunchOptions

    console = console_for(as_json=as_json, quiet=quiet)
    options = LaunchOptions(dry_run=dry_run, retry=retry, allow_drift=allow_drift, probe=probe)
    workspace = current_workspace(allow_import)
    raise typer.Exit(execute(arguments or [], options, workspace, console, full=full))


def execute(
    arguments: Sequence[str],
    options: "LaunchOptions",
    workspace: "Workspace",
    console: "Console",
    *,
    full: bool = True,
) -> int:
    """Run the command and show its result; return the exit code."""
    from rlexp.app.commands.train.resume import resume as use_case
    from rlexp.app.results import document
    from rlexp.cli.observer import TerminalObserver

    observer = TerminalObserver(console, finished=lambda part: show_part(part, console, full=full))
    outcome = use_case(arguments, options, workspace, observer)
    if console.as_json:
        console.json(document(outcome))
    for line in resume_lines(outcome):
        # With --json, standard output must hold nothing but the document.
        (console.note if console.as_json else console.line)(line)
    return resume_exit_code(outcome)


def show_part(part: "ResumedPart", console: "Console", *, full: bool) -> None:
    """Show the result of one phase, or of a sweep; with `--json`, print nothing.

    Without `full`, what fits on one screen.
    """
    from rlexp.app.commands.train.sweep import SweepOutcome
    from rlexp.app.plans import SweepOutline

    if console.as_json:
        return
    if isinstance(part, SweepOutcome | SweepOutline):
        show_sweep(part, console, full=full)
    else:
        show_outcome(part, console, full=full)


def resume_lines(outcome: "ResumeOutcome") -> Iterator[str]:
    """The experiments and overrides that were left out, with the reasons, as lines.

    Results are not among them: the observer showed each one when it was complete.
    """
    from rlexp.app.commands.train.run import RunOutcome
    from rlexp.cli.summaries import next_lines
    from rlexp.text import format_count

    for left in outcome.left:
        yield f"{left.experiment} is skipped, because another command runs it: {left.holder}"
    for gate in outcome.gates:
        yield f"{gate.experiment} is skipped, because it belongs to a gate; repeat the gate: {gate.command}"
    for omitted in outcome.left_words:
        yield (
            f"left out of the recorded command of {omitted.experiment}, because records do not "
            f"choose how this machine is used: {shlex.join(omitted.words)}; to use it, add it to "
            "this command"
        )
    # The result of a phase has named already what differs in its experiment.
    named = {
        f"{part.summary.experiment}: {part.problem}"
        for part in outcome.parts
        if isinstance(part, RunOutcome)
    }
    yield from (problem for problem in outcome.problems if problem not in named)
    for name in outcome.adaptive:
        again = shlex.join(["rlexp", "compare", name, "--adaptive"])
        yield f"To make the next look of {name}: {again} …"
    yield from next_lines(outcome.ablations)
    if not outcome.parts and not outcome.errors and not outcome.gates and outcome.experiments:
        experiments = format_count(outcome.experiments, "experiment")
        yield f"nothing to continue: {experiments} under runs/, all finished"
    elif not outcome.experiments:
        yield "nothing to continue: no experiments under runs/"


def resume_exit_code(outcome: "ResumeOutcome") -> int:
    """The exit code of the signal that ended the command, else the first one that is not 0."""
    from rlexp.cli.exit_codes import exit_code

    if outcome.interrupted:
        return exit_code(complete=False, interrupted=outcome.interrupted)
    # An error that came after k parts sorts before part k, which was made after the error.
    codes = [(number, 1, _exit_code(part)) for number, part in enumerate(outcome.parts)]
    codes += [(error.parts_before, 0, error.exit_code) for error in outcome.errors]
    return next((code for _, _, code in sorted(codes) if code), 0)


def _exit_code(part: "ResumedPart") -> int:
    from rlexp.app.commands.train.run import RunOutcome
    from rlexp.app.plans import RunPlan

    return run_exit_code(part) if isinstance(part, RunOutcome | RunPlan) else sweep_exit_code(part)
