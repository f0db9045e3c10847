"""The report as LaTeX: its content, the escaping of hostile names, and compilation."""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from in_full import long
from study_blocks import impossible, interval
from study_samples import SAMPLES, hostile, one_run, typical

from rlexp.errors import ConfigError
from rlexp.reports.drawing.blocks import (
    Block,
    ReportDocument,
    SectionContent,
    Table,
    TableColumn,
    Text,
    VerbatimText,
)
from rlexp.reports.formats.latex import breakable, latex, render, verbatim

BROAD = "".join(map(chr, range(0x20, 0x250))) + "".join(map(chr, range(0x370, 0x400)))
SYMBOLS = "−±×·≤≥≠≈∞→←√∑∈°µ†‡…–—‘’“”²³¹⁻₀₁₂½§€©✓✗"


def _study(*blocks: Block) -> ReportDocument:
    part = SectionContent(name="p", title="Scores", blocks=blocks)
    return ReportDocument(title="A study", subtitle="", labels=(), parts=(part,), version="0.1.0")


def _table(rows: int, columns: int = 2) -> Table:
    titles = tuple(TableColumn(title=f"column {k}") for k in range(columns))
    return Table(name="t", title="T", columns=titles, rows=(tuple(range(columns)),) * rows)


def _compiled(files: dict[str, bytes], folder: Path) -> str:
    """The log of pdflatex, which stops at the first error."""
    if not shutil.which("pdflatex"):
        pytest.skip("pdflatex is not installed")
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "report.tex"]
    process = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    log = (folder / "report.log").read_text(errors="replace")
    assert 0 == process.returncode, log[-2000:]
    return log


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("50 % & #1_x", r"50 \% \& \#1\_x"),
        (r"\begin{x}$y$", r"\textbackslash{}begin\{x\}\$y\$"),
        (
            "a~b^c<d>|",
            r"a\textasciitilde{}b\textasciicircum{}c\textless{}d\textgreater{}\textbar{}",
        ),
        ("a--b ''c'' 1,000", "a-{}-b '{}'c'{}' 1,000"),
        ("[0, 1] at 3", "{}[0, 1] at 3"),
        ("*a", "{}*a"),
        ("τ − Δ é š …", r"$\tau$ $-$ $\Delta$ \'{e} \v{s} \ldots{}"),
        ("🤖 ס a", "{}[U+1F916] [U+05E1] a"),
        ("a ħ", "a [U+0127]"),
        ("a\n\n b\x00", "a b[U+FFFD]"),
    ],
)
def test_characters_lose_their_power(text: str, expected: str) -> None:
    """Every special character of LaTeX is escaped."""
    assert expected == latex(text)


def test_long_words_may_break() -> None:
    """A word may break after every 25 characters."""
    assert r"a-b " + "x" * 25 + r"\allowbreak{}" + "x" * 5 == breakable("a-b " + "x" * 30)


def test_lines_keep_their_spaces() -> None:
    """A listing keeps its lines and spaces."""
    assert r"\mbox{}if x:\\" + "\n" + r"\mbox{}~~y~~= 1 \# a\\" == verbatim("if x:\n  y  = 1 # a")


def test_a_table_is_one_file() -> None:
    """The file has the caption, label, rules, intervals with marks, and notes."""
    table = Table(
        name="a/b",
        title="Score_1",
        columns=(TableColumn(title="label"), TableColumn(title="IQM")),
        rows=(("ppo", interval(-0.8, 0.1, coverage=0.88)), ("[a]", impossible(0.5))),
        note="Over 3 tasks.",
    )
    expected = r"""\begin{table}[!htbp]
\centering
\small
\caption{Score\_1}\label{tab:a-b}
\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%
\begin{tabular}{lr}
\toprule
\multicolumn{1}{l}{label} & \multicolumn{1}{r}{IQM} \\
\midrule
ppo & $-$0.80 [$-$0.90, $-$0.70]\rlap{\,\textdagger{}} \\
{}[a] & 0.50\rlap{\,\textdaggerdbl{}} \\
\bottomrule
\end{tabular}}
\par\smallskip
\begin{minipage}{\linewidth}\footnotesize\raggedright
Over 3 tasks.\par
95 \% interval, method t, 50,000 repetitions, seed 0.\par
\textdagger{} Too narrow: its expected coverage is 88 \%.\par
\textdaggerdbl{} No interval: one run has no spread; a second seed would give an interval.\par
\end{minipage}
\end{table}
"""
    assert expected == render(_study(table))["a-b.tex"].decode()


