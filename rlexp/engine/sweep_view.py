"""The state of a sweep as the console and the JSON output show it."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rlexp.records.selection import configuration_name
from rlexp.records.trial import TrialOrigin, TrialState
from rlexp.text import format_count, format_score

LATEST = 5
"""Trials that the status of a sweep lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedTrial:
    """A trial that has ended.

    Attributes:
        number: Number of the trial.
        state: `complete`, `pruned` or `failed`.
        value: Value of the first objective in its units; None where the trial is not complete.
        seeds: Number of tuning seeds with a score.
        reason: Why the trial was pruned or failed.
        best: Whether the trial is the best so far. While a command runs, the line of a trial is
            printed when the trial ends, and says whether it was the best until then.
        scores: Scores of its runs, in order of their seeds.
        imported: Whether another tool made the trial; its seeds are then not known.
        parameters: Values of the searched hyperparameters; in a population, the last ones.
        origin: Where its configuration comes from (`enqueue`, `try`, `prior` or `warm_start`); None from
            the tuner.
        tasks: Number of tasks over which `value` and `scores` are means of normalised scores; None in a
            sweep on one task.
        place: The generation and member of a population, in words; None in other sweeps.
        others: Value of each further objective, by name.
    """

    number: int
    state: str
    value: float | None
    seeds: int
    reason: str | None
    best: bool
    scores: tuple[float, ...] = ()
    imported: bool = False
    parameters: Mapping[str, Any] = field(default_factory=dict)
    origin: TrialOrigin | None = None
    tasks: int | None = None
    place: str | None = None
    others: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialCounts:
    """The numbers of trials of a sweep.

    Attributes:
        planned: The most that the search makes; once the search is over, those that it made.
        ended: Those that have ended.
        by_state: Those that have ended, by state (`complete`, `pruned`, `failed`).
        running: Those that have begun and not ended, while a command drives the sweep.
        unfinished: Those that have begun and not ended.
    """

    planned: int
    ended: int
    by_state: Mapping[str, int]
    running: int
    unfinished: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BestTrial:
    """The best trial so far: its number, and its value in the units of the objective."""

    trial: int
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontStatus:
    """The front of a sweep of several objectives.

    Attributes:
        objectives: The names of the objectives.
        trials: The trials of the front: by tuning seeds so far, or those that the choice wrote down.
        reference: The point from which the hypervolume is measured, in units of the objectives.
        hypervolume: The hypervolume of all trials so far, on the seeds on which every trial runs; None
            where immense values have no finite one.
        frozen: Whether the choice was made, after which nothing of this changes.
    """

    objectives: tuple[str, ...]
    trials: tuple[int, ...]
    reference: tuple[float, ...]
    hypervolume: float | None
    frozen: bool

    @property
    def text(self) -> str:
        """The number of its trials and the hypervolume, in words."""
        count = format_count(len(self.trials), "trial")
        volume = self.hypervolume
        return f"front of {count}" + (
            "" if volume is None else f", hypervolume {format_score(volume)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepStatus:
    """The state of a sweep as a JSON document shows it.

    Attributes:
        stage: `search`, `promotion`, `selection`, `test` or `done`; `imported` if another tool made
            the search, which then has no winner and no test score; `proposals` for a stream that takes
            candidates, whose first champion is no trial here, and whose best trial is the champion.
        stopped: Why the sweep cannot choose a winner; None if it can.
        trials: Numbers of trials.
        latest: The trials that ended last, by number.
        best: The best trial so far.
        winner: Number of the winner; None before it is chosen.
        parameters: Values of the searched hyperparameters of the winner, or else of the best trial
            so far; None without either.
        stage_runs_ended: Number of ended runs of the present stage.
        stage_runs: Number of runs of the present stage.
        steps: Steps spent so far.
        unit: The unit of steps: `environment_steps`, or `environment.unit`.
        limits: Limits of the search besides the number of trials, as text.
        seconds_left: Expected remaining time in seconds; None if unknown.
        regret_bound: At most so much could more trials gain, in units of the objective; None without
            `sweep.stop_at_regret`, and with too few trials for a bound.
        front: The front of several objectives; None with one objective, and before a complete trial.
    """

    stage: str
    stopped: str | None
    trials: TrialCounts
    latest: tuple[EndedTrial, ...]
    best: BestTrial | None
    winner: int | None
    parameters: Mapping[str, Any] | None
    stage_runs_ended: int
    stage_runs: int
    steps: int
    unit: str
    limits: str
    seconds_left: float | None
    regret_bound: float | None
    front: FrontStatus | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepView:
    """The state of a sweep.

    Attributes:
        stage: `search`, `promotion`, `selection`, `test` or `done`.
        trials: Most trials that the search makes.
        ended: Trials that have ended, by number.
        running: Number of trials that have begun and not ended.
        best: Number and value of the best trial so far.
        runs: Number of ended runs, and number of all runs, of the present stage.
        steps: Steps spent so far.
        unit: The unit of steps: `environment_steps`, or `environment.unit`.
        limits: Further limits of the search, as text.
        left: Expected remaining time in seconds; None if unknown.
        driven: Whether a command executes the sweep now.
        winner: Number of the winner; None before it is chosen.
        parameters: Values of the searched hyperparameters of the winner, or else of the best trial.
        regret_bound: At most so much could more trials gain; None without a bound.
        front: The front of several objectives; None with one objective, and before a complete trial.
    """

    stage: str
    trials: int
    ended: tuple[EndedTrial, ...]
    running: int
    best: tuple[int, float] | None
    runs: tuple[int, int]
    steps: int
    unit: str
    limits: str
    left: float | None
    driven: bool = True
    winner: int | None = None
    parameters: Mapping[str, Any] | None = None
    regret_bound: float | None = None
    front: FrontStatus | None = None

    def status(self, stopped: str | None = None) -> SweepStatus:
        """The state as a JSON document shows it; `stopped` is the reason why the sweep stopped."""
        best = None if self.best is None else self.best[0]
        return SweepStatus(
            stage=self.stage,
            stopped=stopped,
            trials=TrialCounts(
                planned=self.trials,
                ended=len(self.ended),
                by_state=dict(Counter(trial.state for trial in self.ended)),
                running=self.running if self.driven else 0,
                unfinished=self.running,
            ),
            # Several trials were the best when they ended, but only one of them is so now.
            latest=tuple(replace(t, best=t.number == best) for t in self.ended[-LATEST:]),
            best=None if self.best is None else BestTrial(trial=self.best[0], value=self.best[1]),
            winner=self.winner,
            parameters=self.parameters,
            stage_runs_ended=self.runs[0],
            stage_runs=self.runs[1],
            steps=self.steps,
            unit=self.unit,
            limits=self.limits,
            seconds_left=self.left,
            regret_bound=self.regret_bound,
            front=self.front,
        )


ReadSweepView = Callable[[], SweepView]


def candidates_text(sweep: SweepStatus) -> str:
    """How far a stream is that takes candidates, in words; its best trial is the champion."""
    trials, best = sweep.trials, sweep.best
    kept = trials.by_state.get(TrialState.COMPLETE, 0)
    is_open = f", {trials.unfinished} open" if trials.unfinished else ""
    name = "" if best is None else configuration_name(best.trial, best.trial or None)
    champion = f" · champion {name}" if name else ""
    decided = format_count(trials.ended, "candidate")
    return f"takes candidates: {decided} decided ({kept} kept){is_open}{champion}"
