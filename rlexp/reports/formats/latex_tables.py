"""Tables in LaTeX with booktabs, each of which another document may input."""

from collections.abc import Iterable, Iterator, Sequence

from rlexp.reports.drawing.blocks import Table
from rlexp.reports.formats.cells import Worded, worded
from rlexp.reports.formats.latex_text import breakable, latex

LONG_TABLE = 40
"""Rows beyond which a table runs over pages."""

LONG_CELL = 40
"""Characters of a cell beyond which its column is a paragraph."""

LINE = 110
"""Characters of a line in small letters."""

WIDE_TABLE = 160
"""Characters of a row beyond which its columns stand in several tables, one below the other."""


def table_file(table: Table, stem: str) -> str:
    """A table with its caption, its label (`tab:STEM`) and its notes.

    It needs the packages array, booktabs and graphicx, and longtable if it is of more than 40
    rows. One that is wider than the line is made smaller, and one that would become too small
    for that is divided between its columns.
    """
    words = worded(table)
    heading = rf"\caption{{{latex(table.title)}}}\label{{tab:{stem}}}"
    form = _long if len(words.rows) > LONG_TABLE else _short
    return "\n".join(form(heading, list(_divided(words)), words.notes)) + "\n"


def _short(heading: str, pieces: Sequence[Worded], notes: Sequence[str]) -> Iterator[str]:
    yield from (r"\begin{table}[!htbp]", r"\centering", r"\small", heading)
    for number, piece in enumerate(pieces):
        yield from [r"\par\medskip"] if number else []
        # Measured first: a table that fits keeps its size.
        yield r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
        yield rf"\begin{{tabular}}{{{_columns(piece)}}}"
        yield from (r"\toprule", _head(piece), r"\midrule", *_rows(piece), r"\bottomrule")
        yield r"\end{tabular}}"
    yield from _notes(notes)
    yield r"\end{table}"


def _long(heading: str, pieces: Sequence[Worded], notes: Sequence[str]) -> Iterator[str]:
    yield r"{\footnotesize\setlength{\tabcolsep}{4pt}"
    for number, piece in enumerate(pieces):
        yield rf"\begin{{longtable}}{{{_columns(piece)}}}"
        yield from [] if number else [rf"{heading}\\"]
        yield from (r"\toprule", _head(piece), r"\midrule", r"\endfirsthead")
        yield from (r"\toprule", _head(piece), r"\midrule", r"\endhead")
        yield from (r"\bottomrule", r"\endfoot", *_rows(piece))
        yield r"\end{longtable}"
    yield from (*_notes(notes), "}")


def _notes(notes: Sequence[str]) -> Iterator[str]:
    if notes:
        yield r"\par\smallskip"
        yield r"\begin{minipage}{\linewidth}\footnotesize\raggedright"
        yield from (rf"{breakable(note)}\par" for note in notes)
        yield r"\end{minipage}"


def _divided(words: Worded) -> Iterator[Worded]:
    """Tables that are narrow enough, each of which begins with the first column."""
    widths = [_width(words, k) for k in range(len(words.titles))]
    kept = list(range(len(widths)))
    if sum(widths) > WIDE_TABLE:
        kept = kept[:1]
        for k in range(1, len(widths)):
            if len(kept) > 1 and sum(widths[j] for j in kept) + widths[k] > WIDE_TABLE:
                yield _part(words, kept)
                kept = [0]
            kept.append(k)
    yield _part(words, kept)


def _width(words: Worded, column: int) -> int:
    """Characters of a column, the space beside it included."""
    cells = (words.titles[column], *(row[column] for row in words.rows))
    return min(LONG_CELL, max(map(len, cells))) + 3


def _part(words: Worded, columns: Sequence[int]) -> Worded:
    return Worded(
        titles=[words.titles[k] for k in columns],
        rows=[[row[k] for k in columns] for row in words.rows],
        numeric=[words.numeric[k] for k in columns],
        notes=words.notes,
    )


def _columns(words: Worded) -> str:
    """The form of each column; columns of sentences share what the others leave of the line."""
    widths = [_width(words, k) for k in range(len(words.titles))]
    sentences = [_sentences(words, k) for k in range(len(words.titles))]
    others = sum(w for w, long in zip(widths, sentences, strict=True) if not long)
    share = max(0.15, (1 - others / LINE) / max(1, sum(sentences)) - 0.02)
    paragraph = rf">{{\raggedright\arraybackslash}}p{{{share:.2f}\linewidth}}"
    forms = zip(words.numeric, sentences, strict=True)
    return "".join("r" if right else paragraph if long else "l" for right, long in forms)


def _sentences(words: Worded, column: int) -> bool:
    longest = max((len(row[column]) for row in words.rows), default=0)
    return not words.numeric[column] and longest > LONG_CELL


def _head(words: Worded) -> str:
    titles = zip(words.titles, words.numeric, strict=True)
    return _row(rf"\multicolumn{{1}}{{{'r' if r else 'l'}}}{{{latex(t)}}}" for t, r in titles)


def _rows(words: Worded) -> Iterator[str]:
    if not words.rows:
        yield rf"\multicolumn{{{len(words.titles)}}}{{l}}{{nothing}} \\"
    for row in words.rows:
        yield _row(map(_cell, row, words.numeric))


def _cell(word: str, right: bool) -> str:
    """A cell whose mark, in a column of numbers, stands beyond the digits."""
    if right and word.endswith((" †", " ‡")):
        return rf"{breakable(word[:-2])}\rlap{{\,{latex(word[-1])}}}"
    return breakable(word)


def _row(cells: Iterable[str]) -> str:
    return rf"{' & '.join(cells)} \\"
