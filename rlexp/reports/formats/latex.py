"""The report as LaTeX: one file for each table, and a document with all tables and figures.

The module has three parts: tables (`table_file`), escaping of text (`latex`, `breakable`,
`verbatim`), and the document (`render`).
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count

from rlexp.errors import ConfigError
from rlexp.reports.drawing.blocks import (
    Block,
    Callout,
    Figure,
    ReportDocument,
    SectionContent,
    Table,
    Text,
    Tone,
    VerbatimText,
)
from rlexp.reports.drawing.file_names import drawn_blocks, file_stems
from rlexp.reports.formats.figure_tables import summary_table
from rlexp.reports.formats.text_tables import TextTable, as_text_table, caption_notes
from rlexp.text import one_line, spell_missing_characters, without_control_characters

LONG_TABLE = 40
"""Number of rows above which a table may continue on the next page."""

LONG_CELL = 40
"""Number of characters in a cell above which its column has line breaks."""

LINE = 110
"""Characters of a line in small print."""

WIDE_TABLE = 160
"""Characters of a row above which the columns are divided among several tables."""


def table_file(table: Table, stem: str) -> str:
    """A table with its caption, its label (`tab:STEM`) and its notes.

    The file needs the packages array, booktabs and graphicx, and longtable for more than 40 rows.
    A table that is wider than the line is scaled down; one that would become too small is divided
    into several tables with some of the columns.
    """
    table_text = as_text_table(table)
    heading = rf"\caption{{{latex(table.title)}}}\label{{tab:{stem}}}"
    form = _long if len(table_text.rows) > LONG_TABLE else _short
    return "\n".join(form(heading, list(_divided(table_text)), table_text.notes)) + "\n"


def _short(heading: str, pieces: Sequence[TextTable], notes: Sequence[str]) -> Iterator[str]:
    yield from (r"\begin{table}[!htbp]", r"\centering", r"\small", heading)
    for number, piece in enumerate(pieces):
        yield from [r"\par\medskip"] if number else []
        # Scaled only if it is wider than the line: a table that fits keeps its size.
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


def _divided(table_text: TextTable) -> Iterator[TextTable]:
    """The columns divided among narrow tables; each table repeats the first column."""
    widths = [_width(table_text, k) for k in range(len(table_text.titles))]
    kept = list(range(len(widths)))
    if sum(widths) > WIDE_TABLE:
        kept = kept[:1]
        for k in range(1, len(widths)):
            if len(kept) > 1 and sum(widths[j] for j in kept) + widths[k] > WIDE_TABLE:
                yield _chosen_columns(table_text, kept)
                kept = [0]
            kept.append(k)
    yield _chosen_columns(table_text, kept)


def _width(table_text: TextTable, column: int) -> int:
    """Width of a column in characters, including the space beside it."""
    cells = (table_text.titles[column], *(row[column] for row in table_text.rows))
    return min(LONG_CELL, max(map(len, cells))) + 3


def _chosen_columns(table_text: TextTable, columns: Sequence[int]) -> TextTable:
    return TextTable(
        titles=[table_text.titles[k] for k in columns],
        rows=[[row[k] for k in columns] for row in table_text.rows],
        numeric=[table_text.numeric[k] for k in columns],
        notes=table_text.notes,
    )


def _columns(table_text: TextTable) -> str:
    """LaTeX's column specification; columns with long texts share the width that is left."""
    widths = [_width(table_text, k) for k in range(len(table_text.titles))]
    sentences = [_has_long_text(table_text, k) for k in range(len(table_text.titles))]
    others = sum(w for w, is_long in zip(widths, sentences, strict=True) if not is_long)
    share = max(0.15, (1 - others / LINE) / max(1, sum(sentences)) - 0.02)
    paragraph = rf">{{\raggedright\arraybackslash}}p{{{share:.2f}\linewidth}}"
    forms = zip(table_text.numeric, sentences, strict=True)
    return "".join("r" if right else paragraph if is_long else "l" for right, is_long in forms)


def _has_long_text(table_text: TextTable, column: int) -> bool:
    longest = max((len(row[column]) for row in table_text.rows), default=0)
    return not table_text.numeric[column] and longest > LONG_CELL


def _head(table_text: TextTable) -> str:
    titles = zip(table_text.titles, table_text.numeric, strict=True)
    return _row(rf"\multicolumn{{1}}{{{'r' if r else 'l'}}}{{{latex(t)}}}" for t, r in titles)


def _rows(table_text: TextTable) -> Iterator[str]:
    if not table_text.rows:
        yield rf"\multicolumn{{{len(table_text.titles)}}}{{l}}{{nothing}} \\"
    for row in table_text.rows:
        yield _row(map(_cell, row, table_text.numeric))


