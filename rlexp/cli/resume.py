"""`rlexp resume`: brings what is unfinished to its end."""

import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.options import Allow, Drift, Json, Quiet, console_for, here
from rlexp.cli.run import run_exit_code, run_lines
from rlexp.cli.sweep import show_sweep, sweep_exit_code

if TYPE_CHECKING:
    from rlexp.app.commands.resume import Part, ResumeOutcome
    from rlexp.app.execution.launch_settings import LaunchOptions
    from rlexp.app.workspace import Workspace
    from rlexp.console import Console


def resume(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            help="An experiment or a run, default: all that is unfinished; then words that "
            "change no number: executor.workers=2 budget.checkpoint_minutes=5",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan only.")] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Try final failures again.")] = False,
    allow_drift: Drift = False,
    allow_import: Allow = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Bring what is unfinished to its end, from its checkpoints."""
    from rlexp.app.execution.launch_settings import LaunchOptions

    console = console_for(as_json=as_json, quiet=quiet)
    options = LaunchOptions(dry_run=dry_run, retry=retry, allow_drift=allow_drift)
    raise typer.Exit(execute(words or [], options, here(allow_import), console))


def execute(
    words: Sequence[str], options: "LaunchOptions", workspace: "Workspace", console: "Console"
) -> int:
    """Carry out the command, and show its result; returns the exit code."""
    from rlexp.app.commands.resume import resume as use_case
    from rlexp.app.results import document
    from rlexp.cli.observer import TerminalObserver

    observer = TerminalObserver(console, finished=lambda part: show_part(part, console))
    outcome = use_case(words, options, workspace, observer)
    if console.as_json:
        console.json(document(outcome))
    for line in resume_lines(outcome):
        (console.note if console.as_json else console.line)(line)
    return resume_exit_code(outcome)


def show_part(part: "Part", console: "Console") -> None:
    """Show the result of one phase, or of a sweep, to people."""
    from rlexp.app.commands.sweep import SweepOutcome
    from rlexp.app.plans import SweepOutline

    if console.as_json:
        return
    if isinstance(part, SweepOutcome | SweepOutline):
        show_sweep(part, console)
        return
    for line in run_lines(part):
        console.line(line)


def resume_lines(outcome: "ResumeOutcome") -> Iterator[str]:
    """What was left alone, and why; the parts were shown when they were there."""
    from rlexp.text import counted

    for left in outcome.left:
        yield f"{left.experiment} is left to the command that drives it: {left.holder}"
    for words in outcome.left_words:
        yield (
            f"left out of the command of {words.experiment}, because a record does not say how "
            f"this machine is used: {shlex.join(words.words)}; give it again where you want it"
        )
    for name in outcome.adaptive:
        again = shlex.join(["rlexp", "compare", name, "--adaptive"])
        yield f"The looks of {name} are made by a command of their own: {again} …"
    if not outcome.parts and not outcome.errors and outcome.experiments:
        experiments = counted(outcome.experiments, "experiment")
        yield f"nothing to continue: {experiments} under runs/, none of them unfinished"
    elif not outcome.experiments:
        yield "nothing to continue"


def resume_exit_code(outcome: "ResumeOutcome") -> int:
    """The exit code of the signal that ended the command, else the first that is not 0."""
    from rlexp.cli.exit_codes import exit_code

    if outcome.interrupted:
        return exit_code(complete=False, interrupted=outcome.interrupted)
    codes = [(number, 1, _exit_code(part)) for number, part in enumerate(outcome.parts)]
    codes += [(error.parts_before, 0, error.exit_code) for error in outcome.errors]
    return next((code for _, _, code in sorted(codes) if code), 0)


def _exit_code(part: "Part") -> int:
    from rlexp.app.commands.run import RunOutcome
    from rlexp.app.plans import RunPlan

    return run_exit_code(part) if isinstance(part, RunOutcome | RunPlan) else sweep_exit_code(part)
