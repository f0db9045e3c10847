"""`rlexp worker`: executes queued runs; with `--json`, it prints one JSON object per line."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.completion import complete_experiment, complete_operational
from rlexp.cli.exit_codes import exit_code
from rlexp.cli.options import (
    AllowImport,
    Json,
    Quiet,
    console_for,
    current_workspace,
    observer_for,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlexp.app.commands.train.worker import WorkerOutcome


def worker(
    experiment: Annotated[
        str,
        typer.Argument(
            autocompletion=complete_experiment,
            help="Execute the queued runs of this experiment.",
        ),
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            autocompletion=complete_operational,
            help="Overrides of the executor: executor.grace=60.",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", min=1, help="Runs at a time; default: by the number of cores."),
    ] = None,
    idle: Annotated[
        float, typer.Option("--idle", min=0, help="Exit after this many seconds without a run.")
    ] = 600.0,
    job: Annotated[
        Path | None, typer.Option("--job", help="A file with the runs to execute, one per line.")
    ] = None,
    scores: Annotated[
        bool,
        typer.Option("--scores", help="Compute the scores that a stream of candidates orders."),
    ] = False,
    while_input: Annotated[
        bool, typer.Option("--while-input", help="Exit when standard input ends.", hidden=True)
    ] = False,
    allow_import: AllowImport = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Execute queued runs of an experiment on this machine.

    Runs are queued by executor=pull, or by an executor of a cluster.
    """
    from rlexp.app.commands.train.worker import WorkerOptions, work
    from rlexp.app.results import document
    from rlexp.cli.json_lines import JsonLines

    options = WorkerOptions(
        job=job, workers=workers, idle=idle, while_input=while_input, scores=scores
    )
    console = console_for(as_json=as_json, quiet=quiet)
    observer = JsonLines(console) if as_json else observer_for(console)
    outcome = work(experiment, overrides or [], options, current_workspace(allow_import), observer)
    if as_json:
        console.json_line(document(outcome))
    else:
        for line in worker_lines(outcome):
            console.line(line)
    complete = not outcome.refused
    raise typer.Exit(exit_code(complete=complete, interrupted=outcome.interrupted))


def worker_lines(outcome: "WorkerOutcome") -> "Iterator[str]":
    """How many runs the worker executed, or why it executed none, as lines."""
    from rlexp.text import format_count

    if outcome.executed:
        attempts = format_count(outcome.executed, "attempt")
        yield f"executed queued runs of {outcome.experiment}: {attempts}"
        yield f"To see the scores: {shlex.join(['rlexp', 'show', outcome.experiment])}"
        return
    if outcome.refused or outcome.interrupted:
        return
    if outcome.job is not None:
        yield (
            f"nothing to execute: the runs of {outcome.job.name} have ended, or other workers "
            "execute them"
        )
        return
    left = format_count(outcome.ordered, "run")
    yield (
        f"nothing to execute: {left} of {outcome.experiment} queued; to queue more, repeat the "
        "command of the experiment with executor=pull"
    )