def _cell(text: str, right: bool) -> str:
    """A cell; in a column of numbers, † and ‡ do not shift the digits."""
    if right and text.endswith((" †", " ‡")):
        return rf"{breakable(text[:-2])}\rlap{{\,{latex(text[-1])}}}"
    return breakable(text)


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
"""Characters that LaTeX reads as commands or, in some fonts, as other characters."""

SEPARATED = re.compile(r"(?:^(?=[\[*])|(?<=-)(?=-)|(?<=,)(?=,)|(?<=')(?='))")
"""Positions where `{}` is inserted: LaTeX would join two such characters into one, and would
read a bracket or a star at the beginning of a row as an argument of the line break before it."""

BREAK = "\0"
"""Marks a possible line break in a word; escaped texts never contain this character."""

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
"""Greek letters with a LaTeX command; the others look like Latin letters."""

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
    """A text on one line with all special characters of LaTeX escaped.

    A character that pdfLaTeX cannot print is written as its code point (`[U+1F916]`).
    """
    return _set(one_line(text))


def breakable(text: str) -> str:
    """The escaped text in which words of more than 25 characters may break."""
    return _set(re.sub(r"[^ ]{25}(?=[^ ])", rf"\g<0>{BREAK}", one_line(text)))


def verbatim(text: str) -> str:
    """The lines of a text for the typewriter font; long lines break between words."""
    return "\n".join(_line(without_control_characters(line)) for line in text.splitlines())


def _line(line: str) -> str:
    # LaTeX joins spaces into one, so indentation and columns need `~`.
    pieces = re.split(r"(^ +| {2,})", line)
    shown = ("~" * len(p) if p.isspace() else breakable(p) for p in pieces)
    # The empty box keeps leading spaces and empty lines, which LaTeX would drop or refuse.
    return rf"\mbox{{}}{''.join(shown)}\\"


def _set(line: str) -> str:
    pieces = SEPARATED.split(spell_missing_characters(line, _has_letter))
    return "{}".join("".join(map(_escaped, piece)) for piece in pieces)


def _has_letter(character: str) -> bool:
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
    name_parts = unicodedata.name(character, "").split(" ")
    if len(name_parts) != 4 or name_parts[0] != "GREEK" or name_parts[2] != "LETTER":
        return None
    # Unicode spells this letter LAMDA.
    name = name_parts[3].lower().replace("lamda", "lambda")
    name = name.capitalize() if name_parts[1] == "CAPITAL" else name
    return rf"$\{name}$" if name in GREEK.split(" ") else None


def _accented(character: str) -> str | None:
    # NFD splits an accented letter into its letter and a combining accent.
    pair = unicodedata.normalize("NFD", character)
    if len(pair) != 2 or not (pair[0].isascii() and pair[0].isalpha()) or pair[1] not in ACCENTS:
        return None
    return rf"\{ACCENTS[pair[1]]}{{{pair[0]}}}"


TONES = {Tone.NOTE: "Note", Tone.GOOD: "Result", Tone.WARNING: "Warning", Tone.PROBLEM: "Problem"}

FLOATS = 12
"""Number of tables and figures after which `\\clearpage` prints them: LaTeX can hold 52."""

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


def render(study: ReportDocument, figures: str = "figures") -> Mapping[str, bytes]:
    """One file for each table and figure (`NAME.tex`), and `report.tex` that includes them all.

    The document needs pdfLaTeX or LuaLaTeX with the packages array, booktabs, geometry, graphicx
    and longtable. It includes each drawn figure that it finds (`NAME.pdf`), and a table in place
    of a figure that it does not find.

    Args:
        study: The report.
        figures: Folder of the drawn figures, relative to the document.

    Raises:
        ConfigError: LaTeX cannot read a folder with this name.
    """
    # The name stands in a macro without escapes, where other characters would be commands.
    if not re.fullmatch(r"[A-Za-z0-9./_+-]+", figures):
        raise ConfigError(
            f"LaTeX cannot include figures from {figures!r}: choose a folder whose name contains "
            "only letters, digits, dots, dashes, underscores and slashes"
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


def _document(study: ReportDocument, stems: Mapping[str, str], figures: str) -> Iterator[str]:
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


def _part(part: SectionContent, stems: Mapping[str, str], floats: Iterator[int]) -> Iterator[str]:
    yield rf"\section{{{breakable(part.title)}}}"
    for block in part.blocks:
        yield from _block(block, stems)
        if isinstance(block, Table | Figure) and next(floats) % FLOATS == 0:
            yield r"\clearpage"


def _block(block: Block, stems: Mapping[str, str]) -> Iterator[str]:
    match block:
        case Text():
            yield rf"{breakable(block.text)}\par"
        case Callout():
            yield _notice(block.tone, block.text)
        case VerbatimText():
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
