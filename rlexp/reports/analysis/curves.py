"""Curves of runs over time, aligned at common points and aggregated.

A point of a curve is an evaluation in training, or a value of a logged metric.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rlexp.metrics.estimate_text import SHORT_OF_NOMINAL
from rlexp.records.run import State
from rlexp.reports.analysis.report_context import ReportSettings
from rlexp.reports.drawing.blocks import FigureLine
from rlexp.reports.evidence.runs import Evidence, LoggedSeries, PlannedRun, run_states_text
from rlexp.stats.curves import Band, align, band
from rlexp.text import format_count, format_percentage

Ends = tuple[float | None, float | None]


FEWEST = 3
"""Smallest number of runs with a band."""


SHOWN = 30
"""Maximal number of single runs of a label in a figure."""


CHANGES = 4
"""Maximal number of changes in the number of runs that the text lists one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelLines:
    """The lines of a label, and the text about the runs behind them."""

    lines: tuple[FigureLine, ...]
    description: str
    band: Band | None = None
    """The aggregate at the points of its line; `None` where there is no such point."""


Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PointNoun:
    """The words for one point of a run's curve, and for several."""

    one: str
    several: str


EVALUATIONS = PointNoun("an evaluation", "evaluations")
VALUES = PointNoun("a value", "values")


@dataclass(frozen=True, slots=True)
class RunCurve:
    """The evaluations of one run, or its values of a logged metric.

    Attributes:
        x: Environment steps, a share of them, or seconds since the run started, of shape (T,),
            rising.
        y: Mean return of each evaluation, or the values, of shape (T,); NaN where it is not finite.
        completed: Whether the run completed.
    """

    x: Array
    y: Array
    completed: bool

    @property
    def order(self) -> tuple[tuple[float, ...], tuple[float, ...], bool]:
        """Sort key by value, so that results do not depend on the order of the runs."""
        # NaN compares false with everything, which would make the order depend on the input.
        returns = np.where(np.isnan(self.y), -np.inf, self.y)
        return tuple(self.x.tolist()), tuple(returns.tolist()), self.completed


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelCurves:
    """The curves of a label on a task.

    Attributes:
        planned: Number of planned runs.
        curves: Curves of the runs with evaluations, sorted by their values.
        remarks: Missing data, as texts.
    """

    label: str
    task: str
    planned: int
    curves: tuple[RunCurve, ...]
    remarks: tuple[str, ...] = ()

    @property
    def remark(self) -> str:
        """The remarks as one text, also where no run is planned."""
        return "; ".join(self.remarks) if self.planned else "no run planned on this task"

    def scaled(self, x: float = 1.0, y: Callable[[Array], Array] = np.asarray) -> "LabelCurves":
        """The curves with x divided by `x`, and y transformed by the function `y`."""
        return replace(self, curves=tuple(replace(c, x=c.x / x, y=y(c.y)) for c in self.curves))


def aggregate_curve(
    tasks: Sequence[LabelCurves], settings: ReportSettings, ends: Ends = (None, None)
) -> LabelLines:
    """The aggregate of a label's runs over one or several tasks, with a band.

    There is no band where fewer than `FEWEST` runs are left: a band of two runs is so wide that it
    hides all other lines.

    Args:
        tasks: Curves of the label on each task, in comparable units.
        settings: Number of points and repetitions, level and seed.
        ends: Smallest and largest possible return in these units; `None` where not declared.
    """
    label, planned = tasks[0].label, sum(curves.planned for curves in tasks)
    x = common_points(tasks, settings.curve_points)
    if not len(x):
        return LabelLines(lines=(), description="no point at which half of the runs have a value")
    aligned = [align([(c.x, c.y) for c in curves.curves], x) for curves in tasks]
    curve_band = band(
        aligned,
        settings.curve_resampling,
        method=settings.interval,
        middle=settings.interquartile_mean,
    )
    shown = curve_band.runs >= FEWEST
    some = not curve_band.reason and bool(shown.any())
    low, high = _cut(curve_band, shown, ends)
    line = FigureLine(
        label=label,
        x=tuple(x.tolist()),
        y=_values(curve_band.estimate),
        low=_values(low) if some else None,
        high=_values(high) if some else None,
    )
    remarks = [runs_in_words(x, curve_band.runs, planned), *_doubts(curve_band)]
    return LabelLines(lines=(line,), description="; ".join(remarks), band=curve_band)


def single_lines(curves: LabelCurves, points: int) -> tuple[FigureLine, ...]:
    """Faint lines of all single runs, or of `SHOWN` runs evenly spread by their means."""
    lines = []
    for curve in _representative(curves):
        kept = np.isin(curve.x, thinned(curve.x, points))
        x, y = curve.x[kept], curve.y[kept]
        lines.append(FigureLine(label=curves.label, x=tuple(x.tolist()), y=_values(y), faint=True))
    return tuple(lines)


