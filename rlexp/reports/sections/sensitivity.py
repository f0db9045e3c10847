"""The section of hyperparameter sensitivity: the loss of one setting for all tasks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.analysis.setting_grids import SettingGrid, runs_of, setting_grids
from rlexp.reports.drawing.blocks import (
    REMARK_COLUMN,
    Block,
    Callout,
    SectionContent,
    Table,
    TableColumn,
    Text,
    Tone,
    Value,
    without_empty_remarks,
)
from rlexp.reports.evidence.runs import Evidence
from rlexp.stats.sensitivity.intervals import SensitivityIntervals, sensitivity_intervals
from rlexp.stats.sensitivity.sensitivity_grid import means
from rlexp.stats.sensitivity.settings import SHARE, percentile_anchors
from rlexp.stats.task_scores import min_max
from rlexp.text import format_count, format_percentage, join_first_names, join_names

ABOUT = (
    "Φ = P − C is the loss of an algorithm with one setting for all tasks: P is its score with the "
    "best setting of each task, C that of the single setting that is best on average. The "
    f"effective dimensionality d is the number of parameters that must be tuned per task to reach "
    f"{format_percentage(SHARE)} of P, while the others stay at the best setting for all tasks. Scores are "
    "normalised: over all algorithms and settings on a task, the 5th percentile is 0 and the 95th "
    "is 1."
)
OVERSTATED = (
    "These {phase} scores were also used to select the settings, so they overestimate the selected "
    "settings: P and C are the largest of noisy means. Before you rely on a setting, run it on new "
    "seeds: select by tuning seeds, and test the selected setting."
)


@dataclass(frozen=True, slots=True)
class GridSensitivity:
    """A grid of settings with its estimates, or with the reason why there are none."""

    grid: SettingGrid
    intervals: SensitivityIntervals | str


@dataclass(frozen=True, slots=True)
class SensitivitySection:
    """Tables of sensitivity, of the best settings, and of the gain from tuning per task."""

    def part(self, report: ReportContext) -> SectionContent | None:
        """Compute the part; `None` where no algorithm has several settings on several tasks."""
        grids = setting_grids(report.evidence)
        if not grids:
            return None
        every = [GridSensitivity(grid, _estimated(grid, report)) for grid in grids]
        phase = report.evidence.phase
        blocks: list[Block] = [*_left_out(grids), *_impossible(every)]
        estimated = [
            (item.grid, item.intervals) for item in every if not isinstance(item.intervals, str)
        ]
        if estimated:
            overstated = Callout(tone=Tone.WARNING, text=OVERSTATED.format(phase=phase))
            tables = (_table(estimated), _best(estimated), _retuned(estimated))
            blocks = [Text(text=ABOUT), overstated, *blocks, *tables]
        return SectionContent(
            name="sensitivity", title="Hyperparameter sensitivity", blocks=tuple(blocks)
        )


EstimatedGrids = Sequence[tuple[SettingGrid, SensitivityIntervals]]


def _estimated(grid: SettingGrid, report: ReportContext) -> SensitivityIntervals | str:
    bare = [
        task
        for task, column in zip(grid.tasks, grid.means.T, strict=True)
        if np.isnan(column).all()
    ]
    if bare:
        return f"no setting has a score on {join_names(bare)}"
    # Anchors come from all labels on the tasks, so that algorithms share one scale.
    try:
        low, high = percentile_anchors([_of_every_label(grid.tasks, report.evidence)])
        # The new axis aligns anchors, of shape (tasks,), with runs of (settings, tasks, runs).
        runs = min_max(grid.runs, low[:, np.newaxis], high[:, np.newaxis])
        return sensitivity_intervals(runs, grid.levels, report.settings.curve_resampling)
    except ValueError as error:
        return str(error)


def _of_every_label(tasks: Sequence[str], evidence: Evidence) -> NDArray[np.float64]:
    """Mean scores of all labels, in the grid or not, of shape (labels, tasks)."""
    return means(runs_of(evidence.labels, tasks, evidence.cells))


def _left_out(grids: Sequence[SettingGrid]) -> Iterator[Callout]:
    for grid in grids:
        if grid.left_out:
            text = f"Not among the settings of {grid.name}: {'; '.join(grid.left_out)}."
            yield Callout(tone=Tone.WARNING, text=text)
        if grid.failed:
            text = (
                f"{join_first_names(grid.failed)}: a run failed finally, so the setting counts as not run "
                "on the task. The mean of its other runs would describe it only when it works."
            )
            yield Callout(tone=Tone.WARNING, text=text)


def _impossible(every: Sequence[GridSensitivity]) -> Iterator[Callout]:
    """Warnings about absent sensitivities and intervals, one for each reason."""
    names_by_reason: dict[tuple[str, str], list[str]] = {}
    for item in every:
        if isinstance(item.intervals, str):
            names_by_reason.setdefault(("sensitivity", item.intervals), []).append(item.grid.name)
        elif item.intervals.tuned.reason:
            names_by_reason.setdefault(("interval", item.intervals.tuned.reason), []).append(
                item.grid.name
            )
    for (what, reason), names in names_by_reason.items():
        yield Callout(tone=Tone.WARNING, text=f"No {what} for {join_names(names)}: {reason}.")


def _table(estimated: EstimatedGrids) -> Table:
    table = Table(
        name="sensitivity",
        title="Hyperparameter sensitivity and effective dimensionality",
        columns=(
            TableColumn(title="algorithm"),
            TableColumn(title="settings"),
            TableColumn(title="tasks", digits=0),
            TableColumn(title="runs per setting"),
            TableColumn(title="P (best setting per task)", digits=3),
            TableColumn(title="C (one setting for all tasks)", digits=3),
            TableColumn(title="sensitivity Φ", digits=3),
            TableColumn(title="dimensionality d", digits=0),
            TableColumn(title="parameters", digits=0),
            REMARK_COLUMN,
        ),
        rows=tuple(_row(grid, intervals) for grid, intervals in estimated),
        note="Settings: with a score on every task, of all settings. P uses every setting that ran "
        "on a task, C and d those that ran on all tasks; a setting with a finally failed run "
        "counts as not run. Intervals are corrected for the selection bias of P and C, and may "
        "therefore not contain them.",
    )
    return without_empty_remarks(table)


def _row(grid: SettingGrid, intervals: SensitivityIntervals) -> tuple[Value, ...]:
    settings = f"{grid.complete:,} of {len(grid.labels):,}"
    return (
        grid.name,
        settings,
        len(grid.tasks),
        _counts(grid),
        intervals.tuned,
        intervals.cross_tuned,
        intervals.sensitivity,
        intervals.dimensionality,
        len(grid.parameters),
        _remark(intervals),
    )


def _remark(intervals: SensitivityIntervals) -> str | None:
    """Reasons for missing values of a row; a reason for the whole row has a notice, too."""
    if intervals.tuned.reason:
        return intervals.found.reason
    remarks = (
        [f"no interval of Φ: {intervals.sensitivity.reason}"]
        if intervals.sensitivity.reason
        else []
    )
    if intervals.dimensionality is None:
        remarks.append(f"no d: {intervals.found.reason}")
    elif intervals.dimensionality.reason:
        remarks.append(f"no interval of d: {intervals.dimensionality.reason}")
    return "; ".join(remarks) or None


def _counts(grid: SettingGrid) -> str:
    counts = np.isfinite(grid.runs).sum(axis=-1)
    ran = counts[counts > 0]
    return "–".join(dict.fromkeys(f"{count:,}" for count in (ran.min(), ran.max())))


def _best(estimated: EstimatedGrids) -> Table:
    return Table(
        name="sensitivity-settings",
        title="The best settings",
        columns=(
            TableColumn(title="algorithm"),
            TableColumn(title="best on"),
            TableColumn(title="label", label=True),
            TableColumn(title="normalised score", digits=3),
            TableColumn(title="mean score"),
        ),
        rows=tuple(row for grid, intervals in estimated for row in _best_rows(grid, intervals)),
        note="Settings that ran. The first row of each algorithm is the best setting for all "
        "tasks, among those that ran on all tasks.",
    )


def _best_rows(grid: SettingGrid, intervals: SensitivityIntervals) -> Iterator[tuple[Value, ...]]:
    sensitivity = intervals.found
    yield (
        grid.name,
        "all tasks, on average",
        grid.labels[sensitivity.best],
        sensitivity.cross_tuned,
        None,
    )
    raw = grid.means
    for column, (task, row) in enumerate(zip(grid.tasks, sensitivity.best_by_task, strict=True)):
        yield (
            grid.name,
            task,
            grid.labels[row],
            sensitivity.best_scores[column],
            float(-raw[row, column] if task in grid.minimised else raw[row, column]),
        )


def _retuned(estimated: EstimatedGrids) -> Table:
    return Table(
        name="sensitivity-parameters",
        title="Gain from tuning parameters per task",
        columns=(
            TableColumn(title="algorithm"),
            TableColumn(title="parameters tuned per task"),
            TableColumn(title="which parameters"),
            TableColumn(title="score", digits=3),
            TableColumn(title="share of P", digits=3),
        ),
        rows=tuple(row for grid, intervals in estimated for row in _retuned_rows(grid, intervals)),
        note="For each number of parameters, those that gain the most; the others stay at the best "
        "setting for all tasks.",
    )


def _retuned_rows(
    grid: SettingGrid, intervals: SensitivityIntervals
) -> Iterator[tuple[Value, ...]]:
    sensitivity = intervals.found
    for count, (score, subset) in enumerate(
        zip(sensitivity.retuned, sensitivity.subsets, strict=True)
    ):
        names = join_names(grid.parameters[column] for column in subset) or "none"
        share = score / sensitivity.tuned if sensitivity.tuned > 0 else None
        tuned = f"{count} of {format_count(len(grid.parameters), 'parameter')}"
        yield grid.name, tuned, names, score, share
