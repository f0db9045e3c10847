"""The progress of runs as text: the cells of a running run, and how far all runs are."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING

from rlexp.console.formatting import last_mean, share_done
from rlexp.protocol.units import ENVIRONMENT_STEPS, unit_text
from rlexp.text import format_duration

if TYPE_CHECKING:
    from rlexp.engine.run_in_flight import RunInFlight
    from rlexp.records.run import RunRecord

KNOWN_AFTER = 2.0
"""Seconds of an attempt after which its speed is known well enough for an estimate."""
LEFT_ALIGNED = frozenset({"run", ""})
"""The columns of text; the others are numbers."""


def run_columns(running: "Sequence[RunInFlight]") -> tuple[str, ...]:
    """Columns of a table of running runs; the nameless one is the share of steps done."""
    # All runs of a command have the same unit.
    unit = running[0].spec.unit if running else ENVIRONMENT_STEPS
    steps = "steps" if unit == ENVIRONMENT_STEPS else unit_text(unit)
    return ("run", "seed", steps, "", "evaluation", f"{steps}/s", "left")


def run_cells(run: "RunInFlight", now: float) -> tuple[str, ...]:
    """The cells of a running run, one for each of `run_columns`; `now` is on the monotonic clock."""
    total = run.spec.budget["steps"]
    trained = _trained(run)
    # At the first update almost no time has passed, which would give absurd speeds.
    speed = trained / max(now - run.since, 0.1)
    # At full steps the process still plays the final evaluation.
    left = format_duration((total - run.step) / speed) if trained else "—"
    return (
        run.spec.name,
        str(run.spec.seed),
        f"{run.step:,}",
        share_done(run),
        last_mean(run) or "—",
        f"{speed:,.0f}" if trained else "—",
        left if run.step < total else "evaluating",
    )


def _trained(run: "RunInFlight") -> int:
    """The steps that a running attempt has trained itself, without those before its checkpoint."""
    return max(run.step - run.first_step, 0)


@dataclass(slots=True)
class RunsDone:
    """How many of `total` runs have ended since the beginning, and the time that their steps took.

    Attributes:
        total: The number of runs.
        clock: A clock in seconds that never goes back.
        ended: The number of runs that ended.
        began: When the command began.
        seconds: The time that ended attempts took, each from its beginning to its end.
        steps: The steps that ended attempts trained.
        last: The attempts in progress at the last look, by the name of their run.
        most: The largest number of runs that were in progress at the same time.
    """

    total: int
    clock: Callable[[], float] = monotonic
    ended: int = 0
    began: float = field(init=False)
    seconds: float = 0.0
    steps: int = 0
    last: dict[str, "RunInFlight"] = field(default_factory=dict)
    most: int = 1

    def __post_init__(self) -> None:
        """Begin to count the time."""
        self.began = self.clock()

    def add(self, record: "RunRecord", *, again: bool) -> None:
        """Count an attempt that ended, unless another one follows."""
        self.ended += not again
        run = self.last.pop(record.spec.name, None)
        if run is not None and record.step > run.first_step:
            self.seconds += self.clock() - run.since
            self.steps += record.step - run.first_step

    def line(self, running: "Sequence[RunInFlight]", waiting: int) -> str:
        """How far all runs are and the time that is left, as text."""
        now = self.clock()
        self.last = {run.spec.name: run for run in running}
        self.most = max(self.most, len(running))
        text = f"{self.ended}/{self.total} done, {waiting} waiting, {format_duration(now - self.began)}"
        left = self._left(running, waiting, now)
        return text if left is None else f"{text}, about {format_duration(left)} left"

    def _left(self, running: "Sequence[RunInFlight]", waiting: int, now: float) -> float | None:
        """Seconds until all runs have ended; None as long as no run has trained for a while.

        The time of a step comes from the attempts alone, not from the beginning of the command: until
        the first run begins, the command imports libraries, which it does once.
        """
        measured = [run for run in running if now - run.since >= KNOWN_AFTER and _trained(run)]
        steps = self.steps + sum(map(_trained, measured))
        if not steps or not running:
            return None
        each = (self.seconds + sum(now - run.since for run in measured)) / steps
        budgets: list[int] = [run.spec.budget["steps"] for run in running]
        open_steps = [max(b - run.step, 0) for b, run in zip(budgets, running, strict=True)]
        fresh = waiting * sum(budgets) / len(budgets)
        side_by_side = min(self.most, len(running) + waiting)
        return max(each * (sum(open_steps) + fresh) / side_by_side, each * max(open_steps))
