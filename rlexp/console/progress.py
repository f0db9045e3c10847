"""The progress of runs as text: the cells of a running run, and how far all runs are."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING

from rlexp.console.formatting import last_mean, share_done
from rlexp.protocol.units import ENVIRONMENT_STEPS, unit_text
from rlexp.text import format_duration

if TYPE_CHECKING:
    from rlexp.engine.run_in_flight import RunInFlight
    from rlexp.records.run import RunRecord

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
    # At the first update almost no time has passed, which would give absurd speeds.
    speed = run.step / max(now - run.since, 0.1)
    # At full steps the process still plays the final evaluation.
    left = format_duration((total - run.step) / speed) if run.step else "—"
    return (
        run.spec.name,
        str(run.spec.seed),
        f"{run.step:,}",
        share_done(run),
        last_mean(run) or "—",
        f"{speed:,.0f}" if run.step else "—",
        left if run.step < total else "evaluating",
    )


@dataclass(slots=True)
class RunsDone:
    """How many of `total` runs have ended since the beginning, and the steps that they took."""

    total: int
    ended: int = 0
    steps: int = 0
    began: float = field(default_factory=monotonic)

    def add(self, record: "RunRecord", *, again: bool) -> None:
        """Count an attempt that ended, unless another one follows."""
        self.ended += not again
        self.steps += record.spec.budget["steps"] if not again else 0

    def line(self, running: "Sequence[RunInFlight]", waiting: int) -> str:
        """How far all runs are and the time that is left, as text."""
        elapsed = monotonic() - self.began
        steps = self.steps + sum(run.step for run in running)
        text = f"{self.ended}/{self.total} done, {waiting} waiting, {format_duration(elapsed)}"
        if steps and running:
            each = running[0].spec.budget["steps"]
            left = max(self.total * each - steps, 0) * elapsed / steps
            text += f", about {format_duration(left)} left"
        return text
