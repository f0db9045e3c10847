"""Blocks of a report are printed in full on terminals of any width."""

import io
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console as RichConsole

from rlexp.console.blocks import cell, show_blocks
from rlexp.reports.drawing.blocks import (
    Axis,
    Block,
    Callout,
    LineFigure,
    ParallelFigure,
    ScatterFigure,
    Table,
    TableColumn,
    Text,
    Tone,
    Value,
    VerbatimText,
)
from rlexp.stats.interval import Interval

LABEL, SCORE = TableColumn(title="label", label=True), TableColumn(title="mean score", digits=1)


def interval(
    estimate: float, low: float | None, high: float | None, **changes: object
) -> Interval:
    """An interval, of three runs unless n is given."""
    defaults: dict[str, Any] = {"level": 0.95, "method": "t", "repetitions": 0, "n": 3, **changes}
    return Interval(estimate=estimate, low=low, high=high, **defaults)


def terminal_output(*blocks: Block, width: int = 80) -> str:
    """The output of these blocks on a terminal of this width."""
    out = RichConsole(
        file=io.StringIO(), width=width, force_terminal=True, color_system=None, highlight=False
    )
    show_blocks(out, blocks)
    assert isinstance(out.file, io.StringIO)
    return "\n".join(line.rstrip() for line in out.file.getvalue().splitlines())


def table(*rows: tuple[Value, ...], columns: tuple[TableColumn, ...] = (LABEL, SCORE)) -> Table:
    """A table with these rows."""
    return Table(name="sample", title="A table", columns=columns, rows=rows, note="A note.")


@pytest.mark.parametrize(
    ("value", "digits", "expected"),
    [
        (None, 2, "—"),
        (True, 2, "yes"),
        (False, 2, "no"),
        (12345, 2, "12,345"),
        (-1234.5, 2, "−1,234.50"),
        (0.00004, 4, "0.0000"),
        (float("nan"), 2, "not a number"),
        ("as it is", 2, "as it is"),
        (interval(1.0, 0.5, 1.5, coverage=0.93), 1, "1.0 [0.5, 1.5]"),
        (interval(1.0, 0.5, 1.5, coverage=0.8), 1, "1.0 [0.5, 1.5]†"),
        (interval(1.0, None, None, reason="one run shows no spread"), 1, "1.0 [—]"),
    ],
)
def test_values_in_cells(value: Value, digits: int, expected: str) -> None:
    """A cell has the formatted value; a missing value is never 0."""
    assert expected == cell(value, TableColumn(title="any", digits=digits))


def test_a_table_fits_a_wide_terminal() -> None:
    """Numbers are right-aligned, text is left-aligned; the title is above and the note below."""
    text = terminal_output(table(("ppo", 1.0), ("a2c", None)))
    expected = [
        "A table",
        "label  mean score",
        "ppo           1.0",
        "a2c             —",
        "A note.",
    ]
    assert expected == text.splitlines()


def test_a_table_is_transposed_on_a_narrow_terminal() -> None:
    """Each row becomes a column, and as many columns as fit are printed side by side."""
    columns = (LABEL, *(TableColumn(title=title, digits=0) for title in ("IQM", "mean", "median")))
    low, high = interval(1.0, 0.0, 2.0, n=5), interval(3.0, 2.0, 4.0, n=5)
    wide_table = table(*((name, low, low, high) for name in ("a", "b", "c")), columns=columns)
    expected = """\
A table
label   a         b
IQM     1 [0, 2]  1 [0, 2]
mean    1 [0, 2]  1 [0, 2]
median  3 [2, 4]  3 [2, 4]

label   c
IQM     1 [0, 2]
mean    1 [0, 2]
median  3 [2, 4]
A note.
95 % interval, method t."""
    assert expected == terminal_output(wide_table, width=26)
    assert expected == terminal_output(wide_table, width=34)
    assert "label       IQM      mean    median\na      1 [0, 2]" in terminal_output(
        wide_table, width=35
    )


def test_text_folds_before_the_table_is_transposed() -> None:
    """A long text cell gets several lines, and numbers stay on one line."""
    source = TableColumn(title="source")
    text = terminal_output(
        table(("ppo", 1.0, "mean of a thousand episodes"), columns=(LABEL, SCORE, source)),
        width=40,
    )
    assert "ppo           1.0  mean of a thousand\n" in text
    assert "                   episodes\n" in text


