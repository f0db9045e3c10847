"""Figures in a notebook: curves and intervals as SVG, from the paths that the report's page draws.

A notebook may be dark or light, and every front end says so in its own way. Figures therefore have
the colour of the text around them, and the colour of a label is mixed with it.
"""

from collections.abc import Mapping
from html import escape

from rlexp.reports.drawing.blocks import IntervalFigure, LineFigure
from rlexp.reports.drawing.palette import Style
from rlexp.reports.page.curves import UNITS, CurvePath, LinePlot, line_plot
from rlexp.reports.page.intervals import ForestPanel, IntervalRow, forest_plot
from rlexp.text import safe_for_terminal, shorten_middle

WIDTH, HEIGHT = 640, 312
"""Size of a line figure, in pixels."""
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 36, 40
"""Room beside the axes of a line figure, in pixels."""
PANEL_WIDTH, ROW_HEIGHT, PANEL_BOTTOM = 300, 40, 34
"""Size of a panel of intervals and of its rows, in pixels."""
STRIP = 6
"""Free pixels at both ends of a panel, so that no dot is cut."""
LONGEST_NAME = 24
"""Characters of a label beside its interval, above which its middle is left out."""
GRID = 'stroke="currentColor" stroke-opacity="0.15"'
FAINT = (0.35, 0.2, 0.1)
"""Opacity of single runs: the more there are, the fainter, as on the page."""
NOTHING = '<p class="small">There is no value to draw.</p>'


def line_figure(figure: LineFigure, styles: Mapping[str, Style], *, named: bool = True) -> str:
    """Curves with their bands and axes; with `named`, a legend of several labels is below them."""
    plot = line_plot(figure, styles)
    if not plot.paths:
        return NOTHING
    across, up = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    crowd = FAINT[plot.crowd]
    drawn = (
        _svg(WIDTH, HEIGHT, plot.described)
        + _axes(plot, across, up)
        + f'<svg x="{LEFT}" y="{TOP}" width="{across}" height="{up}" viewBox="0 0 {UNITS} {UNITS}"'
        f' preserveAspectRatio="none"{_overflow(plot)}>'
        + "".join(_path(path, crowd) for path in plot.paths)
        + "</svg></svg>"
    )
    if not named or len(plot.labels) < 2:
        return drawn
    entries = (f"{label_sign(styles[name])} {_safe(name)}" for name in plot.labels)
    return drawn + f"<p>{' &emsp; '.join(entries)}</p>"


def interval_figure(figure: IntervalFigure, styles: Mapping[str, Style]) -> str:
    """Panels of intervals, with a row for each label: its interval as a bar, its runs as dots."""
    panels = "".join(map(_panel, forest_plot(figure, styles).panels))
    return f'<div class="panels">{panels}</div>' if panels else NOTHING


def label_sign(style: Style) -> str:
    """The line of a label in a legend."""
    return (
        '<svg width="22" height="8" aria-hidden="true">'
        f'<line x1="1" x2="21" y1="4" y2="4" {_stroke(style)} stroke-width="2.5"/></svg>'
    )


def _svg(width: int, height: int, described: str) -> str:
    """The start of a figure. Its size is fixed, so that letters keep theirs on a wide screen."""
    return (
        f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img"'
        f' aria-label="{_safe(described)}">'
    )


def _overflow(plot: LinePlot) -> str:
    """Lines on the edge of the axes are drawn in full width where nothing leaves the axes."""
    return ' overflow="visible"' if plot.inside else ' overflow="hidden"'


def _axes(plot: LinePlot, across: int, up: int) -> str:
    right, bottom = LEFT + across, TOP + up
    heights = [(round(TOP + up * tick.at / 100, 1), tick.text) for tick in plot.y_ticks]
    places = [(round(LEFT + across * tick.at / 100, 1), tick.text) for tick in plot.x_ticks]
    marks = [(round(TOP + up * at / 100, 1), name) for name, at in plot.marks]
    return "".join(
        (
            *(f'<line x1="{LEFT}" x2="{right}" y1="{y}" y2="{y}" {GRID}/>' for y, _ in heights),
            *(_text(LEFT - 8, y + 4, text, "end") for y, text in heights),
            *(_text(x, bottom + 16, text, "middle") for x, text in places),
            _text(LEFT, 12, plot.figure.y.title, "start"),
            _text(LEFT + across / 2, HEIGHT - 6, plot.figure.x.title, "middle"),
            *(
                f'<line x1="{LEFT}" x2="{right}" y1="{y}" y2="{y}" stroke="currentColor"'
                f' stroke-opacity="0.6" stroke-dasharray="5 4"/>{_text(LEFT + 6, y - 5, name, "start")}'
                for y, name in marks
            ),
        )
    )


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="11" fill="currentColor">'
        f"{_safe(text)}</text>"
    )


