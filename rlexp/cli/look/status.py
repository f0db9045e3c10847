"""`rlexp status`: shows the progress of experiments and sweeps."""

from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.completion import complete_experiment
from rlexp.cli.options import Json, console_for, current_workspace, show_result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlexp.app.commands.look.status import ExperimentStatus, Status
    from rlexp.app.workspace import Workspace
    from rlexp.console import Console
    from rlexp.engine.sweep_view import SweepStatus


def status(
    experiment: Annotated[
        str | None,
        typer.Argument(autocompletion=complete_experiment, help="Only this experiment."),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Update the display until nothing runs.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the progress of experiments and sweeps.

    Works from any terminal, whichever command runs them.
    """
    from rlexp.app.commands.look.status import status as use_case

    console = console_for(as_json=as_json)
    if watch:
        _watch(experiment, current_workspace(), console)
    else:
        show_result(use_case(experiment, current_workspace()), console, status_lines)


def status_lines(result: "Status") -> "Iterator[str]":
    """The progress of each experiment, as lines."""
    for experiment in result.experiments:
        yield from _experiment_lines(experiment)


def sweep_status_lines(
    sweep: "SweepStatus | None", problem: str | None, *, latest: bool = True
) -> "Iterator[str]":
    """The progress of a sweep, or the reason why it is unknown; with `latest`, also its trials."""
    from rlexp.console.sweep import parameters_line, status_line, trial_line

    if problem is not None:
        yield f"  {problem}"
    if sweep is not None:
        yield f"  {status_line(sweep)}"
        if sweep.stopped is not None:
            yield f"  stopped: {sweep.stopped}"
        if (line := parameters_line(sweep)) is not None:
            yield f"  {line}"
        yield from (f"    {trial_line(trial)}" for trial in sweep.latest if latest)


def _watch(experiment: str | None, workspace: "Workspace", console: "Console") -> None:
    """Show the progress repeatedly until nothing runs; with `--json`, one document per line."""
    from rlexp.app.commands.look.status import watch
    from rlexp.app.results import document

    looks = watch(experiment, workspace)
    if console.as_json:
        for look in looks:
            console.json_line(document(look))
    else:
        console.redraw([*status_lines(look)] for look in looks)


def _experiment_lines(status: "ExperimentStatus") -> "Iterator[str]":
    from rlexp.console.formatting import mean_text

    yield f"{status.experiment}: " + ("running" if status.driven else "not running")
    if status.sweep is None and status.sweep_problem is None:
        yield f"  {_run_counts(status)}"
    yield from sweep_status_lines(status.sweep, status.sweep_problem)
    yield from (f"  {line}" for line in _queue_lines(status))
    yield from (f"  {line}" for line in status.past.sentences())
    for run in status.running:
        last = "" if run.last_mean is None else f", {mean_text(run.quantity, run.last_mean)}"
        yield f"  {run.run} at step {run.step:,} of {run.steps:,}{last}"
    yield from (f"  damaged: {problem}" for problem in status.problems)


def _run_counts(status: "ExperimentStatus") -> str:
    """The number of runs in each state."""
    from rlexp.text import format_count

    if not status.runs:
        return "no runs yet"
    counts = ", ".join(f"{n} {state}" for state, n in sorted(status.runs.items()))
    return f"{format_count(sum(status.runs.values()), 'run')}: {counts}"


def _queue_lines(status: "ExperimentStatus") -> "Iterator[str]":
    """The queued runs and the submitted cluster jobs, as lines."""
    from rlexp.text import format_count

    if waiting := status.queued.waiting:
        yield f"{format_count(len(waiting), 'queued run')} not yet taken by a worker"
    for name, count in status.queued.jobs.items():
        yield f"{format_count(count, 'job')} submitted to {name} for queued runs"
