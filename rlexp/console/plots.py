"""Draws curves with their bands on a terminal, with dots of braille characters.

Colours tell labels apart. Without colour, each label has a letter instead, because dots of two
labels look the same.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console as RichConsole
from rich.text import Text as RichText

from rlexp.reports.drawing.axes import AxisScale, Tick, scale
from rlexp.reports.drawing.blocks import FigureLine, LineFigure
from rlexp.text import format_value, safe_for_terminal

if TYPE_CHECKING:
    from plotille import Canvas

NARROWEST, WIDEST, IN_A_PIPE = 40, 110, 80
"""Columns: of the narrowest and the widest plot, and of one that is not on a terminal."""
HEIGHT = 16
"""Rows of the axes of a plot."""
COLOURS = ("bright_blue", "red", "green", "magenta", "yellow", "cyan", "white", "bright_red")
"""Colours of labels in their order, as in the palette of reports."""
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""Letters of labels in their order, where there is no colour."""
LINE_SIGN = "━"
"""The sign of a label in the legend of a plot with colours, or with a single label."""
MARK_SIGN = "┄"
"""The sign of a marked height in the legend."""
BLANK = 0x2800
"""The braille character without dots; the lowest byte of the others has a bit for each dot."""
ACROSS, UP = 2, 4
"""Dots of a character, side by side and one above the other."""
BAND = (4, 4)
"""Distances between the dots of a band, across and up: a full band would hide lines."""
DASH = 4
"""Distance between the dots of a marked height."""
TICK_WIDTH, TICK_ROWS = 14, 4
"""Columns of a horizontal axis, and rows of a vertical axis, for each tick."""

Point = tuple[float, float]
"""Position in dots from the lower left corner."""


@dataclass(frozen=True, slots=True)
class LabelStyle:
    """The colour of a label, or its letter where there are no colours."""

    style: str = ""
    letter: str = ""

    @property
    def sign(self) -> str:
        """The sign of the label in the legend."""
        return self.letter or LINE_SIGN


@dataclass(slots=True)
class Cell:
    """A character of a plot: dots of several layers, with the style of the uppermost one."""

    dots: int = 0
    style: str = ""
    letters: tuple[str, ...] = ()

    def text(self, column: int) -> str:
        """The character; labels at the same place take turns from column to column."""
        if self.letters:
            return self.letters[column % len(self.letters)]
        return chr(BLANK + self.dots) if self.dots else " "


def show_plot(
    out: RichConsole,
    figure: LineFigure,
    notes: Mapping[str, str],
    height: int = HEIGHT,
) -> None:
    """Print a figure with its title, axes and legend; single runs are left out.

    Args:
        out: Where to print; its width and its colours decide on the plot.
        figure: The figure.
        notes: A text for each label in the legend; without any, there is no legend.
        height: Rows of the axes.
    """
    labels = list(dict.fromkeys([*notes, *(line.label for line in figure.lines)]))
    styles = label_styles(labels, coloured=out.color_system is not None and not out.no_color)
    width = min(max(out.width, NARROWEST), WIDEST) if out.is_terminal else IN_A_PIPE
    for row in plot_rows(figure, styles, width, height):
        out.print(row, soft_wrap=True)
    for name, value in figure.marks if notes else ():
        text = f"{MARK_SIGN} {safe_for_terminal(name)} at {format_value(value, 2)}"
        out.print(RichText(text, "dim"), soft_wrap=True)
    for label, note in notes.items():
        sign = RichText(f"{styles[label].sign} ", styles[label].style)
        out.print(sign.append(safe_for_terminal(note), "default"), soft_wrap=not out.is_terminal)


def label_styles(labels: Sequence[str], *, coloured: bool) -> Mapping[str, LabelStyle]:
    """The style of each label; a label alone needs neither colour nor letter."""
    if coloured:
        return {label: LabelStyle(COLOURS[k % len(COLOURS)]) for k, label in enumerate(labels)}
    if len(labels) < 2:
        return {label: LabelStyle() for label in labels}
    return {label: LabelStyle(letter=LETTERS[k % len(LETTERS)]) for k, label in enumerate(labels)}


