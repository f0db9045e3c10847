"""Figures of returns over context parameters: lines over one parameter, heat maps over two."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, pairwise

import numpy as np
from numpy.typing import NDArray

from rlexp.errors import ConfigError, did_you_mean
from rlexp.metrics.estimate_text import method_text, possible
from rlexp.records.context_returns import LEVEL
from rlexp.reports.analysis.generalisation import mean_over_runs
from rlexp.reports.analysis.held_out_episodes import ContextTests, PlayedContexts
from rlexp.reports.analysis.report_context import ReportSettings
from rlexp.reports.analysis.scale import possible_scores
from rlexp.reports.drawing.axes import tick_step, tick_texts
from rlexp.reports.drawing.blocks import Axis, FigureLine, HeatMap, LineFigure
from rlexp.stats.interval import Interval
from rlexp.text import join_names

Array = NDArray[np.float64]

MOST = 12
"""Maximal number of values with a cell each; more values share bins."""
MOST_POINTS = 100
"""Maximal number of points on a line over one parameter, if all runs share the contexts."""


@dataclass(frozen=True, slots=True)
class ContextAxis:
    """Axis of a context parameter: its single values, or bins between `edges`.

    Attributes:
        at: Values, or midpoints of bins, of shape (positions,), rising.
        edges: Edges of the bins, of shape (positions + 1,); empty without bins.
    """

    parameter: str
    at: tuple[float, ...]
    edges: tuple[float, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Text of each position: a value (`9.8`), or the ends of a bin (`9 to 10`)."""
        if not self.edges:
            return tuple(f"{value:.6g}".replace("-", "−") for value in self.at)
        return tuple(f"{a} to {b}" for a, b in pairwise(tick_texts(list(self.edges))))

    def of(self, values: Array) -> NDArray[np.int64]:
        """Index of the position of each value, of shape (values,)."""
        if not self.edges:
            return np.searchsorted(self.at, values).astype(np.int64)
        indices = np.searchsorted(self.edges, values, side="right") - 1
        # The last edge belongs to the last bin, and rounding may push a value over it.
        return np.clip(indices, 0, len(self.at) - 1).astype(np.int64)


def varied(tests: Sequence[ContextTests]) -> tuple[str, ...]:
    """Parameters with several values in the tests of a task, sorted by name."""
    names = dict.fromkeys(name for context_test in tests for name in context_test.parameters)
    return tuple(n for n in sorted(names) if n != LEVEL and len(np.unique(_values(tests, n))) > 1)


def context_axes(
    tests: Sequence[ContextTests], names: Sequence[str], bins: int
) -> list[ContextAxis]:
    """The axes of parameters, shared by all labels of a task."""
    alone = len(names) == 1
    # With fixed contexts every run has a value in every cell, so many points stay comparable.
    fixed = all(
        context_test.same and (alone or len(context_test.runs) > 1) for context_test in tests
    )
    most = MOST_POINTS if fixed and alone else MOST
    return [_places(name, tests, most, bins, fixed=fixed) for name in names]


def cells(
    tests: ContextTests, axes: Sequence[ContextAxis], settings: ReportSettings
) -> dict[tuple[int, ...], Interval]:
    """Mean return over runs in each cell with an episode, by its indices on the axes.

    The contexts of a run in the same cell have the same weight.
    """
    values: dict[tuple[int, ...], list[float]] = {}
    columns = [tests.parameters.index(axis.parameter) for axis in axes]
    for run in tests.runs:
        for cell, value in _means(run, columns, axes).items():
            values.setdefault(cell, []).append(value)
    ends = possible_scores([tests.cell], None)
    return {
        cell: mean_over_runs(values[cell], settings, ends, resampling=settings.curve_resampling)
        for cell in sorted(values)
    }


def _means(
    run: PlayedContexts, columns: Sequence[int], axes: Sequence[ContextAxis]
) -> dict[tuple[int, ...], float]:
    placed = [axis.of(run.contexts[:, k]) for k, axis in zip(columns, axes, strict=True)]
    gathered: dict[tuple[int, ...], list[float]] = {}
    for cell, value in zip(zip(*placed, strict=True), run.means, strict=True):
        gathered.setdefault(tuple(map(int, cell)), []).append(float(value))
    # fsum gives the same mean in any order of the contexts.
    return {cell: math.fsum(values) / len(values) for cell, values in gathered.items()}


def _places(
    name: str, tests: Sequence[ContextTests], most: int, bins: int, *, fixed: bool
) -> ContextAxis:
    unique = np.unique(_values(tests, name))
    if len(unique) <= most and (
        fixed or all(_repeats(name, context_test) for context_test in tests)
    ):
        return ContextAxis(name, tuple(unique.tolist()))
    step = tick_step(float(unique[-1] - unique[0]) / bins)
    # The tolerance prevents an empty bin beyond an end that is a multiple of the step.
    first, last = math.floor(unique[0] / step + 1e-9), math.ceil(unique[-1] / step - 1e-9)
    # Multiples of a round step give the same edges for all labels of the task.
    edges = tuple(step * k for k in range(first, last + 1))
    return ContextAxis(name, tuple((a + b) / 2 for a, b in pairwise(edges)), edges)


def _repeats(name: str, context_test: ContextTests) -> bool:
    """Whether contexts share values of a parameter; randomly sampled contexts do not."""
    return name not in context_test.parameters or len(
        np.unique(_values([context_test], name))
    ) < len(context_test.contexts)


def _values(tests: Sequence[ContextTests], name: str) -> Array:
    """Values of a parameter in the contexts of all labels."""
    every = [t.contexts[:, t.parameters.index(name)] for t in tests if name in t.parameters]
    return np.concatenate(every)