def runs_in_words(x: Array, runs: NDArray[np.int64], planned: int) -> str:
    """Text about the number of runs behind each point: `10 of 10 runs up to 5,000, then 9`.

    Args:
        x: Of shape (T,), T ≥ 1, rising.
        runs: Of shape (T,).
        planned: Number of planned runs.
    """
    ends = np.flatnonzero(np.diff(runs))
    if len(x) == 1:
        return f"{runs[0]} of {format_count(planned, 'run')}, at a single point, {number_in_words(x[0])}"
    if not len(ends):
        return f"{runs[0]} of {format_count(planned, 'run')}"
    if len(ends) > CHANGES:
        most = x[runs == runs.max()]
        whole = f"{number_in_words(most[0])} to {number_in_words(most[-1])}"
        return f"at most {runs.max()} of {planned} runs (from {whole}), at least {runs.min()}"
    first = f"{runs[0]} of {planned} runs up to {number_in_words(x[ends[0]])}"
    later = [f"{runs[b]} up to {number_in_words(x[b])}" for b in ends[1:]]
    return ", then ".join([first, *later, str(runs[-1])])


def number_in_words(value: float) -> str:
    """Text of a position on an axis: a whole number, or three digits."""
    whole = abs(value) >= 100 or float(value).is_integer()
    return f"{value:,.0f}" if whole else f"{value:.3g}"


def _cut(curve_band: Band, shown: NDArray[np.bool_], ends: Ends) -> tuple[Array, Array]:
    """The band clipped to possible returns; an end that the estimate exceeds is ignored."""
    least, greatest = (np.nan if end is None else end for end in ends)
    # fmax ignores NaN, and a comparison with NaN is false: undeclared ends change nothing.
    low = np.where(curve_band.estimate >= least, np.fmax(curve_band.low, least), curve_band.low)
    high = np.where(
        curve_band.estimate <= greatest, np.fmin(curve_band.high, greatest), curve_band.high
    )
    possible = shown & np.isfinite(curve_band.low)
    return np.where(possible, low, np.nan), np.where(possible, high, np.nan)


def _doubts(curve_band: Band) -> Iterator[str]:
    """Texts about missing bands, and about a band that is too narrow."""
    if curve_band.reason:
        yield f"no band: {curve_band.reason}"
        return
    if curve_band.gaps:
        yield f"no band at some points: {curve_band.gaps}"
    if (curve_band.runs < FEWEST).any():
        yield f"no band where fewer than {FEWEST} runs are left"
    if curve_band.coverage is not None and curve_band.coverage < SHORT_OF_NOMINAL:
        yield f"the band is too narrow: expected coverage {format_percentage(curve_band.coverage)}"


def _representative(curves: LabelCurves) -> Sequence[RunCurve]:
    if len(curves.curves) <= SHOWN:
        return curves.curves
    # Even ranks keep the worst and the best run in the figure.
    ordered = sorted(curves.curves, key=lambda c: (_height(c), c.order))
    return [ordered[k] for k in np.linspace(0, len(ordered) - 1, SHOWN).round().astype(int)]


def _height(curve: RunCurve) -> float:
    finite = curve.y[np.isfinite(curve.y)]
    return float(finite.mean()) if len(finite) else -np.inf


def _values(y: Array) -> tuple[float | None, ...]:
    return tuple(float(v) if np.isfinite(v) else None for v in y)


def by_steps(evidence: Evidence, label: str, task: str) -> LabelCurves:
    """Curves of a label's runs on a task over environment steps."""
    return _curves(evidence, label, task, lambda member: curve_of(member, lambda m: m.steps))


def by_seconds(evidence: Evidence, label: str, task: str) -> LabelCurves:
    """Curves of a label's runs on a task over the seconds since the start of each run.

    The start is that of the first attempt which later attempts continue, so pauses between attempts
    count. A run whose times do not increase (its clock was set back) is left out, with a remark.
    """
    return _curves(evidence, label, task, lambda member: curve_of(member, seconds_of))


def logged_by_steps(evidence: Evidence, label: str, task: str, metric: str) -> LabelCurves:
    """Curves of a logged metric of a label's runs on a task over environment steps."""
    return _curves(
        evidence, label, task, lambda member: _logged_curve(member, metric, _steps), VALUES
    )


def logged_by_seconds(evidence: Evidence, label: str, task: str, metric: str) -> LabelCurves:
    """Curves of a logged metric over the seconds since the start of each run; see `by_seconds`."""
    return _curves(
        evidence, label, task, lambda member: _logged_curve(member, metric, _seconds), VALUES
    )


def seconds_of(member: PlannedRun) -> Array:
    """Seconds from the start of a run to its evaluations, of shape (T,); NaN without a start."""
    begun = _begun(member)
    return np.asarray([e.time - begun for e in member.record.evaluations], dtype=np.float64)


