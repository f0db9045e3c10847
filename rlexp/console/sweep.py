"""A sweep while it goes on: a line for each trial, and below them how far everything is."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any

from rich.console import Console as RichConsole
from rich.live import Live
from rich.markup import escape

from rlexp.console.lines import EVERY
from rlexp.console.live import LiveTable
from rlexp.console.plans import checkpoint_lines
from rlexp.console.words import duration, ending, size
from rlexp.metrics.estimate import FEW
from rlexp.reports.sentences import counted, listed, shortened

if TYPE_CHECKING:
    from rlexp.engine.running import Running
    from rlexp.records.run import RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialLine:
    """A trial that has ended.

    Attributes:
        number: From 0, the default configuration.
        state: `complete`, `pruned` or `failed`.
        value: What was optimised, in its own units.
        seeds: Runs that it rests on.
        reason: Why it was pruned or failed.
        best: Whether no trial before it was better.
        scores: Of these runs, in order of their seeds.
    """

    number: int
    state: str
    value: float | None
    seeds: int
    reason: str | None
    best: bool
    scores: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepView:
    """Where a sweep stands.

    Attributes:
        stage: `search`, `promotion`, `selection`, `test` or `done`.
        trials: Of the plan, at most.
        ended: Trials that have ended, by number.
        running: Trials that have begun and not ended.
        best: Number and value of the best trial so far.
        runs: Of the present stage: how many are over, and how many there are.
        steps: Environment steps spent so far.
        limits: Further limits of the search, in words.
        left: Seconds that everything is expected to take, if that can be told.
        driven: Whether a command drives it; without one nothing runs.
        winner: Number of the trial that was chosen, once one is.
    """

    stage: str
    trials: int
    ended: tuple[TrialLine, ...]
    running: int
    best: tuple[int, float] | None
    runs: tuple[int, int]
    steps: int
    limits: str
    left: float | None
    driven: bool = True
    winner: int | None = None


View = Callable[[], SweepView]


def plan_lines(plan: Mapping[str, Any]) -> Iterator[str]:
    """What a sweep is about to do, on a few lines."""
    stage = "" if not plan["trials_ended"] else f", {plan['trials_ended']} trials done already"
    yield (
        f"{plan['experiment']} · {plan['algorithm']} on {plan['task']} · "
        f"{_length(plan)} by {plan['tuner']}{stage}"
    )
    parameters = plan["parameters"]
    pruner = "" if plan["pruner"] == "none" else f" · pruner {plan['pruner']}"
    yield f"  searches {counted(len(parameters), 'parameter')}: {shortened(parameters, 4)}{pruner}"
    yield f"  {_seeds_in_words(plan)}"
    guess = "estimated" if plan["measured"] else "roughly"
    yield (
        f"  at most {counted(plan['runs'], 'run')} × {plan['steps_per_run']:,} environment steps"
        f" · {counted(plan['workers'], 'worker')} × {counted(plan['threads'], 'thread')}"
        f" · {guess} {duration(plan['seconds'])}, {size(plan['bytes'])} · {plan['code']}"
    )
    yield from checkpoint_lines(plan)


def _length(plan: Mapping[str, Any]) -> str:
    """How far the search goes: its trials, or the budget that ends it before."""
    return plan["limits"] or counted(plan["trials"], "trial")


def _seeds_in_words(plan: Mapping[str, Any]) -> str:
    """Which runs each stage makes."""
    objective = listed(plan["objective"])
    tuning = counted(plan["tuning_seeds"], "tuning seed")
    if plan["screening_seeds"] < plan["tuning_seeds"]:
        search = f"1 tuning seed each, the best {plan['promoted']} on all {plan['tuning_seeds']}"
    elif plan["allocation"] == "racing":
        search = f"{tuning} each, one by one, as long as a trial keeps up"
    else:
        search = f"{tuning} each"
    chosen = (
        f"{counted(plan['finalists'], 'finalist')} on {counted(plan['selection_seeds'], 'selection seed')}"
        if plan["selection_seeds"]
        else "the best is the winner"
    )
    seeds = plan["test_seeds"]
    tests = f"winner and default on {counted(seeds, 'test seed')}" if seeds else "no test"
    return f"{search} · {chosen} · {tests} · by {plan['aggregate']} {objective}"


def trial_line(trial: TrialLine) -> str:
    """How a trial ended, on one line."""
    few = f" ({', '.join(f'{s:,.2f}' for s in trial.scores)})" if 1 < trial.seeds < FEW else ""
    seeds = f"{counted(trial.seeds, 'seed')}{few}"
    value = "" if trial.value is None else f" {trial.value:,.2f} on {seeds}"
    best = ", the best so far" if trial.best else ""
    reason = f": {trial.reason}" if trial.reason else ""
    default = " (default)" if trial.number == 0 else ""
    return f"trial {trial.number}{default} {trial.state}{value}{best}{reason}"


def status_line(view: SweepView) -> str:
    """How far a sweep is, on one line."""
    counts = dict.fromkeys(("complete", "pruned", "failed"), 0)
    for trial in view.ended:
        counts[trial.state] = counts.get(trial.state, 0) + 1
    told = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    trials = f"{len(view.ended)}/{view.trials} trials ({told})" if told else "no trial yet"
    word = "running" if view.driven else "unfinished"
    running = f", {view.running} {word}" if view.running else ""
    best = f" · best {view.best[1]:,.2f} (trial {view.best[0]})" if view.best else ""
    if view.winner is not None:
        best += f" · winner trial {view.winner}"
    over, planned = view.runs
    in_runs = planned and view.stage not in {"search", "done"}
    stage = f"{view.stage} {over}/{planned} runs" if in_runs else view.stage
    left = "" if view.left is None else f" · about {duration(view.left)} left"
    limits = f" · {view.limits}" if view.limits else ""
    return f"{stage}: {trials}{running}{best} · {view.steps:,} environment steps{limits}{left}"


def _is_told_by_its_trial(record: "RunRecord") -> bool:
    """Whether a run belongs to a trial, and came to an end that the line of the trial tells."""
    return record.spec.phase == "tuning" and record.state in {"completed", "pruned"}


class SweepLines:
    """Progress as plain lines."""

    def __init__(self, line: Callable[[str], None], view: View, *, quiet: bool) -> None:
        self._line = (lambda _: None) if quiet else line
        self._view = view
        self._next = monotonic() + EVERY
        self._told = {trial.number for trial in view().ended}
        self._stage = ""

    def update(self, running: "Sequence[Running]", waiting: int) -> None:
        """Print the trials that have ended, and how far everything is now and then."""
        del running, waiting
        view = self._view()
        for trial in view.ended:
            if trial.number not in self._told:
                self._told.add(trial.number)
                self._line(f"  {trial_line(trial)}")
        begun = view.stage != self._stage and view.runs[1] > 0
        if begun or monotonic() > self._next:
            self._stage, self._next = view.stage, monotonic() + EVERY
            self._line(f"  {status_line(view)}")

    def ended(self, record: "RunRecord", *, again: bool) -> None:
        """Print how a run ended, where its trial does not say it."""
        if again or not _is_told_by_its_trial(record):
            self._line(f"  {ending(record, again=again)}")


class SweepTable(LiveTable):
    """Redraws what runs now; trials that have ended scroll by above it."""

    def __init__(self, live: Live, console: RichConsole, view: View) -> None:
        super().__init__(live, console, 0)
        self._view = view
        self._told = {trial.number for trial in view().ended}

    def update(self, running: "Sequence[Running]", waiting: int) -> None:
        """Redraw."""
        for trial in self._view().ended:
            if trial.number not in self._told:
                self._told.add(trial.number)
                self._console.print("  " + escape(trial_line(trial)), soft_wrap=True)
        super().update(running, waiting)

    def ended(self, record: "RunRecord", *, again: bool) -> None:
        """Print how a run ended, where its trial does not say it."""
        if again or not _is_told_by_its_trial(record):
            super().ended(record, again=again)

    def _bottom(self, running: "Sequence[Running]", waiting: int) -> str:
        del running, waiting
        return status_line(self._view())


@contextmanager
def sweep_table(console: RichConsole, view: View) -> Iterator[SweepTable]:
    """Show a live table as long as the context lasts."""
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        yield SweepTable(live, console, view)
