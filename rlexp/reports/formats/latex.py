"""The report as LaTeX: a file for each table, and a document that holds them and the figures."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count

from rlexp.errors import ConfigError
from rlexp.reports.drawing.blocks import (
    Block,
    Figure,
    Listing,
    Notice,
    Part,
    Study,
    Table,
    Text,
    Tone,
)
from rlexp.reports.drawing.file_names import drawn_blocks, file_stems
from rlexp.reports.formats.figure_tables import summary_table
from rlexp.reports.formats.text_tables import TextTable, as_text_table, caption_notes
from rlexp.text import one_line, spelled, visible

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
    words = as_text_table(table)
    heading = rf"\caption{{{latex(table.title)}}}\label{{tab:{stem}}}"
    form = _long if len(words.rows) > LONG_TABLE else _short
    return "\n".join(form(heading, list(_divided(words)), words.notes)) + "\n"


def _short(heading: str, pieces: Sequence[TextTable], notes: Sequence[str]) -> Iterator[str]:
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


def _long(heading: str, pieces: Sequence[TextTable], notes: Sequence[str]) -> Iterator[str]:
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


def _divided(words: TextTable) -> Iterator[TextTable]:
    """Tables that are narrow enough, each of which begins with the first column."""
    widths = [_width(words, k) for k in range(len(words.titles))]
    kept = list(range(len(widths)))
    if sum(widths) > WIDE_TABLE:
        kept = kept[:1]
        for k in range(1, len(widths)):
            if len(kept) > 1 and sum(widths[j] for j in kept) + widths[k] > WIDE_TABLE:
                yield _chosen_columns(words, kept)
                kept = [0]
            kept.append(k)
    yield _chosen_columns(words, kept)


def _width(words: TextTable, column: int) -> int:
    """Characters of a column, the space beside it included."""
    cells = (words.titles[column], *(row[column] for row in words.rows))
    return min(LONG_CELL, max(map(len, cells))) + 3


def _chosen_columns(words: TextTable, columns: Sequence[int]) -> TextTable:
    return TextTable(
        titles=[words.titles[k] for k in columns],
        rows=[[row[k] for k in columns] for row in words.rows],
        numeric=[words.numeric[k] for k in columns],
        notes=words.notes,
    )


def _columns(words: TextTable) -> str:
    """The form of each column; columns of sentences share what the others leave of the line."""
    widths = [_width(words, k) for k in range(len(words.titles))]
    sentences = [_sentences(words, k) for k in range(len(words.titles))]
    others = sum(w for w, long in zip(widths, sentences, strict=True) if not long)
    share = max(0.15, (1 - others / LINE) / max(1, sum(sentences)) - 0.02)
    paragraph = rf">{{\raggedright\arraybackslash}}p{{{share:.2f}\linewidth}}"
    forms = zip(words.numeric, sentences, strict=True)
    return "".join("r" if right else paragraph if long else "l" for right, long in forms)


def _sentences(words: TextTable, column: int) -> bool:
    longest = max((len(row[column]) for row in words.rows), default=0)
    return not words.numeric[column] and longest > LONG_CELL


def _head(words: TextTable) -> str:
    titles = zip(words.titles, words.numeric, strict=True)
    return _row(rf"\multicolumn{{1}}{{{'r' if r else 'l'}}}{{{latex(t)}}}" for t, r in titles)


def _rows(words: TextTable) -> Iterator[str]:
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


SPECIAL: Mapping[str, str] = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "`": r"\textasciigrave{}",
}
"""What LaTeX reads as commands or, in some fonts, as another character."""

APART = re.compile(r"(?:^(?=[\[*])|(?<=-)(?=-)|(?<=,)(?=,)|(?<=')(?='))")
"""Places that must be kept apart: two of these characters become one, and a bracket or a star at
the beginning of a row becomes an argument of the end of the row before."""

BREAK = "\0"
"""Marks where a word may break; a visible text has no such character."""

SYMBOLS: Mapping[str, str] = {
    "−": "$-$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "≠": r"$\neq$",
    "≈": r"$\approx$",
    "∞": r"$\infty$",
    "→": r"$\rightarrow$",
    "←": r"$\leftarrow$",
    "√": r"$\surd$",
    "∑": r"$\sum$",
    "∈": r"$\in$",
    "°": r"\textdegree{}",
    "µ": r"\textmu{}",
    "†": r"\textdagger{}",
    "‡": r"\textdaggerdbl{}",
    "…": r"\ldots{}",
    "–": r"\textendash{}",
    "—": r"\textemdash{}",
    "‘": r"\textquoteleft{}",
    "’": r"\textquoteright{}",
    "“": r"\textquotedblleft{}",
    "”": r"\textquotedblright{}",
    "²": r"$^2$",
    "³": r"$^3$",
    "¹": r"$^1$",
    "⁻": r"$^-$",
    "₀": "$_0$",
    "₁": "$_1$",
    "₂": "$_2$",
    "½": r"\textonehalf{}",
    "ß": r"\ss{}",
    "æ": r"\ae{}",
    "Æ": r"\AE{}",
    "ø": r"\o{}",
    "Ø": r"\O{}",
    "ł": r"\l{}",
    "Ł": r"\L{}",
    "§": r"\S{}",
    "€": r"\texteuro{}",
    "©": r"\textcopyright{}",
    "✓": "yes",
    "✗": "no",
}

GREEK = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau "
    "upsilon phi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega"
)
"""Letters that have a command of their name; the others look like Latin ones."""

ACCENTS = {
    "\u0300": "`",
    "\u0301": "'",
    "\u0302": "^",
    "\u0303": "~",
    "\u0304": "=",
    "\u0306": "u",
    "\u0307": ".",
    "\u0308": '"',
    "\u030a": "r",
    "\u030b": "H",
    "\u030c": "v",
    "\u0327": "c",
}
"""Combining characters whose LaTeX command works with every letter."""


def latex(text: str) -> str:
    """A text in one line, with every character that commands LaTeX made harmless.

    What pdfLaTeX has no letter for is given by its number (`[U+1F916]`).
    """
    return _set(one_line(text))


def breakable(text: str) -> str:
    """The same, with places where a word of more than 25 characters may break."""
    return _set(re.sub(r"[^ ]{25}(?=[^ ])", rf"\g<0>{BREAK}", one_line(text)))


def verbatim(text: str) -> str:
    """Lines as they are, in the typewriter font; long ones break between words."""
    return "\n".join(_line(visible(line)) for line in text.splitlines())


def _line(line: str) -> str:
    pieces = re.split(r"(^ +| {2,})", line)
    shown = ("~" * len(p) if p.isspace() else breakable(p) for p in pieces)
    return rf"\mbox{{}}{''.join(shown)}\\"


def _set(line: str) -> str:
    pieces = APART.split(spelled(line, _known))
    return "{}".join("".join(map(_escaped, piece)) for piece in pieces)


def _known(character: str) -> bool:
    return character.isascii() or _letter(character) is not None


def _escaped(character: str) -> str:
    if character == BREAK:
        return r"\allowbreak{}"
    if character.isascii():
        return SPECIAL.get(character) or character
    return _letter(character) or ""


def _letter(character: str) -> str | None:
    return SYMBOLS.get(character) or _greek(character) or _accented(character)


def _greek(character: str) -> str | None:
    words = unicodedata.name(character, "").split(" ")
    if len(words) != 4 or words[0] != "GREEK" or words[2] != "LETTER":
        return None
    name = words[3].lower().replace("lamda", "lambda")
    name = name.capitalize() if words[1] == "CAPITAL" else name
    return rf"$\{name}$" if name in GREEK.split(" ") else None


def _accented(character: str) -> str | None:
    pair = unicodedata.normalize("NFD", character)
    if len(pair) != 2 or not (pair[0].isascii() and pair[0].isalpha()) or pair[1] not in ACCENTS:
        return None
    return rf"\{ACCENTS[pair[1]]}{{{pair[0]}}}"


TONES = {Tone.NOTE: "Note", Tone.GOOD: "Result", Tone.WARNING: "Warning", Tone.PROBLEM: "Problem"}

FLOATS = 12
"""Tables and figures after which those that wait are printed: LaTeX can hold 52."""

PREAMBLE = r"""\documentclass[11pt,a4paper]{article}
\usepackage[T1]{fontenc}
\usepackage[utf8]{inputenc}
\IfFileExists{lmodern.sty}{\usepackage{lmodern}}{}
\usepackage{array,booktabs,graphicx,longtable}
\usepackage[margin=19mm]{geometry}
\setlength{\parindent}{0pt}
\setlength{\parskip}{6pt}
\setlength{\belowcaptionskip}{4pt}
\frenchspacing
\emergencystretch=3em
\newcommand{\drawn}[1]{%
  \resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{\includegraphics{#1}}}"""


def render(study: Study, figures: str = "figures") -> Mapping[str, bytes]:
    """A file for each table and figure (`NAME.tex`), and `report.tex` that inputs them all.

    The document needs pdfLaTeX or LuaLaTeX with the packages array, booktabs, geometry, graphicx
    and longtable. It includes every figure that it finds drawn (`NAME.pdf`), and in place of
    another a table of its end points.

    Args:
        study: What is told.
        figures: Folder of the drawn figures, relative to the document.

    Raises:
        ConfigError: LaTeX cannot read a folder of this name.
    """
    if not re.fullmatch(r"[A-Za-z0-9./_+-]+", figures):
        raise ConfigError(
            f"LaTeX cannot include figures from {figures!r}; choose a folder whose name has only "
            "letters, digits, dots, dashes, underscores and slashes"
        )
    stems = file_stems(study)
    files = {
        f"{stems[block.name]}.tex": table_file(_table(block), stems[block.name])
        for block in drawn_blocks(study)
    }
    files["report.tex"] = "\n".join(_document(study, stems, figures)) + "\n"
    return {name: content.encode() for name, content in files.items()}


def _table(block: Table | Figure) -> Table:
    return block if isinstance(block, Table) else summary_table(block)


def _document(study: Study, stems: Mapping[str, str], figures: str) -> Iterator[str]:
    yield PREAMBLE
    yield rf"\newcommand{{\figures}}{{{figures}}}"
    yield rf"\title{{{breakable(study.title)}}}"
    yield rf"\author{{{breakable(study.subtitle) or '~'}}}"
    yield rf"\date{{rlexp {latex(study.version)}}}"
    yield from (r"\begin{document}", r"\maketitle")
    yield from (_notice(Tone.PROBLEM, f"Check failed: {text}") for text in study.failed_checks)
    floats = count(1)
    for part in study.parts:
        yield from _part(part, stems, floats)
    yield r"\end{document}"


def _part(part: Part, stems: Mapping[str, str], floats: Iterator[int]) -> Iterator[str]:
    yield rf"\section{{{breakable(part.title)}}}"
    for block in part.blocks:
        yield from _block(block, stems)
        if isinstance(block, Table | Figure) and next(floats) % FLOATS == 0:
            yield r"\clearpage"


def _block(block: Block, stems: Mapping[str, str]) -> Iterator[str]:
    match block:
        case Text():
            yield rf"{breakable(block.text)}\par"
        case Notice():
            yield _notice(block.tone, block.text)
        case Listing():
            yield rf"\subsection*{{{breakable(block.title)}}}"
            yield r"{\footnotesize\ttfamily\raggedright\parskip=0pt"
            yield from (verbatim(block.text), r"\par}")
        case Table():
            yield rf"\input{{{stems[block.name]}.tex}}"
        case _:
            yield from _figure(block, stems[block.name])


def _notice(tone: Tone, text: str) -> str:
    return rf"\begin{{quote}}\textbf{{{TONES[tone]}.}} {breakable(text)}\end{{quote}}"


def _figure(figure: Figure, stem: str) -> Iterator[str]:
    caption = " ".join([f"{figure.title.rstrip('.')}.", *caption_notes(figure)])
    yield rf"\IfFileExists{{\figures/{stem}.pdf}}{{%"
    yield from (r"\begin{figure}[!htbp]", r"\centering")
    yield rf"\drawn{{\figures/{stem}.pdf}}"
    yield rf"\caption{{{breakable(caption)}}}\label{{fig:{stem}}}"
    yield rf"\end{{figure}}}}{{\input{{{stem}.tex}}}}"
