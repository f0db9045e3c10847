"""Grids of settings: labels with the same algorithm and different hyperparameter values."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlexp.protocol.identity import PLUG_IN, TARGET, canonical, full_name, short_name
from rlexp.records.run import State
from rlexp.reports.evidence.runs import Evidence, LabelTaskRuns
from rlexp.reports.evidence.sweeps import learning_parts
from rlexp.stats.sensitivity.sensitivity_grid import means
from rlexp.text import join_first_names

Array = NDArray[np.float64]
Values = Mapping[str, Any]
"""Settings of a configuration by path (`algorithm.learning_rate`)."""
Rank = tuple[int, float, str]

UNSET: Rank = (0, 0.0, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingGrid:
    """The settings of one algorithm in one experiment.

    Attributes:
        name: Name of the algorithm.
        tasks: Names of the T tasks, sorted.
        labels: The S labels, sorted by their levels.
        parameters: The p paths that differ among labels; paths that always change together are
            one parameter.
        levels: Of shape (S, p): rank of each label's value among the values of the parameter.
        runs: Scores, rising, of shape (S, T, n); NaN where there are fewer than n, and for all n
            where a setting did not run on a task.
        minimised: Tasks whose lower scores are better; their runs have reversed signs.
        failed: Settings that count as not run because a run failed (`LABEL on TASK`).
        left_out: Labels that are no setting of the grid, each with the reason.
    """

    name: str
    tasks: tuple[str, ...]
    labels: tuple[str, ...]
    parameters: tuple[str, ...]
    levels: Array
    runs: Array
    minimised: frozenset[str] = frozenset()
    failed: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def complete(self) -> int:
        """Number of settings with a score on every task."""
        return int(np.isfinite(self.means).all(axis=1).sum())

    @property
    def means(self) -> Array:
        """Mean score of each setting on each task, of shape (S, T)."""
        return means(self.runs)


def setting_grids(evidence: Evidence) -> tuple[SettingGrid, ...]:
    """Every grid of at least two settings over at least two tasks.

    Sweeps are left out, because a tuner chose their settings.
    """
    swept = {sweep.experiment for sweep in evidence.sweeps}
    by_name: dict[str, list[LabelTaskRuns]] = {}
    for cell in evidence.cells.values():
        if cell.members[0].experiment not in swept:
            algorithm = cell.members[0].record.spec.algorithm
            # Two packages may have algorithms of the same short name.
            name = canonical([algorithm.get(PLUG_IN), short_name(algorithm)])
            by_name.setdefault(name, []).append(cell)
    grids = [
        grid
        for cells in by_name.values()
        for suffix, home in _studies(cells).items()
        if (grid := _grid(home, suffix))
    ]
    return tuple(sorted(grids, key=lambda grid: (grid.name, grid.labels)))


def _studies(cells: Sequence[LabelTaskRuns]) -> dict[str, list[LabelTaskRuns]]:
    """Group the cells of an algorithm into studies, by the words that name the experiment.

    Experiments that share no task are one study. Experiments that share a task are one study each.
    """
    tasks: dict[str, set[str]] = {}
    for cell in cells:
        tasks.setdefault(cell.members[0].experiment, set()).add(cell.task)
    # Pooling experiments that share a task would count that task twice.
    if sum(map(len, tasks.values())) == len(set().union(*tasks.values())):
        return {"": list(cells)}
    return {f" of {name}": [c for c in cells if c.members[0].experiment == name] for name in tasks}


def usable_scores(cell: LabelTaskRuns) -> Array:
    """Rising merits of a setting on a task, of shape (n,); empty where a run failed finally.

    The mean of the successful runs alone would overestimate a setting that often fails.
    """
    return np.empty(0) if _lost(cell) else cell.merits


def _lost(cell: LabelTaskRuns) -> bool:
    """Whether a finally ended run has no score, not even the task's minimum."""
    ended = sum(
        member.record.scoreless or member.record.state is State.COMPLETED
        for member in cell.members
    )
    return cell.n < ended


def runs_of(
    labels: Sequence[str], tasks: Sequence[str], cells: Mapping[tuple[str, str], LabelTaskRuns]
) -> Array:
    """Scores of labels on tasks, of shape (S, T, n), rising; NaN where there are fewer than n."""
    row_of = {label: row for row, label in enumerate(labels)}
    rows = [
        (row_of[label], tasks.index(task), usable_scores(cell))
        for (label, task), cell in cells.items()
        if label in row_of and task in tasks
    ]
    longest = max(1, *(len(scores) for _, _, scores in rows))
    table = np.full((len(labels), len(tasks), longest), np.nan)
    for row, column, scores in rows:
        table[row, column, : len(scores)] = scores
    return table


