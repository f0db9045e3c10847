"""Scatter plots of the page: points as shapes at per cents of their axes, with curves behind."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlexp.reports.drawing.axes import Tick
from rlexp.reports.drawing.blocks import Cloud, Scatter
from rlexp.reports.drawing.marks import Place, Places, left_out_words, places
from rlexp.reports.drawing.palette import Style
from rlexp.reports.page.curves import CurvePath, axis_data, curve_paths, rounded_values

TICKS = 5
CROWDED = (100, 400)
"""Points of one cloud beyond which each is drawn smaller and fainter."""

ACROSS, LONGEST = 6, 24
"""Most named ticks that stand beside each other, and the longest of their names in letters."""

PLAIN = "disc"


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnPoints:
    """A cloud as it is drawn: `at` are places in per cent from the left and from the top."""

    style: Style
    at: Sequence[tuple[float, float]]

    @property
    def shape(self) -> str:
        """The shape of each point."""
        return self.style.shape or PLAIN

    @property
    def crowd(self) -> int:
        """How faint points must be for others to be seen: 0, 1 or 2."""
        return sum(len(self.at) > few for few in CROWDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatterPlot:
    """What the page shows of points. Without axes there is nothing to draw.

    Attributes:
        labels: Of clouds, then of lines.
        marks: Name and height (per cent from the top) of each horizontal line.
        data: What the script tells of the points when it is asked.
    """

    figure: Scatter
    labels: tuple[str, ...]
    x_ticks: Sequence[Tick] = ()
    y_ticks: Sequence[Tick] = ()
    clouds: Sequence[DrawnPoints] = ()
    paths: Sequence[CurvePath] = ()
    marks: Sequence[tuple[str, float]] = ()
    data: Mapping[str, Any] | None = None

    @property
    def dotted(self) -> tuple[str, ...]:
        """Labels whose key is a point."""
        return tuple(cloud.label for cloud in self.figure.clouds)

    @property
    def inside(self) -> bool:
        """Whether no curve leaves the axes, so that what is on an end is drawn in full."""
        return all(path.inside for path in self.paths)

    @property
    def upright(self) -> bool:
        """Whether the names of ticks are too many to be written across."""
        names = self.figure.ticks
        return len(names) > ACROSS or any(len(name) > LONGEST for name in names)

    @property
    def described(self) -> str:
        """What a reader hears who does not see it."""
        counts = ", ".join(f"{len(c.x):,} {c.label}" for c in self.figure.clouds[:8])
        return f"{self.figure.title}: {self.figure.y.title} over {self.figure.x.title}; {counts}"

    @property
    def remark(self) -> str:
        """How many points are not shown; empty where all are."""
        return left_out_words(self.figure)


def scatter_plot(figure: Scatter, styles: Mapping[str, Style]) -> ScatterPlot:
    """Draw curves, and before them the points, in the order of the clouds."""
    clouds, lines = figure.clouds, figure.lines
    labels = tuple(dict.fromkeys([*(c.label for c in clouds), *(n.label for n in lines)]))
    drawn = places(figure)
    if drawn is None:
        return ScatterPlot(figure=figure, labels=labels)
    x, y = drawn.x, drawn.y
    marks = ((name, y.at(value)) for name, value in figure.marks)
    return ScatterPlot(
        figure=figure,
        labels=labels,
        x_ticks=() if figure.ticks else x.ticks(TICKS),
        y_ticks=[Tick(round(100 - t.at, 3), t.text) for t in y.ticks(TICKS)],
        clouds=[
            DrawnPoints(style=styles[cloud.label], at=[_at(place, drawn) for place in own])
            for cloud, own in zip(clouds, drawn.clouds, strict=True)
        ],
        paths=curve_paths(lines, x, y, styles),
        marks=[(name, round(100 - 100 * at, 3)) for name, at in marks if at is not None],
        data={
            "x": axis_data(x, figure.x.title),
            "y": axis_data(y, figure.y.title),
            "ticks": list(figure.ticks),
            "clouds": [
                _points_data(*pair, styles) for pair in zip(clouds, drawn.clouds, strict=True)
            ],
        },
    )


def _at(place: Place, drawn: Places) -> tuple[float, float]:
    across, up = drawn.x.at(place.x) or 0.0, drawn.y.at(place.y) or 0.0
    return round(100 * across, 2), round(100 - 100 * up, 2)


def _points_data(
    cloud: Cloud, own: Sequence[Place], styles: Mapping[str, Style]
) -> dict[str, Any]:
    style = styles[cloud.label]
    return {
        "label": style.number,
        "shape": style.shape or PLAIN,
        "x": rounded_values([place.x for place in own]),
        "y": rounded_values([place.y for place in own]),
        "named": [cloud.names[place.number] for place in own],
    }
