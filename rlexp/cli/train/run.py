"""`rlexp run`: trains configurations on seeds and shows their scores."""

import shlex
from functools import partial
from typing import TYPE_CHECKING

import typer

from rlexp.cli.options import (
    AllowDrift,
    AllowImport,
    Detach,
    DryRun,
    FromSweep,
    Json,
    Overrides,
    Probe,
    ProtocolName,
    Quiet,
    Retry,
    TrialNumber,
    console_for,
    current_workspace,
    observer_for,
    render_result,
)
from rlexp.cli.short_form import FullOption

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rlexp.app.commands.train.run import RunOptions, RunOutcome
    from rlexp.app.plans import RunPlan
    from rlexp.app.workspace import Workspace
    from rlexp.console import Console

WORDS = {
    "algorithm=ppo": "what learns; all: rlexp config list algorithm",
    "algorithm.gamma=0.98": "a hyperparameter; 0.98,0.99 compares two values",
    "agent.network=[64,64]": "the hidden layers",
    "environment=cartpole": "the task; all: rlexp config list environment",
    "environment.vector.count=4": "environments side by side in one run",
    "budget.steps=20000": "environment steps of one run",
    "seeds.test=5": "the number of runs of each configuration",
    "experiment=first": "the folder of the records, under runs/",
    "tracker=[tensorboard]": "services that receive copies of the records",
    "executor.workers=2": "runs at a time",
}
"""The words that everybody needs, and their meanings."""
MORE = (
    "All other words: rlexp config search WORD, or rlexp config show.",
    "A study in one file: rlexp init --study, then rlexp run study.yaml.",
)
"""The last lines of the help: where other words are."""


def words_help() -> str:
    """The end of the help: the words that everybody needs, and where the others are."""
    width = max(map(len, WORDS)) + 2
    rows = [f"  {word:<{width}}{meaning}" for word, meaning in WORDS.items()]
    # The mark \b keeps the lines of a paragraph as they are.
    return "\n".join(["\b", "The words that everybody needs:", *rows, "", "\b", *MORE])


def run(
    overrides: Overrides = None,
    dry_run: DryRun = False,
    retry: Retry = False,
    from_sweep: FromSweep = None,
    trial: TrialNumber = None,
    protocol: ProtocolName = None,
    detach: Detach = False,
    allow_drift: AllowDrift = False,
    probe: Probe = None,
    allow_import: AllowImport = None,
    quiet: Quiet = False,
    full: FullOption = False,
    as_json: Json = False,
) -> None:
    """Train configurations on seeds, and show their scores.

    Configurations are words in Hydra's grammar, or a study file with further words.
    """
    from rlexp.app.commands.train.run import RunOptions

    console = console_for(as_json=as_json, quiet=quiet)
    origin = None
    if from_sweep is not None or trial is not None:
        from rlexp.app.sweeps.retrain import read_sweep_trial

        origin = read_sweep_trial(from_sweep, trial)
    options = RunOptions(
        dry_run=dry_run,
        retry=retry,
        allow_drift=allow_drift,
        probe=probe,
        detach=detach,
        origin=origin,
        protocol=protocol,
        detectable=full or as_json,
    )
    workspace = current_workspace(allow_import)
    raise typer.Exit(execute(overrides or [], options, workspace, console, full=full))


def execute(
    overrides: "Sequence[str]",
    options: "RunOptions",
    workspace: "Workspace",
    console: "Console",
    *,
    full: bool = True,
) -> int:
    """Run the command and show its result; return the exit code."""
    from rlexp.app.commands.train.run import run as use_case

    outcome = use_case(overrides, options, workspace, observer_for(console))
    render_result(outcome, console, partial(show_outcome, full=full))
    return run_exit_code(outcome)


def show_outcome(outcome: "RunOutcome | RunPlan", console: "Console", *, full: bool) -> None:
    """Show the plan, or the scores on one screen or, with `full`, in every detail."""
    from rlexp.app.plans import RunPlan
    from rlexp.cli.short_form import show_short_summary
    from rlexp.cli.summaries import next_lines

    if full or isinstance(outcome, RunPlan) or outcome.detached:
        for line in run_lines(outcome):
            console.line(line)
        return
    for line in unchanged_lines(outcome):
        console.line(line)
    if outcome.ran:
        # An empty line separates the answer from the progress of the runs.
        console.line()
    details = shlex.join(["rlexp", "show", outcome.summary.experiment, "--full"])
    show_short_summary(outcome.summary, outcome.card, console, details)
    for line in (*problem_lines(outcome), *next_lines(outcome.next)):
        console.line(line)


def run_lines(outcome: "RunOutcome | RunPlan") -> "Iterator[str]":
    """The plan, or the scores of the experiment and the next commands, as lines."""
    from rlexp.app.plans import RunPlan
    from rlexp.cli.plans import run_plan_lines
    from rlexp.cli.summaries import next_lines, protocol_lines, summary_lines

    if isinstance(outcome, RunPlan):
        yield from run_plan_lines(outcome)
        return
    if outcome.detached:
        return
    yield from unchanged_lines(outcome)
    yield from summary_lines(outcome.summary)
    yield from protocol_lines(outcome.card)
    yield from problem_lines(outcome)
    yield from next_lines(outcome.next)


def unchanged_lines(outcome: "RunOutcome") -> "Iterator[str]":
    """That no run was started, if none was."""
    if not outcome.ran:
        name = outcome.summary.experiment
        yield f"{name}: nothing to run, every requested run has ended"


def problem_lines(outcome: "RunOutcome") -> "Iterator[str]":
    """What differs from the ledger, if anything does."""
    if outcome.problem:
        yield f"{outcome.summary.experiment}: {outcome.problem}"


def run_exit_code(outcome: "RunOutcome | RunPlan") -> int:
    """The exit code; 0 for a plan and for detached runs."""
    from rlexp.app.plans import RunPlan
    from rlexp.cli.exit_codes import exit_code

    if isinstance(outcome, RunPlan):
        return 0
    complete = outcome.complete or outcome.detached
    return exit_code(complete=complete, interrupted=outcome.interrupted)
