"""A console whose output is HTML: what a command prints, as the output of a notebook's cell.

A notebook may be dark or light, and every front end says so in its own way. Figures therefore have
the colour of the text around them, and the colour of a label is mixed with it. Their curves and intervals
are SVG, with the paths that the report's page draws.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from rlexp.console import Console, masked
from rlexp.console.blocks import MOST_ROWS, SIGNS
from rlexp.reports.drawing.blocks import Callout, IntervalFigure, LineFigure, Table, Text
from rlexp.reports.drawing.palette import Style
from rlexp.reports.page.curves import UNITS, CurvePath, LinePlot, line_plot
from rlexp.reports.page.intervals import ForestPanel, IntervalRow, forest_plot
from rlexp.reports.page.tables import TableCell, drawn_table
from rlexp.text import format_cell, safe_for_terminal, shorten_middle

if TYPE_CHECKING:
    from rlexp.reports.drawing.blocks import Block

CSS = """
.rlexp{font-size:13px;line-height:1.45;max-width:100%}
.rlexp p,.rlexp pre{margin:.35em 0;padding:0;background:none;color:inherit;font-size:inherit}
.rlexp p{max-width:75em;white-space:pre-wrap}
.rlexp pre{overflow-x:auto}
.rlexp .scroll{overflow-x:auto;max-width:100%}
.rlexp table{border-collapse:collapse;border:0;margin:.35em 0;font-size:inherit;width:auto;color:inherit}
.rlexp table tr,.rlexp table thead,.rlexp table tbody tr:nth-child(n),.rlexp table tbody tr:hover{background:none;border:0}
.rlexp table th,.rlexp table td{padding:.2em 1.2em .2em 0;border:0;border-bottom:1px solid;border-color:color-mix(in srgb,currentColor 18%,transparent);text-align:left;vertical-align:baseline;max-width:34em;color:inherit;background:none}
.rlexp table th{font-weight:600;opacity:.75}
.rlexp table th.words,.rlexp table td.words{text-align:left}
.rlexp table th.number,.rlexp table td.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.rlexp table .short{white-space:nowrap}
.rlexp details{margin:.35em 0}
.rlexp summary{cursor:pointer;font-weight:600}
.rlexp h4{margin:.9em 0 .2em;font-size:inherit;font-weight:600}
.rlexp .small{opacity:.75;font-size:.92em}
.rlexp .callout{border-left:3px solid;padding-left:.7em}
.rlexp .good{border-color:#15906c}.rlexp .warning{border-color:#db7d14}.rlexp .problem{border-color:#c03030}
.rlexp .panels{display:flex;flex-wrap:wrap;gap:.4em 2em}
.rlexp svg{max-width:100%;height:auto;overflow:visible}
.rlexp svg text{fill:currentColor;font-size:11px;font-family:inherit}
"""
"""Styles of the output. Every colour is mixed with that of the text around it, so that a dark and a
light notebook need no rules of their own."""
SHORT = 30
"""Characters of a cell that is not folded to several lines."""
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


class HtmlConsole(Console):
    """A console that collects HTML. All text is escaped: labels, notes and paths may hold anything."""

    def __init__(self, labels: Sequence[str] = ()) -> None:
        """Collect HTML; `labels` are labels under comparison, in the order of their colours."""
        super().__init__()
        self._parts: list[str] = []
        self._lines: list[str] = []
        self._styles = {label: Style(number) for number, label in enumerate(labels)}

    @property
    def html(self) -> str:
        """All output so far as one element, with its styles."""
        self._end_paragraph()
        return f'<div class="rlexp"><style>{CSS}</style>{"".join(self._parts)}</div>'

    def line(self, text: str = "") -> None:
        """Add a line; consecutive lines are one paragraph, which an empty line ends."""
        if text:
            self._lines.append(safe_for_terminal(text))
        else:
            self._end_paragraph()

    def text(self, text: str) -> None:
        """Add a long text unchanged."""
        self._add(f"<pre>{_safe(text)}</pre>")

    def note(self, text: str) -> None:
        """Add a remark, with secrets masked."""
        self._add(f'<p class="small">{escape(masked(text))}</p>')

    def error(self, text: str) -> None:
        """Add the message of a failure, with secrets masked."""
        self._add(f'<p class="callout problem">{escape(masked(text))}</p>')

    def table(self, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
        """Add a table of the given columns, as the terminal shows it."""
        numeric = [all(isinstance(r.get(c), int | float | None) for r in rows) for c in columns]
        cells = [
            [_safe(format_cell(row.get(column))) for column in columns] for row in rows[:MOST_ROWS]
        ]
        self._add(_table([*map(_safe, columns)], cells, numeric))
        self._count_left_out(len(rows))

    def blocks(self, blocks: "Iterable[Block]") -> None:
        """Add tables, notices, paragraphs, curves and intervals; other figures are left out."""
        for block in blocks:
            match block:
                case Table():
                    self._block_table(block)
                case Callout():
                    text = _safe(f"{SIGNS[block.tone]}{block.text}")
                    self._add(f'<p class="callout {block.tone}">{text}</p>')
                case Text():
                    self._add(f'<p class="small">{_safe(block.text)}</p>')
                case LineFigure():
                    self._figure(block, line_figure(block, self._styles_of(_lines_of(block))))
                case IntervalFigure():
                    styles = self._styles_of(m.label for p in block.panels for m in p.marks)
                    self._figure(block, interval_figure(block, styles))
                case _:
                    pass

    def fold(self, title: str, blocks: "Iterable[Block]", *, opened: bool) -> None:
        """Add blocks below a title that shows and hides them; nothing without blocks."""
        inner = HtmlConsole()
        inner._styles = self._styles
        inner.blocks(blocks)
        if inner._parts:
            start = "<details open>" if opened else "<details>"
            content = "".join(inner._parts)
            self._add(f"{start}<summary>{_safe(title)}</summary>{content}</details>")

    def plot(
        self, figure: LineFigure, notes: Mapping[str, str], height: int | None = None
    ) -> None:
        """Add curves with their bands, and a legend with a text for each label."""
        del height
        styles = self._styles_of((*notes, *_lines_of(figure)))
        self._figure(figure, line_figure(figure, styles, named=not notes))
        for label, note in notes.items():
            self._add(f"<p>{label_sign(styles[label])} {_safe(note)}</p>")

    def _figure(self, figure: LineFigure | IntervalFigure, drawn: str) -> None:
        self._add(f"<h4>{_safe(figure.title)}</h4>{drawn}")
        if figure.note and isinstance(figure, IntervalFigure):
            self._add(f'<p class="small">{_safe(figure.note)}</p>')

    def _block_table(self, block: Table) -> None:
        drawn = drawn_table(block, {})
        titles = [_safe(column.title) for column in block.columns]
        cells = [[_cell(cell) for cell in row] for row in drawn.rows[:MOST_ROWS]]
        heading = f"<h4>{_safe(block.title)}</h4>" if block.title else ""
        self._add(heading + _table(titles, cells, drawn.numeric))
        self._count_left_out(len(drawn.rows))
        for note in drawn.notes:
            self._add(f'<p class="small">{_safe(note)}</p>')

    def _count_left_out(self, rows: int) -> None:
        if rows > MOST_ROWS:
            text = (
                f"{rows - MOST_ROWS:,} more rows are not shown here; the result has all of them."
            )
            self._add(f'<p class="small">{text}</p>')

    def _styles_of(self, labels: Iterable[str]) -> Mapping[str, Style]:
        """The styles of labels; a label keeps its colour through all figures of one output."""
        for label in labels:
            self._styles.setdefault(label, Style(len(self._styles)))
        return self._styles

    def _add(self, html: str) -> None:
        self._end_paragraph()
        self._parts.append(html)

    def _end_paragraph(self) -> None:
        if self._lines:
            self._parts.append(f"<p>{escape(chr(10).join(self._lines))}</p>")
            self._lines.clear()


def _lines_of(figure: LineFigure) -> Iterator[str]:
    return (line.label for line in figure.lines)


def _safe(text: str) -> str:
    return escape(safe_for_terminal(text))


def _cell(cell: TableCell) -> str:
    dagger = "†" if cell.too_narrow else ""
    text = f"{_safe(cell.text)} {_safe(cell.ends)}{dagger}" if cell.ends else _safe(cell.text)
    return f'<span title="{_safe(cell.tooltip)}">{text}</span>' if cell.tooltip else text


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[bool]) -> str:
    """A table of HTML cells; numeric columns are aligned to the right."""
    kinds = ["number" if number else "words" for number in numeric]
    head = "".join(
        f'<th class="{kind}">{title}</th>' for kind, title in zip(kinds, titles, strict=True)
    )
    body = "".join(f"<tr>{''.join(map(_data, kinds, row))}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _data(kind: str, text: str) -> str:
    """A cell of a table; short words stay on one line."""
    return f'<td class="{kind}{" short" if len(text) <= SHORT else ""}">{text}</td>'


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
