"""`rlexp status`: shows the progress of experiments and sweeps."""

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.completion import complete_experiment
from rlexp.cli.options import Json, console_for, current_workspace, show_result

FINISHED = "finished"
"""The state of an experiment that needs no further command."""
STATES = ("running", "damaged", "failed", "unfinished", FINISHED)
"""States of experiments, in the order in which they are printed."""
MOST_EXPERIMENTS = 15
"""Most experiments that are printed."""
MOST_RUNNING = 8
"""Most running runs of an experiment that are printed."""
MOST_NEXT = 4
"""Most experiments whose next command is printed."""

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
    """How far experiments are: the answer, one row for each, what runs now, and the next commands."""
    if not result.experiments:
        yield f"{result.folder} holds no runs yet; to start some, use 'rlexp run'"
        return
    if len(result.experiments) == 1:
        yield from _lines_of_single(result.experiments[0])
    else:
        yield from _lines_of_many(result.experiments)
    yield from _next_lines(result.experiments)


def _next_lines(experiments: "Sequence[ExperimentStatus]") -> "Iterator[str]":
    """The next commands: all of a single experiment, else the first of each that needs one."""
    from rlexp.cli.summaries import next_lines
    from rlexp.text import format_count

    if len(experiments) == 1:
        yield from next_lines(experiments[0].next)
        return
    needing = [e for e in _sorted(experiments) if e.state != FINISHED and e.next]
    for experiment in needing[:MOST_NEXT]:
        step = experiment.next[0]
        yield f"To {step.why} ({experiment.experiment}): {step.command}"
    if len(needing) > MOST_NEXT:
        more = format_count(len(needing) - MOST_NEXT, "more experiment")
        yield f"To see what to do with {more}: rlexp status EXPERIMENT"
    if not needing:
        yield "To list the experiments: rlexp ls"


def _lines_of_single(status: "ExperimentStatus") -> "Iterator[str]":
    yield f"{status.experiment} ({status.state}): {_progress(status)}"
    yield from _details(status, latest=True)


def _lines_of_many(experiments: "Sequence[ExperimentStatus]") -> "Iterator[str]":
    """How many experiments are in each state, a row for each, and what runs now or is damaged."""
    from collections import Counter

    from rlexp.text import format_count

    states = Counter(experiment.state for experiment in experiments)
    counts = ", ".join(f"{states[state]} {state}" for state in STATES if states[state])
    yield f"{format_count(len(experiments), 'experiment')}: {counts}"
    shown = _sorted(experiments)[:MOST_EXPERIMENTS]
    name = max(len(experiment.experiment) for experiment in shown)
    state = max(len(experiment.state) for experiment in shown)
    for experiment in shown:
        row = f"  {experiment.experiment:<{name}}  {experiment.state:<{state}}  "
        yield row + _short_progress(experiment)
        # What has ended needs no details here; `rlexp status EXPERIMENT` has them.
        if experiment.state not in {FINISHED, "unfinished", "failed"} or experiment.problems:
            yield from (f"  {line}" for line in _details(experiment, latest=False))
    if len(experiments) > len(shown):
        more = format_count(len(experiments) - len(shown), "more experiment")
        yield f"  and {more}: rlexp ls"


def _sorted(experiments: "Sequence[ExperimentStatus]") -> "Sequence[ExperimentStatus]":
    """The experiments by state: those that run or need attention come first."""
    return sorted(experiments, key=lambda experiment: STATES.index(experiment.state))


def _progress(status: "ExperimentStatus") -> str:
    """How far an experiment is, without its name."""
    from rlexp.console.sweep import status_line

    if status.sweep is not None:
        return status_line(status.sweep)
    return "its sweep cannot be read" if status.sweep_problem else _run_counts(status)


def _short_progress(status: "ExperimentStatus") -> str:
    """How far an experiment is, for a row of a table: of a sweep, its stage and its best trial."""
    from rlexp.protocol.sweep import PROPOSALS
    from rlexp.text import format_score

    sweep = status.sweep
    if sweep is None or sweep.stage == PROPOSALS:
        return _progress(status)
    best = ""
    if sweep.winner is not None:
        best = f", winner trial {sweep.winner}"
    elif sweep.best is not None:
        best = f", best {format_score(sweep.best.value)} (trial {sweep.best.trial})"
    return f"{sweep.stage}, {sweep.trials.ended} of {sweep.trials.planned} trials{best}"


def _details(status: "ExperimentStatus", *, latest: bool) -> "Iterator[str]":
    """What stands below the progress of an experiment; with `latest`, also the latest trials."""
    from rlexp.console.formatting import mean_text
    from rlexp.protocol.units import ENVIRONMENT_STEPS, unit_text
    from rlexp.text import format_count

    if latest or status.sweep_problem:
        yield from sweep_detail_lines(status.sweep, status.sweep_problem, latest=latest)
    yield from (f"  {line}" for line in _queue_lines(status))
    yield from (f"  {line}" for line in status.past.sentences())
    for run in status.running[:MOST_RUNNING]:
        last = "" if run.last_mean is None else f", {mean_text(run.quantity, run.last_mean)}"
        of = "" if run.unit == ENVIRONMENT_STEPS else f" {unit_text(run.unit)}"
        yield f"  {run.run} at step {run.step:,} of {run.steps:,}{of}{last}"
    if len(status.running) > MOST_RUNNING:
        more = format_count(len(status.running) - MOST_RUNNING, "more running run")
        yield f"  and {more}: rlexp ls {shlex.quote(status.experiment)}"
    yield from (f"  damaged: {problem}" for problem in status.problems)


def sweep_status_lines(
    sweep: "SweepStatus | None", problem: str | None, *, latest: bool = True
) -> "Iterator[str]":
    """The progress of a sweep, or the reason why it is unknown; with `latest`, also its trials."""
    from rlexp.console.sweep import status_line

    if sweep is not None:
        yield f"  {status_line(sweep)}"
    yield from sweep_detail_lines(sweep, problem, latest=latest)


def sweep_detail_lines(
    sweep: "SweepStatus | None", problem: str | None, *, latest: bool
) -> "Iterator[str]":
    """Why a sweep stopped or cannot be read, and its parameters; with `latest`, also its trials."""
    from rlexp.console.sweep import candidate_line, parameters_line, trial_line
    from rlexp.protocol.sweep import PROPOSALS

    if problem is not None:
        yield f"  {problem}"
    if sweep is not None:
        if sweep.stopped is not None:
            yield f"  stopped: {sweep.stopped}"
        if (line := parameters_line(sweep)) is not None:
            yield f"  {line}"
        line_of = candidate_line if sweep.stage == PROPOSALS else trial_line
        yield from (f"    {line_of(trial)}" for trial in sweep.latest if latest)


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
