"""Further measures of final episodes: of each run the mean over its episodes, then over the runs."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rlexp.metrics.estimate import Ends, Estimate
from rlexp.reports.analysis.generalisation import SHARES, absent, over_runs
from rlexp.reports.analysis.held_out_episodes import (
    Final,
    FinalEpisodes,
    everything,
    final_episodes,
    measure_names,
    measured,
)
from rlexp.reports.context_tests import mixed
from rlexp.reports.evidence.runs import Cell
from rlexp.reports.sentences import counted
from rlexp.reports.settings import Settings

FIRST = ("success", "cost", "violations")
"""Measures that stand before others, which follow by name."""
COUNTED = ("cost", "violations")
"""Those of which there cannot be less than none, as of their parts (`cost/speed`)."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One measure of a label on a task.

    Attributes:
        n: Runs that have it in their final evaluation.
        held_out: In the final evaluation, which is the test.
        in_distribution: On what training had, where that was played.
        runs: Means of the runs in the final evaluation, rising.
        ends: What is possible of it.
        remark: What the numbers lack, in words.
    """

    name: str
    cell: Cell
    n: int
    held_out: Estimate | None = None
    in_distribution: Estimate | None = None
    runs: tuple[float, ...] = ()
    ends: Ends = (None, None)
    remark: str | None = None


def measures(cells: Sequence[Cell], settings: Settings) -> Iterator[Measured]:
    """Every measure of the labels on one task, labels innermost."""
    runs = [(cell, final_episodes(cell)) for cell in cells]
    for name in ordered(measure_names(everything(run for _, own in runs for run in own))):
        ends = _possible(name, [run for _, own in runs for run in own])
        for cell, own in runs:
            yield _measured(name, cell, own, settings, ends)


def ordered(names: Iterable[str]) -> list[str]:
    """Names of measures as a reader looks for them; `cost/speed` follows `cost`."""

    def place(name: str) -> int:
        kind = name.partition("/")[0]
        return FIRST.index(kind) if kind in FIRST else len(FIRST)

    return sorted(names, key=lambda name: (place(name), name))


def _measured(
    name: str, cell: Cell, runs: Sequence[FinalEpisodes], settings: Settings, ends: Ends
) -> Measured:
    if reason := mixed(runs):
        return Measured(name, cell, 0, remark=reason)
    held_out = _means(name, [run.held_out for run in runs])
    known = _means(name, [run.in_distribution for run in runs])
    remark = absent(cell, len(held_out), "without it")
    if known and len(known) < len(held_out):
        remark = "; ".join(
            filter(None, [remark, f"in distribution: {counted(len(known), 'run')}"])
        )
    return Measured(
        name,
        cell,
        len(held_out),
        over_runs(held_out, settings, ends) if held_out else None,
        over_runs(known, settings, ends) if known else None,
        tuple(sorted(held_out)),
        ends,
        remark,
    )


def _means(name: str, events: Sequence[Final | None]) -> list[float]:
    found = [measured(event, name) for event in events]
    return [float(values.mean()) for values in found if len(values)]


def _possible(name: str, runs: Sequence[FinalEpisodes]) -> Ends:
    """Success is no less than 0 and no more than 1 where all of it is; a count is no less than 0."""
    values = [v for event in everything(runs) for v in measured(event, name).tolist()]
    if name == "success" and all(0 <= value <= 1 for value in values):
        return SHARES
    from_none = name.partition("/")[0] in COUNTED
    return (0.0, None) if from_none and min(values, default=0.0) >= 0 else (None, None)
