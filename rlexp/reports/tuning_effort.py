"""Whether labels were tuned with the same effort."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import fsum

from rlexp.protocol.seeds import Phase
from rlexp.reports.analysis.sweep_tables import test_cell
from rlexp.reports.drawing.blocks import Notice, Tone
from rlexp.reports.evidence.runs import Cell, Evidence
from rlexp.reports.evidence.sweeps import SweepEvidence
from rlexp.reports.sentences import counted, listed

SAME = 1.1
"""Ratio up to which environment steps are the same: pruning and failures make some difference."""
SEARCH = ("tuning", "selection")
"""Phases whose runs choose a configuration."""


@dataclass(frozen=True, slots=True)
class Effort:
    """What was spent on finding a label's configuration."""

    trials: int
    steps: int

    def __str__(self) -> str:
        """In a sentence."""
        return f"{self.steps:,} environment steps in {counted(self.trials, 'trial')}"


def effort(own: SweepEvidence) -> Effort:
    """What a sweep spent on tuning and selection."""
    steps = sum(cost.steps for phase, cost in own.costs.items() if phase in SEARCH)
    return Effort(len(own.trials), steps)


def full_runs(own: SweepEvidence) -> float:
    """Full-run equivalents: a configuration at the full budget is one, whatever its seeds."""
    shares = [t.spent / (len(t.runs) * own.steps) for t in own.trials if t.runs]
    return fsum(min(share, 1.0) for share in shares)


def efforts(evidence: Evidence, task: str) -> dict[str, Effort | None]:
    """What was spent on each label of a task; nothing for one that no sweep here found.

    Default configurations of sweeps are left out: they are not tuned by design. Of runs that are
    not of the test phase nothing is said.
    """
    if evidence.phase is not Phase.TEST:
        return {}
    winners = [(test_cell(own, evidence, tuned=True), own) for own in evidence.sweeps]
    defaults = [test_cell(own, evidence, tuned=False) for own in evidence.sweeps]
    found: dict[str, Effort | None] = {}
    for cell in evidence.of_task(task):
        own = next((sweep for winner, sweep in winners if winner is cell), None)
        if own is not None or not _among(cell, defaults):
            found[cell.label] = None if own is None else effort(own)
    return found


def untuned(evidence: Evidence) -> tuple[str, ...]:
    """Labels that no sweep here found, and that are no sweep's default either."""
    found = {
        label
        for task in evidence.tasks
        for label, spent in efforts(evidence, task).items()
        if spent is None
    }
    return tuple(label for label in evidence.labels if label in found)


def tuned_unequally(evidence: Evidence) -> Iterator[Notice]:
    """A warning for each task on which labels were not tuned with the same effort."""
    if not evidence.sweeps:
        return
    for task in evidence.tasks:
        spent = efforts(evidence, task)
        tuned = {label: one for label, one in spent.items() if one is not None}
        bare = [label for label in spent if label not in tuned]
        if tuned and bare:
            were = "was" if len(tuned) == 1 else "were"
            yield _warning(
                f"On {task} {listed(tuned)} {were} tuned, and {listed(bare)} "
                f"{'was' if len(bare) == 1 else 'were'} not, as far as these records tell. So the "
                "difference may be that of tuning."
            )
        if are_unequal(list(tuned.values())):
            told = "; ".join(f"{label} with {one}" for label, one in tuned.items())
            yield _warning(
                f"On {task} labels were tuned with different budgets: {told}. So whoever searched "
                "longer has an advantage."
            )


def are_unequal(spent: list[Effort]) -> bool:
    """Whether they differ by more than pruning and failures explain."""
    steps = [one.steps for one in spent]
    return bool(steps) and max(steps) > SAME * min(steps)


def _among(cell: Cell, cells: list[Cell | None]) -> bool:
    return any(one is cell for one in cells)


def _warning(text: str) -> Notice:
    return Notice(tone=Tone.WARNING, text=text)