def plot_rows(
    figure: LineFigure, styles: Mapping[str, LabelStyle], width: int, height: int
) -> Iterator[RichText]:
    """The rows of a figure, from the title to the title of the horizontal axis.

    Args:
        figure: The figure; only its aggregates are drawn.
        styles: The style of every label.
        width: Columns.
        height: Rows of the axes.
    """
    lines = [line for line in figure.lines if not line.faint]
    scales = _scales(figure, lines)
    quantity = "" if figure.y.title in figure.title else f": {figure.y.title}"
    yield RichText(safe_for_terminal(f"{figure.title}{quantity}"), "bold")
    if scales is None:
        yield RichText("nothing to show")
        return
    ticks = _rows_of_ticks(scales[1], height)
    side = max(cell_len(text) for text in ticks.values())
    columns = width - side - 2
    cells = _Grid(columns, height, scales)
    cells.draw(lines, figure.marks, styles)
    for row in range(height):
        text = ticks.get(row, "")
        yield RichText(f"{text:>{side}} {'┤' if text else '│'}").append_text(cells.row(row))
    axis, below = _horizontal(scales[0], columns)
    yield RichText(f"{'':{side}} └{axis}")
    yield RichText(f"{'':{side}}  {below}".rstrip())
    yield RichText(f"{'':{side}}  {figure.x.title:^{columns}}".rstrip())


