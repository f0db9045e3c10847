"""`rlexp status`: shows how far experiments and sweeps are."""

from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.options import Json, console_for, here, show_result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlexp.app.commands.status import ExperimentStatus, Status
    from rlexp.app.workspace import Workspace
    from rlexp.console import Console
    from rlexp.engine.sweep_view import SweepStatus


def status(
    experiment: Annotated[str | None, typer.Argument(help="Only this one")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Again and again, until it ends")] = False,
    as_json: Json = False,
) -> None:
    """Show how far experiments and sweeps are, whichever command drives them."""
    from rlexp.app.commands.status import status as use_case

    console = console_for(as_json=as_json)
    if watch:
        _watch(experiment, here(), console)
    else:
        show_result(use_case(experiment, here()), console, status_lines)


def status_lines(result: "Status") -> "Iterator[str]":
    """How far each experiment is."""
    for experiment in result.experiments:
        yield from _experiment_lines(experiment)


def sweep_status_lines(sweep: "SweepStatus | None", problem: str | None) -> "Iterator[str]":
    """How far a sweep is with its latest trials, or why that cannot be computed."""
    from rlexp.console.sweep import status_line, trial_line

    if problem is not None:
        yield f"  {problem}"
    if sweep is not None:
        yield f"  {status_line(sweep)}"
        if sweep.stopped is not None:
            yield f"  it stopped: {sweep.stopped}"
        yield from (f"    {trial_line(trial)}" for trial in sweep.latest)


def _watch(experiment: str | None, workspace: "Workspace", console: "Console") -> None:
    """Show how far everything is until nothing runs any more; as JSON, an object a line."""
    from rlexp.app.commands.status import watch
    from rlexp.app.results import document

    looks = watch(experiment, workspace)
    if console.as_json:
        for look in looks:
            console.json_line(document(look))
    else:
        console.redraw([*status_lines(look)] for look in looks)


def _experiment_lines(status: "ExperimentStatus") -> "Iterator[str]":
    yield f"{status.experiment}: " + ("runs now" if status.driven else "no command drives it")
    if status.sweep is None and status.sweep_problem is None:
        yield f"  {_run_counts(status)}"
    yield from sweep_status_lines(status.sweep, status.sweep_problem)
    yield from (f"  {line}" for line in _queue_lines(status))
    yield from (f"  {line}" for line in status.past.sentences())
    for run in status.running:
        last = "" if run.last_return is None else f", return {run.last_return:,.1f}"
        yield f"  {run.run} at step {run.step:,} of {run.steps:,}{last}"
    yield from (f"  damaged: {problem}" for problem in status.problems)


def _run_counts(status: "ExperimentStatus") -> str:
    """How many runs there are, by state."""
    from rlexp.text import counted

    if not status.runs:
        return "no run yet"
    counts = ", ".join(f"{n} {state}" for state, n in sorted(status.runs.items()))
    return f"{counted(sum(status.runs.values()), 'run')}: {counts}"


def _queue_lines(status: "ExperimentStatus") -> "Iterator[str]":
    """What is left to workers; nothing where nothing is."""
    from rlexp.text import counted

    if waiting := status.queued.waiting:
        yield f"{counted(len(waiting), 'ordered run')} not taken by a worker yet"
    for name, count in status.queued.jobs.items():
        yield f"{counted(count, 'job')} submitted to {name} for ordered runs"