def test_a_long_table_runs_over_pages() -> None:
    """A table with more than 40 rows is not a float."""
    short, long = (render(_study(_table(n)))["t.tex"].decode() for n in (40, 41))
    assert ("longtable" in short, "longtable" in long) == (False, True)
    assert 41 == long.count("0 & 1")


def test_a_wide_table_is_divided() -> None:
    """Every piece begins with the first column, and no column is lost."""
    content = render(_study(_table(1, 26)))["t.tex"].decode()
    pieces = re.findall(r"\\midrule\n(.*) \\\\", content)
    cells = [[int(cell) for cell in piece.split(" & ")] for piece in pieces]
    assert 2 == len(cells)
    assert [0, 0] == [row[0] for row in cells]
    assert list(range(1, 26)) == [cell for row in cells for cell in row[1:]]


def test_the_document_holds_every_table_and_figure() -> None:
    """The document includes every table, and each figure whose file exists."""
    files = render(typical(), figures="../figures")
    document = files["report.tex"].decode()
    assert r"\newcommand{\figures}{../figures}" in document
    assert {f"{stem}.tex" for stem in re.findall(r"\\input{(.*?).tex}", document)} == (
        set(files) - {"report.tex"}
    )
    assert r"\IfFileExists{\figures/improvement.pdf}{%" in document
    expected = "Probability of improvement. How often a run of the row beats a run of the column. "
    assert rf"\caption{{{expected}n = 10. 95 \% interval" in document


def test_a_folder_that_latex_cannot_read_is_refused() -> None:
    """The error names the folder of the figures."""
    with pytest.raises(ConfigError, match=r"figures from 'my 50%': choose a folder"):
        render(typical(), figures="my 50%")


@pytest.mark.parametrize(
    "name",
    [
        *("typical", "many_labels", "hostile", "empty", "sweep"),
        *(
            pytest.param(name, marks=long)
            for name in ("one_run", "all_impossible", "logarithmic", "hostile_sweep", "one_trial")
        ),
    ],
)
def test_it_compiles(name: str, tmp_path: Path) -> None:
    """LaTeX compiles every sample without an undefined reference or a missing character."""
    log = _compiled(dict(render(SAMPLES[name]())), tmp_path)
    assert (tmp_path / "report.pdf").stat().st_size > 5_000
    assert not re.findall(r"Missing character|undefined", log)


def test_every_character_compiles(tmp_path: Path) -> None:
    """LaTeX compiles Latin, Greek and symbols in texts, tables and listings."""
    words = [f"{c} {c}{c}" for c in BROAD + SYMBOLS]
    table = Table(
        name="t",
        title="[*] " + SYMBOLS,
        columns=(TableColumn(title="x"), TableColumn(title="y")),
        rows=tuple((word, word) for word in words),
    )
    listing = VerbatimText(name="l", title=SYMBOLS, text="\n".join(words))
    study = replace(_study(Text(text=" ".join(words)), table, listing), title=SYMBOLS)
    log = _compiled(dict(render(study)), tmp_path)
    assert not re.findall(r"Missing character|undefined", log)


def test_many_tables_compile(tmp_path: Path) -> None:
    """LaTeX compiles a report with more tables than the 52 floats that it holds."""
    tables = (replace(_table(30), name=f"t{k}") for k in range(60))
    _compiled(dict(render(_study(*tables))), tmp_path)


def test_drawn_figures_are_included(tmp_path: Path) -> None:
    """A drawn figure is in the document in place of its table."""
    figures = pytest.importorskip("rlexp.reports.figures")
    pytest.importorskip("matplotlib")
    (part,) = one_run().parts
    study = replace(one_run(), parts=(replace(part, blocks=part.blocks[2:]),))
    figure_files = figures.draw_figures(study, ("pdf",))
    assert {"curve.pdf", "pairs.pdf"} == set(figure_files)
    files = {f"figures/{name}": content for name, content in figure_files.items()}
    log = _compiled({**render(study), **files}, tmp_path)
    included = re.findall(r"<(?:\./)?figures/([a-z-]+)\.pdf", log)
    assert {name.removesuffix(".pdf") for name in figure_files} <= set(included)


def test_hostile_names_cannot_command() -> None:
    """No name opens a group, begins an environment or ends a line early."""
    for content in render(hostile()).values():
        text = re.sub(r"\\[\\{}%&#_$]", "", content.decode())
        assert text.count("{") == text.count("}")
        assert r"\begin{x}" not in text
