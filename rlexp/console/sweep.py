"""The progress of a sweep: one line per trial, and a status line below them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from rich.console import Console as RichConsole
from rich.live import Live

from rlexp.console.formatting import ending
from rlexp.console.tables import SECONDS_BETWEEN_LINES, LiveTable
from rlexp.engine.sweep_view import (
    EndedTrial,
    ReadSweepView,
    SweepStatus,
    TrialCounts,
    candidates_text,
)
from rlexp.metrics.estimate import FEW
from rlexp.protocol.sweep import PROPOSALS
from rlexp.protocol.units import unit_text
from rlexp.records.selection import configuration_name
from rlexp.text import format_count, format_duration, format_parameters, format_score

if TYPE_CHECKING:
    from rlexp.engine.run_in_flight import RunInFlight
    from rlexp.records.run import RunRecord

STATES = ("complete", "pruned", "failed")
"""States of ended trials, in the order in which they are printed."""


def trial_line(trial: EndedTrial) -> str:
    """The number, state, value and hyperparameters of a trial, on one line."""
    # An aggregate of few seeds says little, so the scores themselves are printed beside it.
    few = (
        f" ({', '.join(f'{format_score(s)}' for s in trial.scores)})"
        if 1 < trial.seeds < FEW
        else ""
    )
    seeds = f"{format_count(trial.seeds, 'seed')}{few}"
    tasks = "" if trial.tasks is None else f" of {format_count(trial.tasks, 'task')}"
    on_seeds = "" if trial.imported else f" on {seeds}{tasks}"
    value = "" if trial.value is None else f" {format_score(trial.value)}{on_seeds}"
    others = "".join(f", {name} {format_score(v)}" for name, v in trial.others.items())
    # Of several objectives, the first one alone makes no trial the best.
    best = ", the best so far" if trial.best and not trial.others else ""
    reason = f": {trial.reason}" if trial.reason else ""
    default = " (default)" if trial.number == 0 and not trial.imported else ""
    origin = f" ({trial.origin.text})" if trial.origin else ""
    parameters = f" · {format_parameters(trial.parameters)}" if trial.parameters else ""
    default = default if trial.place is None else f" ({trial.place})"
    return f"trial {trial.number}{default}{origin} {trial.state}{value}{others}{best}{reason}{parameters}"


def status_line(sweep: SweepStatus) -> str:
    """The progress of a sweep on one line."""
    if sweep.stage == PROPOSALS:
        return f"{candidates_text(sweep)} · {sweep.steps:,} {unit_text(sweep.unit)}"
    trials = sweep.trials
    best = (
        f" · best {format_score(sweep.best.value)} (trial {sweep.best.trial})"
        if sweep.best
        else ""
    )
    if sweep.front is not None:
        best += f" · {sweep.front.text}"
    if sweep.winner is not None:
        best += f" · chosen {configuration_name(sweep.winner, sweep.winner)}"
    word = "running" if trials.running else "unfinished"
    unfinished = f", {trials.unfinished} {word}" if trials.unfinished else ""
    left = (
        ""
        if sweep.seconds_left is None
        else f" · about {format_duration(sweep.seconds_left)} left"
    )
    limits = f" · {sweep.limits}" if sweep.limits else ""
    return (
        f"{_stage(sweep)}: {_trials(trials)}{unfinished}{best} · {sweep.steps:,} {unit_text(sweep.unit)}"
        f"{limits}{left}"
    )


def candidate_line(trial: EndedTrial) -> str:
    """The number, decision, value and settings of a candidate of a stream, on one line."""
    value = "" if trial.value is None else f": {format_score(trial.value)}"
    kept = f"kept{value} on {format_count(trial.seeds, 'seed')}"
    parameters = f" · {format_parameters(trial.parameters)}" if trial.parameters else ""
    return f"candidate {trial.number} {kept if trial.best else trial.reason}{parameters}"


def parameters_line(sweep: SweepStatus) -> str | None:
    """The hyperparameters of the winner, or else of the best trial; None without either."""
    if sweep.parameters is None:
        return None
    best = None if sweep.best is None else sweep.best.trial
    chosen = None if sweep.winner is None else configuration_name(sweep.winner, sweep.winner)
    return f"{chosen or f'best trial {best}'}: {format_parameters(sweep.parameters)}"


def _stage(sweep: SweepStatus) -> str:
    """The stage; for selection and test, with the number of ended runs."""
    if sweep.stage_runs and sweep.stage not in {"search", "done"}:
        return f"{sweep.stage} {sweep.stage_runs_ended}/{sweep.stage_runs} runs"
    return sweep.stage


def _trials(trials: TrialCounts) -> str:
    """The number of ended trials in each state."""
    order = dict.fromkeys((*STATES, *trials.by_state))
    counts = [f"{n} {state}" for state in order if (n := trials.by_state.get(state))]
    if not counts:
        return "no trials yet"
    return f"{trials.ended}/{trials.planned} trials ({', '.join(counts)})"


def shown_by_trial(record: "RunRecord") -> bool:
    """Whether the line of the trial already shows how this run ended."""
    return record.spec.phase == "tuning" and record.state in {"completed", "pruned"}


class SweepLines:
    """Prints the progress of a sweep as lines."""

    def __init__(self, line: Callable[[str], None], view: ReadSweepView, *, quiet: bool) -> None:
        self._line = (lambda _: None) if quiet else line
        self._view = view
        self._next = monotonic() + SECONDS_BETWEEN_LINES
        self._printed_trials = {trial.number for trial in view().ended}
        self._stage = ""

    def update(self, running: "Sequence[RunInFlight]", waiting: int) -> None:
        """Print newly ended trials, and the status line at a new stage and every 15 s."""
        del running, waiting
        view = self._view()
        for trial in view.ended:
            if trial.number not in self._printed_trials:
                self._printed_trials.add(trial.number)
                self._line(f"  {trial_line(trial)}")
        begun = view.stage != self._stage and view.runs[1] > 0
        if begun or monotonic() > self._next:
            self._stage, self._next = view.stage, monotonic() + SECONDS_BETWEEN_LINES
            self._line(f"  {status_line(view.status())}")

    def ended(self, record: "RunRecord", *, again: bool) -> None:
        """Print how a run ended, unless the line of its trial shows it."""
        if again or not shown_by_trial(record):
            self._line(f"  {ending(record, again=again)}")


class SweepTable(LiveTable):
    """A live table of active runs; ended trials are printed above it."""

    def __init__(self, live: Live, console: RichConsole, view: ReadSweepView) -> None:
        super().__init__(live, console, 0)
        self._view = view
        self._printed_trials = {trial.number for trial in view().ended}

    def update(self, running: "Sequence[RunInFlight]", waiting: int) -> None:
        """Print newly ended trials and redraw the table."""
        for trial in self._view().ended:
            if trial.number not in self._printed_trials:
                self._printed_trials.add(trial.number)
                self._print(trial_line(trial))
        super().update(running, waiting)

    def ended(self, record: "RunRecord", *, again: bool) -> None:
        """Print how a run ended, unless the line of its trial shows it."""
        if again or not shown_by_trial(record):
            super().ended(record, again=again)

    def _bottom(self, running: "Sequence[RunInFlight]", waiting: int) -> str:
        del running, waiting
        return status_line(self._view().status())


@contextmanager
def sweep_table(console: RichConsole, view: ReadSweepView) -> Iterator[SweepTable]:
    """Show a live table while the context is open."""
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        yield SweepTable(live, console, view)
