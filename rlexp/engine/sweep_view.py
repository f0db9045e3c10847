"""Where a sweep stands, for those who watch it."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialLine:
    """A trial that has ended. `value` is what was optimised, in its own units."""

    number: int
    state: str
    value: float | None
    seeds: int
    reason: str | None
    best: bool


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