class _Grid:
    """The characters inside the axes."""

    def __init__(self, columns: int, height: int, scales: tuple[AxisScale, AxisScale]) -> None:
        self.columns, self.height = columns, height
        self._x, self._y = scales
        self._cells = [[Cell() for _ in range(columns)] for _ in range(height)]

    def draw(
        self,
        lines: Sequence[FigureLine],
        marks: Sequence[tuple[str, float]],
        styles: Mapping[str, LabelStyle],
    ) -> None:
        """Draw marked heights, bands, and lines on top of them."""
        for _, value in marks:
            self._add(self._mark(value), "dim")
        for line in lines:
            self._add(self._band(line), f"dim {styles[line.label].style}".strip())
        for line in lines:
            style = styles[line.label]
            if style.letter:
                self._write(line, style.letter)
            else:
                self._add(self._line(line), style.style)

    def row(self, number: int) -> RichText:
        """A row of characters from the top, with their styles."""
        text = RichText()
        for column, cell in enumerate(self._cells[number]):
            text.append(cell.text(column), cell.style or None)
        text.rstrip()
        return text

    def _add(self, canvas: "Canvas", style: str) -> None:
        """Add the dots of a layer to the characters; the style is that of the last layer."""
        for cells, row in zip(self._cells, canvas.plot(linesep="\n").split("\n"), strict=True):
            for cell, character in zip(cells, row, strict=True):
                if dots := ord(character) - BLANK:
                    cell.dots |= dots
                    cell.style = style

    def _canvas(self) -> "Canvas":
        """An empty layer, whose coordinates are dots."""
        from plotille import Canvas

        return Canvas(self.columns, self.height, 0, 0, self.columns * ACROSS, self.height * UP)

    def _line(self, line: FigureLine) -> "Canvas":
        canvas = self._canvas()
        for part in self._parts(line.x, line.y):
            canvas.point(*part[0])
            for a, b in pairwise(part):
                canvas.line(*a, *b)
        return canvas

    def _band(self, line: FigureLine) -> "Canvas":
        canvas = self._canvas()
        if line.low is None or line.high is None:
            return canvas
        lows, highs = self._parts(line.x, line.low), self._parts(line.x, line.high)
        for low, high in zip(lows, highs, strict=True):
            for across in range(int(low[0][0]), int(low[-1][0]) + 1):
                if across % BAND[0] == 0:
                    ends = round(_height(low, across)), round(_height(high, across))
                    for up in range(ends[0], ends[1] + 1):
                        # Every second column of dots is shifted, as the bricks of a wall.
                        shift = BAND[1] // 2 * (across // BAND[0] % 2)
                        if (up + shift) % BAND[1] == 0:
                            canvas.point(across, up)
        return canvas

    def _mark(self, value: float) -> "Canvas":
        canvas, at = self._canvas(), self._y.at(value)
        if at is not None and 0 <= at <= 1:
            for across in range(0, self.columns * ACROSS, DASH):
                canvas.point(across, at * (self.height * UP - 1))
        return canvas

    def _write(self, line: FigureLine, letter: str) -> None:
        """Write the letter of a label into each column that its line crosses."""
        for part in self._parts(line.x, line.y):
            for column in range(int(part[0][0]) // ACROSS, int(part[-1][0]) // ACROSS + 1):
                middle = min(max(column * ACROSS + 0.5, part[0][0]), part[-1][0])
                row = self.height - 1 - round(_height(part, middle)) // UP
                cell = self._cells[row][column]
                cell.letters, cell.style = (*cell.letters, letter), ""

    def _parts(self, x: Sequence[float], y: Sequence[float | None]) -> list[list[Point]]:
        """The parts of a curve between gaps, each with one or more points."""
        parts: list[list[Point]] = [[]]
        for a, b in zip(x, y, strict=True):
            across, up = self._x.at(a), self._y.at(b)
            if across is None or up is None:
                parts.append([])
            else:
                dots = self.columns * ACROSS - 1, self.height * UP - 1
                parts[-1].append((float(round(across * dots[0])), float(round(up * dots[1]))))
        return [part for part in parts if part]


def _height(part: Sequence[Point], across: float) -> float:
    """The height of a part of a curve at a position between its first and its last point."""
    after = min(bisect_right([a for a, _ in part], across), len(part) - 1)
    before = max(after - 1, 0)
    (a, low), (b, high) = part[before], part[after]
    return high if a == b else low + (high - low) * (across - a) / (b - a)


def _scales(figure: LineFigure, lines: Sequence[FigureLine]) -> tuple[AxisScale, AxisScale] | None:
    """The scales of both axes; None without a value."""
    shown = [
        (a, b) for line in lines for a, b in zip(line.x, line.y, strict=True) if b is not None
    ]
    ends = [v for line in lines for v in (*(line.low or ()), *(line.high or ()))]
    marked = [value for _, value in figure.marks] if shown else []
    x = scale(figure.x, (a for a, _ in shown))
    y = scale(figure.y, [*(b for _, b in shown), *ends, *marked], padding=0.04)
    return None if x is None or y is None else (x, y)


def _rows_of_ticks(y: AxisScale, height: int) -> dict[int, str]:
    """The texts of ticks by row from the top."""
    ticks = y.ticks(max(2, height // TICK_ROWS))
    last = height * UP - 1
    return {height - 1 - round(tick.at / 100 * last) // UP: tick.text for tick in ticks}


def _horizontal(x: AxisScale, columns: int) -> tuple[str, str]:
    """The horizontal axis with its ticks, and the texts below it."""
    axis, below = ["─"] * columns, [" "] * columns
    free = 0
    for tick in x.ticks(max(2, columns // TICK_WIDTH)):
        at = round(tick.at / 100 * (columns - 1))
        start = _start(tick, at, columns)
        axis[at] = "┬"
        if start >= free:
            below[start : start + len(tick.text)] = tick.text
            free = start + len(tick.text) + 1
    return "".join(axis), "".join(below)


def _start(tick: Tick, at: int, columns: int) -> int:
    """The column where the text of a tick begins: in the middle, but inside the axis."""
    return min(max(at - len(tick.text) // 2, 0), columns - len(tick.text))