@given(
    values=st.lists(
        st.tuples(st.text("abc xyz", min_size=1), st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)),
        min_size=1,
        max_size=5,
    ),
    width=st.integers(20, 120),
)
def test_no_number_is_split(values: list[tuple[str, float, float]], width: int) -> None:
    """At every width each number is on one line, and no line is too long."""
    columns = (LABEL, SCORE, TableColumn(title="another"))
    text = terminal_output(table(*values, columns=columns), width=width)
    assert all(len(line) <= width for line in text.splitlines())
    for _, first, second in values:
        assert cell(first, SCORE) in text
        assert cell(second, columns[2]) in text


def test_empty_tables_are_shown() -> None:
    """A table without rows shows its columns at every width."""
    assert "label  mean score" in terminal_output(table())
    assert "lab" in terminal_output(table(), width=11)


def test_reasons_stand_below_a_table() -> None:
    """The reason for a missing interval is printed once, and † is explained."""
    missing = interval(1.0, None, None, reason="one run shows no spread")
    text = terminal_output(
        table(("a", missing), ("b", missing), ("c", interval(1, 0, 2, coverage=0.8)))
    )
    assert 1 == text.count("[—] No interval: one run shows no spread.")
    assert "† Too narrow: its expected coverage is 80 %." in text


def test_warnings_are_marked_without_colour() -> None:
    """A warning begins with `Warning:`; a verdict has no prefix."""
    notices = [Callout(tone=tone, text="text") for tone in Tone]
    assert ["text", "text", "Warning: text", "Problem: text"] == terminal_output(
        *notices
    ).splitlines()


def test_blocks_are_separated_by_one_empty_line() -> None:
    """An empty line separates tables and blocks of different kinds, not blocks of one kind."""
    notice, text = Callout(tone=Tone.NOTE, text="n"), Text(text="t")
    assert "t\nt\n\nn\nn\n\nA table" in terminal_output(
        text, text, notice, notice, table(("a", 1.0))
    )
    assert not terminal_output(table()).startswith("\n")


def test_figures_are_left_out() -> None:
    """A terminal shows no figure and no gap in its place."""
    axis = Axis(title="steps")
    figure = LineFigure(name="f", title="F", x=axis, y=axis, lines=())
    text = Text(text="t")
    listing = VerbatimText(name="l", title="L", text="x")
    points = ScatterFigure(name="s", title="S", x=axis, y=axis, clouds=())
    threads = ParallelFigure(name="p", title="P", coordinates=(), threads=(), colour=axis)
    assert "t\nt" == terminal_output(text, figure, points, threads, listing, text)


def test_output_to_a_pipe_is_not_folded() -> None:
    """Each row is one line of output to a pipe."""
    out = RichConsole(file=io.StringIO(), width=10_000, highlight=False)
    long_text = "word " * 100
    show_blocks(out, [Text(text=long_text), table((long_text, 1.0))])
    assert isinstance(out.file, io.StringIO)
    lines = out.file.getvalue().splitlines()
    assert long_text == lines[0]
    assert 1 == sum(line.startswith(long_text.strip()) for line in lines[1:])


@pytest.mark.parametrize("width", [16, 200])
def test_hostile_text_is_harmless(width: int) -> None:
    """Control characters are replaced, and markup is printed as text."""
    hostile = "[red]\x1b[2J\x07[/red]"
    row = (hostile, 1.0)
    blocks = (Callout(tone=Tone.NOTE, text=hostile), Text(text=hostile), table(row))
    text = terminal_output(*blocks, width=width)
    assert not re.search("[\x07\x1b]", text)
    assert 3 == text.count("[red]")


def test_notices_have_a_hanging_indent() -> None:
    """Further lines of a notice are indented, and no word is lost."""
    text = "a difference of 80 that no chance explains, with all its reasons"
    lines = terminal_output(Callout(tone=Tone.WARNING, text=text), width=30).splitlines()
    assert len(lines) > 2
    assert all(line.startswith("  ") and len(line) <= 30 for line in lines[1:])
    assert f"Warning: {text}".split() == " ".join(lines).split()


def test_a_long_table_is_cut_and_names_the_rows_that_are_left_out() -> None:
    """The first 200 rows are printed, and a line says how many more there are and where."""
    lines = terminal_output(table(*(((f"l{k}", 1.0)) for k in range(1_230))), width=100).split(
        "\n"
    )
    assert any(line.startswith("l199 ") for line in lines)
    assert not any(line.startswith("l200 ") for line in lines)
    assert "1,030 more rows are not printed here; add --json for all rows." in lines
