"""Hyperparameter sensitivity: what an algorithm loses where it is not tuned for each task."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlexp.reports.analysis.inquiry import Inquiry
from rlexp.reports.analysis.setting_grids import SettingGrid, runs_of, setting_grids
from rlexp.reports.drawing.blocks import (
    REMARK,
    Block,
    Column,
    Notice,
    Part,
    Table,
    Text,
    Tone,
    Value,
    remarked,
)
from rlexp.reports.evidence.runs import Evidence
from rlexp.stats.sensitivity.intervals import SensitivityIntervals, sensitivity_intervals
from rlexp.stats.sensitivity.setting_runs import means
from rlexp.stats.sensitivity.settings import SHARE, percentile_anchors
from rlexp.stats.task_scores import min_max
from rlexp.text import counted, listed, per_cent, shortened

ABOUT = (
    "Φ = P − C is what an algorithm loses by one setting for all tasks: P is its score with the "
    "best setting of each task, C that of the one setting that is best on average. The effective "
    f"dimensionality d is how many parameters must be tuned for each task to reach "
    f"{per_cent(SHARE)} of P, the others staying at the best setting for all tasks. Scores are "
    "normalised: of all algorithms and settings on a task, the 5th percentile is 0 and the 95th is 1."
)
OVERSTATED = (
    "These {phase} scores were used to pick the settings that they stand for, so they overstate "
    "what those settings are worth: P and C are the largest of noisy means. Before a setting is "
    "relied on, run it again on fresh seeds; choose by tuning seeds, and test what was chosen."
)


@dataclass(frozen=True, slots=True)
class Estimated:
    """A grid and what its scores say; or why they say nothing."""

    grid: SettingGrid
    found: SensitivityIntervals | str


@dataclass(frozen=True, slots=True)
class HyperparameterSensitivity:
    """Tables of sensitivity, of the best settings, and of what re-tuning gains."""

    def part(self, inquiry: Inquiry) -> Part | None:
        """Compute the part; nothing where no algorithm has several settings on several tasks."""
        grids = setting_grids(inquiry.evidence)
        if not grids:
            return None
        every = [Estimated(grid, _estimated(grid, inquiry)) for grid in grids]
        phase = inquiry.evidence.phase
        blocks: list[Block] = [*_left_out(grids), *_impossible(every)]
        known = [(own.grid, own.found) for own in every if not isinstance(own.found, str)]
        if known:
            overstated = Notice(tone=Tone.WARNING, text=OVERSTATED.format(phase=phase))
            tables = (_table(known), _best(known), _retuned(known))
            blocks = [Text(text=ABOUT), overstated, *blocks, *tables]
        return Part(name="sensitivity", title="Hyperparameter sensitivity", blocks=tuple(blocks))


Known = Sequence[tuple[SettingGrid, SensitivityIntervals]]


def _estimated(grid: SettingGrid, inquiry: Inquiry) -> SensitivityIntervals | str:
    bare = [
        task
        for task, column in zip(grid.tasks, grid.means.T, strict=True)
        if np.isnan(column).all()
    ]
    if bare:
        return f"no setting has a score on {listed(bare)}"
    try:
        low, high = percentile_anchors([_of_every_label(grid.tasks, inquiry.evidence)])
        runs = min_max(grid.runs, low[:, np.newaxis], high[:, np.newaxis])
        return sensitivity_intervals(runs, grid.levels, inquiry.settings.curve_resampling)
    except ValueError as error:
        return str(error)


def _of_every_label(tasks: Sequence[str], evidence: Evidence) -> NDArray[np.float64]:
    """Mean scores of all labels, settings of the grid or not, of shape (labels, tasks)."""
    return means(runs_of(evidence.labels, tasks, evidence.cells))


def _left_out(grids: Sequence[SettingGrid]) -> Iterator[Notice]:
    for grid in grids:
        if grid.left_out:
            text = f"Not among the settings of {grid.name}: {'; '.join(grid.left_out)}."
            yield Notice(tone=Tone.WARNING, text=text)
        if grid.failed:
            text = (
                f"{shortened(grid.failed)}: a run ended there for good without a score, so the "
                "setting counts as one that did not run on the task; its other runs would only "
                "show how good it is when it works."
            )
            yield Notice(tone=Tone.WARNING, text=text)


def _impossible(every: Sequence[Estimated]) -> Iterator[Notice]:
    """Why there is no sensitivity, or no interval: once for all algorithms that it is true of."""
    told: dict[tuple[str, str], list[str]] = {}
    for own in every:
        if isinstance(own.found, str):
            told.setdefault(("sensitivity", own.found), []).append(own.grid.name)
        elif own.found.tuned.reason:
            told.setdefault(("interval", own.found.tuned.reason), []).append(own.grid.name)
    for (what, reason), names in told.items():
        yield Notice(tone=Tone.WARNING, text=f"No {what} for {listed(names)}: {reason}.")


def _table(known: Known) -> Table:
    table = Table(
        name="sensitivity",
        title="Hyperparameter sensitivity and effective dimensionality",
        columns=(
            Column(title="algorithm"),
            Column(title="settings"),
            Column(title="tasks", digits=0),
            Column(title="runs of each"),
            Column(title="tuned for each task: P", digits=3),
            Column(title="one setting for all: C", digits=3),
            Column(title="sensitivity Φ", digits=3),
            Column(title="dimensionality d", digits=0),
            Column(title="of", digits=0),
            REMARK,
        ),
        rows=tuple(_row(grid, found) for grid, found in known),
        note="Settings: with a score on every task, of all. P takes every setting that ran on a "
        "task, C and d those that ran on all of them; where a run of it failed for good, a setting "
        "did not run. Intervals are corrected for what P and C overstate, and so may lie beside them.",
    )
    return remarked(table)


def _row(grid: SettingGrid, found: SensitivityIntervals) -> tuple[Value, ...]:
    settings = f"{grid.complete:,} of {len(grid.labels):,}"
    return (
        grid.name,
        settings,
        len(grid.tasks),
        _counts(grid),
        found.tuned,
        found.cross_tuned,
        found.sensitivity,
        found.dimensionality,
        len(grid.parameters),
        _remark(found),
    )


def _remark(found: SensitivityIntervals) -> str | None:
    """What is missing from the row alone; what is missing from all of it has a notice."""
    if found.tuned.reason:
        return found.found.reason
    told = [f"no interval of Φ: {found.sensitivity.reason}"] if found.sensitivity.reason else []
    if found.dimensionality is None:
        told.append(f"no d: {found.found.reason}")
    elif found.dimensionality.reason:
        told.append(f"no interval of d: {found.dimensionality.reason}")
    return "; ".join(told) or None


def _counts(grid: SettingGrid) -> str:
    counts = np.isfinite(grid.runs).sum(axis=-1)
    ran = counts[counts > 0]
    return "–".join(dict.fromkeys(f"{count:,}" for count in (ran.min(), ran.max())))


def _best(known: Known) -> Table:
    return Table(
        name="sensitivity-settings",
        title="The best settings",
        columns=(
            Column(title="algorithm"),
            Column(title="best on"),
            Column(title="label", label=True),
            Column(title="normalised score", digits=3),
            Column(title="mean score"),
        ),
        rows=tuple(row for grid, found in known for row in _best_rows(grid, found)),
        note="Of the settings that ran. The first one of each algorithm is the one for all tasks, "
        "of those that ran on all of them.",
    )


def _best_rows(grid: SettingGrid, found: SensitivityIntervals) -> Iterator[tuple[Value, ...]]:
    own = found.found
    yield grid.name, "all tasks, on average", grid.labels[own.best], own.cross_tuned, None
    raw = grid.means
    for place, (task, row) in enumerate(zip(grid.tasks, own.best_by_task, strict=True)):
        yield grid.name, task, grid.labels[row], own.best_scores[place], float(raw[row, place])


def _retuned(known: Known) -> Table:
    return Table(
        name="sensitivity-parameters",
        title="What tuning parameters for each task gains",
        columns=(
            Column(title="algorithm"),
            Column(title="parameters tuned for each task"),
            Column(title="which"),
            Column(title="score", digits=3),
            Column(title="share of P", digits=3),
        ),
        rows=tuple(row for grid, found in known for row in _retuned_rows(grid, found)),
        note="Those that gain the most, of as many; the others stay at the best setting for all "
        "tasks.",
    )


def _retuned_rows(grid: SettingGrid, found: SensitivityIntervals) -> Iterator[tuple[Value, ...]]:
    own = found.found
    for count, (score, subset) in enumerate(zip(own.retuned, own.subsets, strict=True)):
        names = listed(grid.parameters[place] for place in subset) or "none"
        share = score / own.tuned if own.tuned > 0 else None
        told = f"{count} of {counted(len(grid.parameters), 'parameter')}"
        yield grid.name, told, names, score, share
