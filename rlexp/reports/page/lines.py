"""Figures of curves: axes, paths, and what the script is told of them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlexp.reports.drawing.axes import Scale, Tick, scale
from rlexp.reports.drawing.blocks import Line, Lines
from rlexp.reports.drawing.palette import Style
from rlexp.reports.page.curves import Path, curve_paths, rounded, told_axis

TICKS = 5
CROWDED = (10, 30)
"""Single runs of one label beyond which each is drawn fainter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinePlot:
    """What the page shows of curves. Without scales there is nothing to draw.

    Attributes:
        marks: Name and height (per cent from the top) of each horizontal line.
        data: What the script tells of the curves when it is asked.
    """

    figure: Lines
    labels: tuple[str, ...]
    x_ticks: Sequence[Tick] = ()
    y_ticks: Sequence[Tick] = ()
    paths: Sequence[Path] = ()
    marks: Sequence[tuple[str, float]] = ()
    data: Mapping[str, Any] | None = None

    @property
    def dotted(self) -> tuple[str, ...]:
        """Labels whose key is a point: none."""
        return ()

    @property
    def crowd(self) -> int:
        """How faint single runs must be for their aggregate to be seen: 0, 1 or 2."""
        runs = Counter(line.label for line in self.figure.lines if line.faint)
        most = max(runs.values(), default=0)
        return sum(most > few for few in CROWDED)

    @property
    def inside(self) -> bool:
        """Whether nothing leaves the axes, so that a line on an end keeps its full width."""
        return all(path.inside for path in self.paths)

    @property
    def described(self) -> str:
        """What a reader hears who does not see it."""
        named = ", ".join(self.labels[:8]) + (" and others" if len(self.labels) > 8 else "")
        return f"{self.figure.title}: {self.figure.y.title} over {self.figure.x.title}; {named}"


def line_plot(figure: Lines, styles: Mapping[str, Style]) -> LinePlot:
    """Draw curves on axes of their own."""
    labels = tuple(dict.fromkeys(line.label for line in figure.lines))
    scales = _scales(figure)
    if scales is None:
        return LinePlot(figure=figure, labels=labels)
    x, y = scales
    marks = ((name, y.at(value)) for name, value in figure.marks)
    return LinePlot(
        figure=figure,
        labels=labels,
        x_ticks=x.ticks(TICKS),
        y_ticks=[Tick(round(100 - t.at, 3), t.text) for t in y.ticks(TICKS)],
        paths=curve_paths(figure.lines, x, y, styles),
        marks=[(name, round(100 - 100 * at, 3)) for name, at in marks if at is not None],
        data={
            "x": told_axis(x, figure.x.title),
            "y": told_axis(y, figure.y.title),
            "curves": [_told(line, x, y, styles) for line in figure.lines if not line.faint],
        },
    )


def _scales(figure: Lines) -> tuple[Scale, Scale] | None:
    shown = [
        (a, b)
        for line in figure.lines
        for a, b in zip(line.x, line.y, strict=True)
        if b is not None
    ]
    ends = [v for line in figure.lines for v in (*(line.low or ()), *(line.high or ()))]
    marked = [value for _, value in figure.marks] if shown else []
    x = scale(figure.x, (a for a, _ in shown))
    y = scale(figure.y, [*(b for _, b in shown), *ends, *marked], padding=0.04)
    return None if x is None or y is None else (x, y)


def _told(line: Line, x: Scale, y: Scale, styles: Mapping[str, Style]) -> dict[str, Any]:
    pairs = zip(line.x, line.y, strict=True)
    placed = [None if x.at(a) is None or y.at(b) is None else b for a, b in pairs]
    told = {"label": styles[line.label].number, "x": rounded(line.x), "y": rounded(placed)}
    if line.low is not None and line.high is not None:
        told |= {"low": rounded(line.low), "high": rounded(line.high)}
    return told
