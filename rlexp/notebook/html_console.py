"""A console whose output is HTML: what a command prints, as the output of a notebook's cell."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from rlexp.console import Console, masked
from rlexp.console.blocks import MOST_ROWS, SIGNS
from rlexp.notebook.figures import interval_figure, label_sign, line_figure
from rlexp.reports.drawing.blocks import Callout, IntervalFigure, LineFigure, Table, Text
from rlexp.reports.drawing.palette import Style
from rlexp.reports.page.tables import TableCell, drawn_table
from rlexp.text import format_cell, safe_for_terminal

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