def _grid(grid_cells: Sequence[LabelTaskRuns], suffix: str) -> SettingGrid | None:
    cells: dict[str, list[LabelTaskRuns]] = {}
    for cell in grid_cells:
        cells.setdefault(cell.label, []).append(cell)
    settings, left_out = _settings(cells)
    tasks = sorted({cell.task for label in settings for cell in cells[label]})
    ranks = _parameters(settings)
    if len(tasks) < 2 or not ranks:
        return None
    codes = {label: tuple(levels[label] for levels in ranks.values()) for label in settings}
    labels = sorted(settings, key=lambda label: codes[label])
    runs = runs_of(labels, tasks, {(cell.label, cell.task): cell for cell in grid_cells})
    return SettingGrid(
        name=f"{short_name(grid_cells[0].members[0].record.spec.algorithm)}{suffix}",
        tasks=tuple(tasks),
        labels=tuple(labels),
        parameters=tuple(ranks),
        levels=np.array([codes[label] for label in labels], dtype=np.float64),
        runs=runs,
        minimised=frozenset(cell.task for cell in grid_cells if cell.lower_is_better),
        failed=tuple(
            f"{label} on {cell.task}" for label in labels for cell in cells[label] if _lost(cell)
        ),
        left_out=tuple(left_out),
    )


def _settings(cells: Mapping[str, Sequence[LabelTaskRuns]]) -> tuple[dict[str, Values], list[str]]:
    """The settings of each label, and reasons for the labels that are left out."""
    settings: dict[str, Values] = {}
    homes: dict[str, list[str]] = {}
    left_out = []
    for label in sorted(cells):
        values = [_values_of(cell) for cell in cells[label]]
        if any(canonical(task_values) != canonical(values[0]) for task_values in values):
            left_out.append(f"{label} has different values on different tasks")
            continue
        settings[label] = values[0]
        homes.setdefault(canonical(values[0]), []).append(label)
    for same in homes.values():
        if len(same) > 1:
            left_out.append(
                f"{join_first_names(same)} have equal values of agent and algorithm, and differ in other "
                "settings"
            )
            for label in same:
                del settings[label]
    return settings, left_out


def _values_of(cell: LabelTaskRuns) -> Values:
    parts = learning_parts(cell.members[0].record.spec)
    return {key: value for name, part in parts.items() for key, value in _leaves(part, name)}


def _leaves(settings: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(settings, Mapping):
        if PLUG_IN in settings:
            yield path, full_name(settings[PLUG_IN])
        for key in sorted(set(settings) - {TARGET, PLUG_IN}):
            yield from _leaves(settings[key], f"{path}.{key}")
    elif settings is not None:
        yield path, settings


def _parameters(settings: Mapping[str, Values]) -> dict[str, dict[str, int]]:
    """The level of each label by parameter, with parameters that change together joined."""
    together: dict[tuple[int, ...], tuple[list[str], dict[str, int]]] = {}
    for path in sorted({path for label_settings in settings.values() for path in label_settings}):
        ranks = {
            label: _rank(label_settings.get(path)) for label, label_settings in settings.items()
        }
        order = sorted(set(ranks.values()))
        # A constant setting is no parameter; equal partitions of the labels are one parameter,
        # because their effects cannot be separated.
        if len(order) > 1:
            levels = {label: order.index(rank) for label, rank in ranks.items()}
            together.setdefault(_partition(levels), ([], levels))[0].append(path)
    return {" with ".join(paths): levels for paths, levels in together.values()}


def _rank(value: Any) -> Rank:
    """Sort key of a value: unset values first, then numbers, then other values."""
    if value is None:
        return UNSET
    # bool is a subclass of int, and is no number here.
    if isinstance(value, int | float) and not isinstance(value, bool):
        return 1, float(value), ""
    return 2, 0.0, canonical(value)


def _partition(levels: Mapping[str, int]) -> tuple[int, ...]:
    """Partition of the labels by level: for each label, the index of the first with its level."""
    first: dict[int, int] = {}
    return tuple(
        first.setdefault(levels[label], position) for position, label in enumerate(sorted(levels))
    )
