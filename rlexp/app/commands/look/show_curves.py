"""The small learning curves below the scores of `rlexp show EXPERIMENT`."""

import shlex
from dataclasses import dataclass, replace

from rlexp.app.commands.look.plot import PlotRequest, PlottedBand, PlottedTask, plot
from rlexp.app.commands.look.show import ExperimentDetails
from rlexp.app.reading.summary import PhaseSummary
from rlexp.app.workspace import Workspace
from rlexp.errors import RlexpError
from rlexp.protocol.seeds import Phase
from rlexp.reports.drawing.blocks import LineFigure
from rlexp.text import format_count

MOST_RUNS = 200
"""Most runs whose curves are read: more would make the command slow."""
MOST_LABELS = 8
"""Most labels in one small figure."""
MOST_TASKS = 4
"""Most tasks with a small figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallCurves:
    """The learning curves of an experiment, without bands and without single runs.

    Attributes:
        figures: A figure for each task with at least two evaluations, with a line for each label.
        notes: For each figure, the number of runs of each label.
        aggregate: What a line is (`interquartile mean`).
        command: The command that draws all curves with their bands.
    """

    figures: tuple[LineFigure, ...] = ()
    notes: tuple[dict[str, str], ...] = ()
    aggregate: str = ""
    command: str = ""


def small_curves(details: ExperimentDetails, workspace: Workspace) -> SmallCurves:
    """The learning curves of an experiment in its last phase, with the numbers of `rlexp plot`.

    There are none where no run was evaluated twice, and where runs or labels are many.
    """
    if not details.phases or not _is_small(details.phases[-1]):
        return SmallCurves()
    phase = details.phases[-1].phase
    try:
        plotted = plot(PlotRequest(targets=(details.experiment,), phase=phase), workspace)
    except RlexpError:
        # `rlexp plot` says why there is no curve. The scores are shown in any case.
        return SmallCurves()
    drawn = [task for task in plotted.tasks if _has_curve(task)][:MOST_TASKS]
    if not drawn:
        return SmallCurves()
    named = [] if phase == Phase.TEST else ["--phase", phase]
    return SmallCurves(
        figures=tuple(_without_bands(task.figure) for task in drawn),
        notes=tuple({band.label: _runs(band) for band in task.bands} for task in drawn),
        aggregate=drawn[0].bands[0].aggregate,
        command=shlex.join(["rlexp", "plot", details.experiment, *named, *workspace.permission]),
    )


def _is_small(summary: PhaseSummary) -> bool:
    labels = {cell.label for cell in summary.cells}
    return len(summary.runs) <= MOST_RUNS and len(labels) <= MOST_LABELS


def _runs(band: PlottedBand) -> str:
    return f"{band.label}: {band.n} of {format_count(band.planned, 'run')}"


def _has_curve(task: PlottedTask) -> bool:
    """Whether any label has at least two points."""
    return any(len(line.x) > 1 for line in task.figure.lines if not line.faint)


def _without_bands(figure: LineFigure) -> LineFigure:
    lines = [replace(line, low=None, high=None) for line in figure.lines if not line.faint]
    return replace(figure, lines=tuple(lines))
