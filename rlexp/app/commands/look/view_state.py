"""What a page of `rlexp view` shows while runs go on: the state of an experiment, in words."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from rlexp.app.commands.look.listing_rows import ExperimentRow
from rlexp.app.commands.look.status import ExperimentStatus, RunningRun
from rlexp.app.reading.headline_aggregate import HeadlineAggregate
from rlexp.engine.sweep_view import SweepStatus, candidates_text
from rlexp.metrics.estimate_text import sentence
from rlexp.protocol.sweep import PROPOSALS
from rlexp.records.selection import configuration_name
from rlexp.text import (
    format_count,
    format_duration,
    format_percentage,
    format_score,
    one_line,
)

MOST_BARS = 12
"""Most running runs with a bar of their progress."""
DONE = "done"
"""The stage of a sweep that has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressBar:
    """The progress of a running run: its share from 0 to 1, and words."""

    name: str
    share: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PageState:
    """The state that a page asks for every two seconds.

    Attributes:
        version: The version of the present page; a page of another version is old. Empty before
            the first one.
        running: Whether a command executes runs now.
        lines: What is shown above the page; the first line is the state.
        bars: The progress of running runs.
        problems: What is wrong with the records.
        computing: A sentence while there is no page yet, or a part of it is missing; else empty.
    """

    version: str
    running: bool
    lines: tuple[str, ...]
    bars: tuple[ProgressBar, ...] = ()
    problems: tuple[str, ...] = ()
    computing: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedState:
    """The state of an experiment, as read from its records.

    Attributes:
        files: A digest of its files; None where no digest shows every change.
        records: A text that changes with anything that a page depends on.
        status: Its progress.
        row: Its row in a listing.
    """

    files: str | None
    records: str
    status: ExperimentStatus
    row: ExperimentRow


def state_lines(status: ExperimentStatus) -> Iterator[str]:
    """The state of an experiment in words."""
    running = "Running" if status.driven or status.running else "Not running"
    counts = ", ".join(f"{n} {state}" for state, n in sorted(status.runs.items()))
    if status.sweep is None:
        yield f"{running}: {format_count(sum(status.runs.values()), 'run')} ({counts})"
    else:
        yield f"{running}: {_trial_counts(status.sweep)}"
        yield from filter(None, (_best(status.sweep), _winner(status.sweep), _left(status.sweep)))
    if status.sweep_problem is not None:
        yield status.sweep_problem
    if waiting := status.queued.waiting:
        yield f"{format_count(len(waiting), 'queued run')} not yet taken by a worker"
    if (more := len(status.running) - MOST_BARS) > 0:
        yield f"{format_count(more, 'running run')} more than the bars show"


def _trial_counts(sweep: SweepStatus) -> str:
    if sweep.stage == PROPOSALS:
        return candidates_text(sweep)
    trials = sweep.trials
    stage = f"{sweep.stage}, " if sweep.stage != DONE else ""
    runs = (
        f", {sweep.stage_runs_ended} of {sweep.stage_runs} runs of this stage"
        if sweep.stage_runs and stage
        else ""
    )
    return f"{stage}{trials.ended} of {format_count(trials.planned, 'trial')} ended{runs}"


def _best(sweep: SweepStatus) -> str:
    """The best trial so far; its value is marked as a tuning score, which is biased upwards."""
    if sweep.best is None or sweep.stage == PROPOSALS:
        return ""
    head = "Best" if sweep.stage == DONE else "Best so far"
    return f"{head}: trial {sweep.best.trial}, tuning score {format_score(sweep.best.value)}"


def _winner(sweep: SweepStatus) -> str:
    if sweep.winner is None:
        return ""
    return f"Chosen by selection seeds: {configuration_name(sweep.winner, sweep.winner)}"


def _left(sweep: SweepStatus) -> str:
    if sweep.seconds_left is None:
        return ""
    return f"About {format_duration(sweep.seconds_left)} left"


def bar(run: RunningRun) -> ProgressBar:
    """How far a running run is, with the mean of its last evaluation."""
    share = min(run.step / run.steps, 1.0) if run.steps else 0.0
    mean = "" if run.last_mean is None else f", {run.quantity} {_mean(run.last_mean)}"
    return ProgressBar(name=run.run, share=share, text=f"{format_percentage(share)}{mean}")


def _mean(value: float) -> str:
    return format_score(value, 1) if math.isfinite(value) else "unknown"


def progress(state: RecordedState) -> tuple[int, int, str]:
    """Numbers of ended and planned runs or trials, and words for them."""
    row, sweep = state.row, state.status.sweep
    if sweep is not None:
        return sweep.trials.ended, sweep.trials.planned, _trial_counts(sweep)
    # A command that drives the experiment is about to execute them.
    absent = "waiting" if state.status.driven else "missing"
    counts = {
        "running": row.running,
        "failed": row.failed,
        absent: row.missing,
        "damaged": row.damaged,
    }
    others = [f"{n} {name}" for name, n in counts.items() if n]
    return row.done, row.planned, ", ".join([f"{row.done} of {row.planned} done", *others])


def state_name(state: RecordedState) -> str:
    """The state of an experiment in one or two words, for a row of the list."""
    row, status = state.row, state.status
    if row.problem or row.damaged:
        return "damaged"
    if status.driven or status.running:
        return "running"
    if status.sweep is not None:
        return "complete" if status.sweep.stage in {DONE, "imported"} else "not finished"
    if row.planned and row.done == row.planned:
        return "complete"
    return "failed" if row.failed else "not finished"


def short_answer(state: RecordedState, leading: HeadlineAggregate) -> str:
    """The result of an experiment as far as its row has it."""
    if state.row.problem:
        return one_line(state.row.problem)
    if state.row.interval is not None:
        return sentence(leading.title, state.row.interval)
    return _best(state.status.sweep) if state.status.sweep else ""