def _begun(member: PlannedRun) -> float:
    """Time of the start of a run in seconds since 1970; NaN without a start."""
    return np.nan if member.record.started is None else member.record.started


def _steps(_: PlannedRun, series: LoggedSeries) -> Array:
    return series.steps


def _seconds(member: PlannedRun, series: LoggedSeries) -> Array:
    return series.times - _begun(member)


def _logged_curve(
    member: PlannedRun, metric: str, x: Callable[[PlannedRun, LoggedSeries], Array]
) -> RunCurve:
    """The curve of a metric over x; it is empty where the run did not log the metric."""
    completed = member.record.state is State.COMPLETED
    series = member.logged.get(metric)
    if series is None:
        return RunCurve(np.empty(0), np.empty(0), completed)
    return RunCurve(x(member, series), series.values, completed)


def curve_of(member: PlannedRun, x: Callable[[PlannedRun], Array]) -> RunCurve:
    """The curve of a run over x."""
    return RunCurve(x(member), member.heights, member.record.state is State.COMPLETED)


def common_points(tasks: Sequence[LabelCurves], points: int) -> Array:
    """Common points of curves: at most `points` of their x, rising.

    At each point, all completed runs and at least half of all runs of every task are between their
    first and last evaluation. Beyond these points the curve would describe only the slow runs, or
    the runs that survived.
    """
    if not all(curves.curves for curves in tasks):
        return np.empty(0)
    # Only x of real evaluations: interpolated points would invent returns.
    union = np.unique(np.concatenate([c.x for t in tasks for c in t.curves]))
    enough = np.ones(len(union), dtype=bool)
    for curves in tasks:
        completed = [curve for curve in curves.curves if curve.completed]
        # An exact integer comparison: half of an odd number of runs has no rounding.
        enough &= 2 * _under_way(curves.curves, union) >= len(curves.curves)
        enough &= _under_way(completed, union) == len(completed)
    return thinned(union[enough], points)


def _under_way(curves: Sequence[RunCurve], x: Array) -> NDArray[np.int64]:
    """Number of curves between their first and last point at each x, of shape (T,)."""
    # The two sides include a curve at its first and at its last point.
    begun = np.searchsorted(np.sort([c.x[0] for c in curves]), x, side="right")
    over = np.searchsorted(np.sort([c.x[-1] for c in curves]), x, side="left")
    return np.asarray(begun - over, dtype=np.int64)


def thinned(x: Array, points: int) -> Array:
    """At most `points` of x, evenly spread, including both ends."""
    if len(x) <= points:
        return x
    return np.asarray(x[np.linspace(0, len(x) - 1, points).round().astype(int)])


def _curves(
    evidence: Evidence,
    label: str,
    task: str,
    read: Callable[[PlannedRun], RunCurve],
    noun: PointNoun = EVALUATIONS,
) -> LabelCurves:
    cell = evidence.cell(label, task)
    members = cell.members if cell else ()
    every = [read(member) for member in members]
    curves = [curve for curve in every if len(curve.x)]
    # A NaN in x fails both comparisons, so a run without a start is left out, too.
    rising = [c for c in curves if c.x[0] >= 0 and (np.diff(c.x) > 0).all()]
    pairs = zip(members, every, strict=True)
    empty = [member for member, curve in pairs if not len(curve.x)]
    return LabelCurves(
        label=label,
        task=task,
        planned=len(members),
        curves=_ordered(rising),
        remarks=tuple(_remarks(len(members), empty, len(curves) - len(rising), rising, noun)),
    )


def _ordered(curves: Sequence[RunCurve]) -> tuple[RunCurve, ...]:
    """The curves sorted by `RunCurve.order`; those with as many points are compared as arrays."""
    if len(curves) < 2 or len({len(curve.x) for curve in curves}) > 1:
        return tuple(sorted(curves, key=lambda curve: curve.order))
    x, y = np.stack([curve.x for curve in curves]), np.stack([curve.y for curve in curves])
    returns = np.where(np.isnan(y), -np.inf, y)
    # `lexsort` takes its last key first, so that the first point of x decides before all others.
    keys = [[curve.completed for curve in curves], *returns.T[::-1], *x.T[::-1]]
    return tuple(curves[position] for position in np.lexsort(keys))


def _remarks(
    total: int,
    empty: Sequence[PlannedRun],
    disordered: int,
    kept: Sequence[RunCurve],
    noun: PointNoun,
) -> Iterator[str]:
    runs = format_count(total, "run")
    if empty:
        yield f"{len(empty)} of {runs} without {noun.one} ({run_states_text(empty)})"
    if disordered:
        yield (
            f"{disordered} of {runs} left out, because the times of their {noun.several} do not "
            "increase"
        )
    gaps = sum(int(np.isnan(c.y).sum()) for c in kept)
    if gaps:
        affected = sum(bool(np.isnan(c.y).any()) for c in kept)
        yield f"non-finite {noun.several}: {gaps}, in {affected} of {runs}"
