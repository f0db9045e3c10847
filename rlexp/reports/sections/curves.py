"""Learning curves: the evaluations during training, by environment steps and by wall-clock."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rlexp.reports.analysis.curves import (
    SHOWN,
    Curves,
    Drawn,
    aggregate,
    by_seconds,
    by_steps,
    single_lines,
)
from rlexp.reports.analysis.inquiry import Inquiry
from rlexp.reports.analysis.scale import possible_scores
from rlexp.reports.drawing.blocks import Axis, Block, Lines, Part, Text
from rlexp.reports.evidence.runs import Evidence
from rlexp.text import counted

Reader = Callable[[Evidence, str, str], Curves]


@dataclass(frozen=True, slots=True)
class View:
    """One way to lay evaluations out: its name, the title of its axis, and what reads it."""

    name: str
    title: str
    axis: str
    read: Reader


STEPS = View("steps", "", "environment steps", by_steps)
SECONDS = View("time", " by wall-clock", "seconds since the start of the run", by_seconds)
ABOUT = (
    "Mean return of the evaluations during training. The thick line is the interquartile mean "
    "over runs, each carried forward from its last evaluation and never beyond it; the band "
    "holds point by point, from resampling whole runs. Thin lines are single runs. The thick line "
    "spans where all completed runs and at least half of all have been evaluated and still "
    "go on; where runs ended early it is of those that are left, which may flatter."
)
WALL_CLOCK = (
    "By wall-clock, everything since a run started counts: training, evaluations, and pauses "
    "between attempts that continue one another. It depends on the machine and on what else ran "
    "there."
)


@dataclass(frozen=True, slots=True)
class LearningCurves:
    """A figure by steps and one by wall-clock for every task."""

    def part(self, inquiry: Inquiry) -> Part | None:
        """Compute the part; nothing where no run was asked for."""
        tasks = inquiry.evidence.tasks
        if not tasks:
            return None
        blocks = [_block(inquiry, STEPS, k, task) for k, task in enumerate(tasks, 1)]
        if any(isinstance(block, Lines) for block in blocks):
            timed = [_block(inquiry, SECONDS, k, task) for k, task in enumerate(tasks, 1)]
            blocks = [Text(text=ABOUT), *blocks, Text(text=WALL_CLOCK), *timed]
        return Part(name="curves", title="Learning curves", blocks=tuple(blocks))


def _block(inquiry: Inquiry, view: View, number: int, task: str) -> Block:
    evidence = inquiry.evidence
    found = [view.read(evidence, label, task) for label in evidence.labels]
    if not any(len(curve.x) > 1 for curves in found for curve in curves.curves):
        return Text(text=_no_curve(view, found))
    drawn = [_drawn(inquiry, curves) for curves in found]
    threshold = evidence.reference(task).get("threshold")
    return Lines(
        name=f"curves-{view.name}-{number}",
        title=f"{task}{view.title}",
        x=Axis(title=view.axis, low=0.0),
        y=Axis(title="mean return"),
        lines=tuple(line for own in drawn for line in own.lines),
        marks=() if threshold is None else (("threshold", float(threshold)),),
        note=" ".join(f"{c.label}: {own.words}." for c, own in zip(found, drawn, strict=True)),
    )


def _drawn(inquiry: Inquiry, curves: Curves) -> Drawn:
    """The runs of a label, its aggregate in front of them."""
    if not curves.curves:
        return Drawn(lines=(), words=f"— ({curves.told})")
    ends = possible_scores([inquiry.evidence.cells[curves.label, curves.task]], None)
    own = aggregate([curves], inquiry.settings, ends)
    single = single_lines(curves, inquiry.settings.curve_points)
    shown = [f"{SHOWN} of its runs shown"] if len(single) < len(curves.curves) else []
    words = "; ".join([own.words, *shown, *curves.remarks])
    return Drawn(lines=(*single, *own.lines), words=words)


def _no_curve(view: View, found: Sequence[Curves]) -> str:
    """Words instead of a figure."""
    told = "; ".join(f"{curves.label}: {_few(curves)}" for curves in found)
    return (
        f"{found[0].task}{view.title}: no curve, for no run has two evaluations during training "
        f"({told})."
    )


def _few(curves: Curves) -> str:
    if not curves.curves:
        return curves.told
    return f"{len(curves.curves)} of {counted(curves.planned, 'run')} evaluated once"