Cells = Mapping[tuple[int, ...], Interval]
REACHED = "mean return"
SCALE = "All labels of the task share one colour scale."
EMPTY = "Empty cells had no episode."


def figures(
    tests: Sequence[ContextTests],
    settings: ReportSettings,
    chosen: tuple[str, ...] | None,
    bins: int,
) -> Iterator[LineFigure | HeatMap]:
    """Figures of every task whose test varies a parameter.

    Args:
        tests: Tests of all labels on all tasks.
        settings: Settings of the intervals.
        chosen: Parameters to show where a task has them; `None` takes the first two that vary.
        bins: Number of bins of a parameter with too many values for a cell each.

    Raises:
        ConfigError: No task has a chosen parameter.
    """
    _check(tests, chosen or ())
    numbers = count(1)
    for task in dict.fromkeys(context_test.cell.task for context_test in tests):
        task_tests = [t for t in tests if t.cell.task == task]
        names = _axes(task_tests, chosen)
        shown = [t for t in task_tests if set(names) <= set(t.parameters)]
        axes = context_axes(shown, names, bins) if names else []
        if len(axes) == 1:
            yield _line(next(numbers), shown, axes[0], settings)
        elif axes:
            cells_by_label = [cells(t, axes, settings) for t in shown]
            every = [
                cell.estimate for label_cells in cells_by_label for cell in label_cells.values()
            ]
            colour = Axis(title=REACHED, low=min(every), high=max(every))
            for t, label_cells in zip(shown, cells_by_label, strict=True):
                yield _map(next(numbers), t, axes, label_cells, colour)


def _check(tests: Sequence[ContextTests], chosen: Sequence[str]) -> None:
    varying = varied(tests)
    for name in chosen:
        if name not in varying:
            raise ConfigError(
                f"section.generalisation.parameters: no test varies {name!r}"
                f"{did_you_mean(name, varying)} (tests vary: {', '.join(varying) or 'nothing'})"
            )


def _axes(tests: Sequence[ContextTests], chosen: Sequence[str] | None) -> tuple[str, ...]:
    """One or two parameters: those chosen, if all of them vary on the task, else the first."""
    varying = varied(tests)
    requested = tuple(dict.fromkeys(chosen or ()))
    return requested if requested and set(requested) <= set(varying) else varying[:2]


def _line(
    number: int, tests: Sequence[ContextTests], axis: ContextAxis, settings: ReportSettings
) -> LineFigure:
    cells_by_label = [cells(context_test, [axis], settings) for context_test in tests]
    every = [value for label_cells in cells_by_label for value in label_cells.values()]
    how = dict.fromkeys(f"{method_text(value)}." for value in every if possible(value))
    binned = f"{len(axis.at)} bins, each drawn at its midpoint." if axis.edges else ""
    trained = dict.fromkeys(map(_trained, tests))
    note = [_runs(every), *how, binned, _averaged(tests, [axis]), *trained]
    return LineFigure(
        name=f"generalisation-map-{number}",
        title=f"{tests[0].cell.task}: {REACHED} by {axis.parameter}",
        x=Axis(title=axis.parameter),
        y=Axis(title=REACHED),
        lines=tuple(
            _curve(t, axis, label_cells)
            for t, label_cells in zip(tests, cells_by_label, strict=True)
        ),
        note=" ".join(filter(None, note)),
    )


def _curve(tests: ContextTests, axis: ContextAxis, label_cells: Cells) -> FigureLine:
    values = list(label_cells.values())
    some = any(map(possible, values))
    return FigureLine(
        label=tests.cell.label,
        x=tuple(axis.at[position] for (position,) in label_cells),
        y=tuple(value.estimate for value in values),
        low=tuple(value.low for value in values) if some else None,
        high=tuple(value.high for value in values) if some else None,
    )


def _map(
    number: int, tests: ContextTests, axes: Sequence[ContextAxis], label_cells: Cells, colour: Axis
) -> HeatMap:
    x, y = axes
    across, up = range(len(x.at)), range(len(y.at))
    empty = EMPTY if len(label_cells) < len(x.at) * len(y.at) else ""
    note = [
        _runs(list(label_cells.values())),
        SCALE,
        empty,
        _averaged([tests], axes),
        _trained(tests),
    ]
    return HeatMap(
        name=f"generalisation-map-{number}",
        title=f"{tests.cell.label} on {tests.cell.task}: {REACHED} by context",
        label=tests.cell.label,
        x=x.parameter,
        y=y.parameter,
        columns=x.names,
        rows=y.names,
        values=tuple(tuple(label_cells.get((i, j)) for i in across) for j in up),
        colour=colour,
        note=" ".join(filter(None, note)),
    )


def _runs(values: Sequence[Interval]) -> str:
    """Sentence with the number of runs behind each number."""
    low, high = min(v.n for v in values), max(v.n for v in values)
    return (
        f"Means over runs, n = {low}." if low == high else f"Means over runs, n = {low} to {high}."
    )


def _averaged(tests: Sequence[ContextTests], axes: Sequence[ContextAxis]) -> str:
    """Sentence about varying parameters without an axis; empty without any."""
    shown = {axis.parameter for axis in axes} | {LEVEL}
    others = [name for name in varied(tests) if name not in shown]
    return f"Averaged over {join_names(others)}." if others else ""


def _trained(tests: ContextTests) -> str:
    """Sentence with the parameter ranges of the episodes in distribution."""
    ranges = zip(tests.parameters, tests.trained, strict=True)
    shown = [f"{name} {_ends(*ends)}" for name, ends in ranges if ends and name != LEVEL]
    return f"In distribution: {join_names(shown)}." if shown else ""


def _ends(low: float, high: float) -> str:
    a, b = (f"{value:.4g}".replace("-", "−") for value in (low, high))
    return a if low == high else f"{a} to {b}"
