"""From learning curves to what is drawn of them: an aggregate with its band, and single runs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlexp.metrics.estimate_words import SHORT_OF_NOMINAL
from rlexp.reports.analysis.curves import Curve, Curves, common_points, thinned
from rlexp.reports.drawing.blocks import Line
from rlexp.reports.sentences import counted
from rlexp.reports.settings import Settings
from rlexp.stats.curves import Band, align, band
from rlexp.text import per_cent

Array = NDArray[np.float64]

Ends = tuple[float | None, float | None]

FEWEST = 3
"""Runs from which a figure shows a band."""
SHOWN = 30
"""Single runs of a label that a figure shows, at most."""
CHANGES = 4
"""Changes in the number of runs that are told one by one, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """What is drawn of a label: its line, and in words what that rests on."""

    lines: tuple[Line, ...]
    words: str


def aggregate(tasks: Sequence[Curves], settings: Settings, ends: Ends = (None, None)) -> Drawn:
    """The aggregate of a label's runs over one or several tasks, with a band.

    Where fewer than `FEWEST` runs are left there is no band: of two, it is so wide that it hides
    every other line.

    Args:
        tasks: Its curves on each task, all of them in comparable units.
        settings: Points, repetitions, level and seed.
        ends: The least and the greatest possible return, in these units, where they are known.
    """
    label, planned = tasks[0].label, sum(curves.planned for curves in tasks)
    x = common_points(tasks, settings.curve_points)
    if not len(x):
        return Drawn(lines=(), words="no point at which half of the runs are evaluated")
    aligned = [align([(c.x, c.y) for c in curves.curves], x) for curves in tasks]
    found = band(aligned, settings.curve_resampling, method=settings.interval)
    shown = found.runs >= FEWEST
    some = not found.reason and bool(shown.any())
    low, high = _cut(found, shown, ends)
    line = Line(
        label=label,
        x=tuple(x.tolist()),
        y=_values(found.estimate),
        low=_values(low) if some else None,
        high=_values(high) if some else None,
    )
    words = [runs_in_words(x, found.runs, planned), *_doubts(found)]
    return Drawn(lines=(line,), words="; ".join(words))


def single_lines(curves: Curves, points: int) -> tuple[Line, ...]:
    """Single runs, faint: all of them, or `SHOWN` evenly spread in the order of their means."""
    lines = []
    for curve in _representative(curves):
        kept = np.isin(curve.x, thinned(curve.x, points))
        x, y = curve.x[kept], curve.y[kept]
        lines.append(Line(label=curves.label, x=tuple(x.tolist()), y=_values(y), faint=True))
    return tuple(lines)


def runs_in_words(x: Array, runs: NDArray[np.int64], planned: int) -> str:
    """How many runs each point rests on: `10 of 10 runs up to 5,000, then 9`.

    Args:
        x: Of shape (T,), T ≥ 1, rising.
        runs: Of shape (T,).
        planned: Runs that were asked for.
    """
    ends = np.flatnonzero(np.diff(runs))
    if len(x) == 1:
        return (
            f"{runs[0]} of {counted(planned, 'run')}, at a single point, {number_in_words(x[0])}"
        )
    if not len(ends):
        return f"{runs[0]} of {counted(planned, 'run')}"
    if len(ends) > CHANGES:
        most = x[runs == runs.max()]
        whole = f"{number_in_words(most[0])} to {number_in_words(most[-1])}"
        return f"at most {runs.max()} of {planned} runs (from {whole}), at least {runs.min()}"
    first = f"{runs[0]} of {planned} runs up to {number_in_words(x[ends[0]])}"
    later = [f"{runs[b]} up to {number_in_words(x[b])}" for b in ends[1:]]
    return ", then ".join([first, *later, str(runs[-1])])


def number_in_words(value: float) -> str:
    """A position on an axis: whole, or to three digits."""
    whole = abs(value) >= 100 or float(value).is_integer()
    return f"{value:,.0f}" if whole else f"{value:.3g}"


def _cut(found: Band, shown: NDArray[np.bool_], ends: Ends) -> tuple[Array, Array]:
    """The band where it is shown, without what no run can reach; an end below it is no end."""
    least, greatest = (np.nan if end is None else end for end in ends)
    low = np.where(found.estimate >= least, np.fmax(found.low, least), found.low)
    high = np.where(found.estimate <= greatest, np.fmin(found.high, greatest), found.high)
    possible = shown & np.isfinite(found.low)
    return np.where(possible, low, np.nan), np.where(possible, high, np.nan)


def _doubts(found: Band) -> Iterator[str]:
    """Where there is no band, and where it is known to be too narrow."""
    if found.reason:
        yield f"no band: {found.reason}"
        return
    if found.gaps:
        yield f"no band in places: {found.gaps}"
    if (found.runs < FEWEST).any():
        yield f"no band of fewer than {FEWEST} runs"
    if found.coverage is not None and found.coverage < SHORT_OF_NOMINAL:
        yield f"the band is too narrow: expected coverage {per_cent(found.coverage)}"


def _representative(curves: Curves) -> Sequence[Curve]:
    if len(curves.curves) <= SHOWN:
        return curves.curves
    ordered = sorted(curves.curves, key=lambda c: (_height(c), c.order))
    return [ordered[k] for k in np.linspace(0, len(ordered) - 1, SHOWN).round().astype(int)]


def _height(curve: Curve) -> float:
    known = curve.y[np.isfinite(curve.y)]
    return float(known.mean()) if len(known) else -np.inf


def _values(y: Array) -> tuple[float | None, ...]:
    return tuple(float(v) if np.isfinite(v) else None for v in y)