def _path(path: CurvePath, crowd: float) -> str:
    if path.kind == "band":
        return f'<path d="{path.d}" {_fill(path.style)} fill-opacity="0.18"/>'
    width = {"faint": 1, "line": 2, "point": 5}[path.kind]
    opacity = f' stroke-opacity="{crowd}"' if path.kind == "faint" else ""
    cap = ' stroke-linecap="round"' if path.kind == "point" else ""
    return (
        f'<path d="{path.d}" fill="none" {_stroke(path.style)} stroke-width="{width}"{opacity}{cap}'
        ' stroke-linejoin="round" vector-effect="non-scaling-stroke"/>'
    )


def _panel(panel: ForestPanel) -> str:
    if not panel.rows or not panel.ticks:
        return f"<div><p>{_safe(panel.title)}</p>{NOTHING}</div>"
    end = ROW_HEIGHT * len(panel.rows) + 4
    named = [panel.axis, *(f"┊ {name}" for name, _ in panel.marked)]
    return (
        f"<div><p>{_safe(panel.title)}</p>"
        + _svg(PANEL_WIDTH, end + PANEL_BOTTOM, panel.title)
        + "".join(_text(_x(tick.at), end + 14, tick.text, "middle") for tick in panel.ticks)
        + "".join(_grid(panel, ROW_HEIGHT * k) for k in range(len(panel.rows)))
        + "".join(_row(row, ROW_HEIGHT * k) for k, row in enumerate(panel.rows))
        + _text(PANEL_WIDTH / 2, end + 29, "  ".join(named), "middle")
        + "</svg></div>"
    )


def _grid(panel: ForestPanel, top: int) -> str:
    """The grid of a row and its marked places, only where no text is."""
    ends = f'y1="{top + 18}" y2="{top + ROW_HEIGHT}"'
    marked = 'stroke="currentColor" stroke-opacity="0.6" stroke-dasharray="2 3"'
    lines = [
        *((tick.at, GRID) for tick in panel.ticks),
        *((at, marked) for _, at in panel.marked),
    ]
    return "".join(f'<line x1="{_x(at)}" x2="{_x(at)}" {ends} {look}/>' for at, look in lines)


def _row(row: IntervalRow, top: int) -> str:
    middle = top + 28
    dagger = "†" if row.too_narrow else ""
    name = shorten_middle(row.label, LONGEST_NAME)
    bar = "" if row.bar is None else _bar(row.bar, row.style, middle)
    estimate = (
        ""
        if row.at is None
        else f'<circle cx="{_x(row.at)}" cy="{middle}" r="4.5" {_fill(row.style)}/>'
    )
    return (
        f"<g><title>{_safe(row.tooltip)}</title>"
        + _text(0, top + 14, name, "start")
        + _text(PANEL_WIDTH, top + 14, f"{row.estimate} {row.ends}{dagger}", "end")
        + "".join(
            f'<circle cx="{_x(at)}" cy="{middle + 7}" r="2.2" {_fill(row.style)} fill-opacity="0.5"/>'
            for at in row.dots
        )
        + f"{bar}{estimate}</g>"
    )


def _bar(ends: tuple[float, float], style: Style, y: int) -> str:
    return (
        f'<line x1="{_x(ends[0])}" x2="{_x(ends[1])}" y1="{y}" y2="{y}" {_stroke(style)}'
        ' stroke-width="3" stroke-linecap="round"/>'
    )


def _x(at: float) -> float:
    """Pixels of a place in per cent of a panel's axis."""
    return round(STRIP + (PANEL_WIDTH - 2 * STRIP) * at / 100, 1)


def _stroke(style: Style) -> str:
    dash = f' stroke-dasharray="{" ".join(map(str, style.dash))}"' if style.dash else ""
    return f'stroke="{style.light}" style="stroke:{_hue(style)}"{dash}'


def _fill(style: Style) -> str:
    return f'fill="{style.light}" style="fill:{_hue(style)}"'


def _hue(style: Style) -> str:
    """The colour of a label, lighter where the text around is light and darker where it is dark."""
    return f"color-mix(in oklab,{style.light} 72%,currentColor)"


def _safe(text: str) -> str:
    return escape(safe_for_terminal(text))
