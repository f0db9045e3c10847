"""Where a sweep stands, for those who watch it."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

LATEST = 5
"""Trials that the status of a sweep lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialLine:
    """A trial that has ended.

    Attributes:
        number: Its number.
        state: `complete`, `pruned` or `failed`.
        value: What was optimised, in its own units; nothing where the trial is not complete.
        seeds: Tuning seeds on which it has a score.
        reason: Why it was pruned or failed.
        best: Whether it was the best so far when it ended.
        scores: Of its runs, in order of their seeds.
    """

    number: int
    state: str
    value: float | None
    seeds: int
    reason: str | None
    best: bool
    scores: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialCounts:
    """How many trials a sweep has.

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
    """The best trial so far: its number, and its value in units of what is optimised."""

    trial: int
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepStatus:
    """How far a sweep is, in few values.

    Attributes:
        stage: `search`, `promotion`, `selection`, `test` or `done`.
        stopped: Why it cannot come to a winner as things are, if it cannot.
        trials: How many trials there are.
        latest: The trials that ended last, by number.
        best: The best trial so far.
        winner: Number of the trial that was chosen, once there is one.
        stage_runs_ended: Runs of the present stage that are over.
        stage_runs: Runs of the present stage.
        steps: Environment steps spent so far.
        limits: What limits the search besides the number of trials.
        seconds_left: Expected duration of what is still to come, in seconds, if it is known.
    """

    stage: str
    stopped: str | None
    trials: TrialCounts
    latest: tuple[TrialLine, ...]
    best: BestTrial | None
    winner: int | None
    stage_runs_ended: int
    stage_runs: int
    steps: int
    limits: str
    seconds_left: float | None


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

    def status(self, stopped: str | None = None) -> SweepStatus:
        """The same in few values, with the reason why the sweep stopped, if it did."""
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
            latest=self.ended[-LATEST:],
            best=None if self.best is None else BestTrial(trial=self.best[0], value=self.best[1]),
            winner=self.winner,
            stage_runs_ended=self.runs[0],
            stage_runs=self.runs[1],
            steps=self.steps,
            limits=self.limits,
            seconds_left=self.left,
        )


View = Callable[[], SweepView]
