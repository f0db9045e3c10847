"""The report as LaTeX: a file for each table, and a document that holds them and the figures."""

import re
from collections.abc import Iterator, Mapping
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
from rlexp.reports.formats.cells import caption_notes
from rlexp.reports.formats.end_points import end_points
from rlexp.reports.formats.latex_tables import table_file
from rlexp.reports.formats.latex_text import breakable, latex, verbatim

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
    return block if isinstance(block, Table) else end_points(block)


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
