"""The report as Markdown: its content, and the escaping of names."""

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from study_blocks import impossible, interval
from study_samples import HOSTILE, SAMPLES, hostile, typical

from rlexp.reports.drawing.blocks import (
    Axis,
    Block,
    Callout,
    Coordinate,
    FigureLine,
    LineFigure,
    ParallelFigure,
    PointSeries,
    ReportDocument,
    ScatterFigure,
    SectionContent,
    Table,
    TableColumn,
    Tone,
    TrialLine,
    VerbatimText,
)
from rlexp.reports.formats.markdown import fenced, inline, render
from rlexp.text import one_line

READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def _report(*blocks: Block, folded: bool = False) -> str:
    part = SectionContent(name="p", title="Scores", blocks=blocks, folded=folded)
    study = ReportDocument(title="A study", subtitle="", labels=(), parts=(part,), version="0.1.0")
    text = render(study)["report.md"].decode()
    return text.removeprefix("# A study\n\n## Scores\n\n").removesuffix(
        "\n\nWritten by rlexp 0.1.0.\n"
    )


def _words(markdown: str) -> list[str]:
    """The visible text of each paragraph, heading and cell."""
    return [
        "".join(child.content for child in token.children or [])
        for token in READER.parse(markdown)
        if token.type == "inline"
    ]


def test_a_table_has_intervals_and_notes() -> None:
    """Numbers are aligned right, and the mark † is explained below."""
    table = Table(
        name="t",
        title="Aggregates",
        columns=(
            TableColumn(title="label"),
            TableColumn(title="IQM"),
            TableColumn(title="runs", digits=0),
        ),
        rows=(("ppo", interval(0.8, 0.1, coverage=0.88), 12_000), ("a2c", impossible(0.5), None)),
        note="Over 3 tasks.",
    )
    expected = (
        "### Aggregates\n\n"
        "| label | IQM | runs |\n"
        "| :--- | ---: | ---: |\n"
        "| ppo | 0.80 \\[0.70, 0.90\\] † | 12,000 |\n"
        "| a2c | 0.50 ‡ | — |\n\n"
        "Over 3 tasks.\n\n"
        "95 % interval, method t, 50,000 repetitions, seed 0.\n\n"
        "† Too narrow: its expected coverage is 88 %.\n\n"
        "‡ No interval: one run has no spread; a second seed would give an interval."
    )
    assert expected == _report(table)


def test_a_notice_is_a_quote() -> None:
    """A notice is an alert with its tone, which GitHub shows."""
    expected = "> [!WARNING]\n> 2 runs failed."
    assert expected == _report(Callout(tone=Tone.WARNING, text="2 runs\nfailed."))


def test_a_listing_is_fenced() -> None:
    """A listing that contains a fence stays one listing."""
    expected = "### Patch\n\n````\n```\na  b\n````"
    assert expected == _report(VerbatimText(name="l", title="Patch", text="```\na  b\n"))


def test_a_folded_part_opens_on_demand() -> None:
    """The heading of a folded section stays visible."""
    expected = "<details><summary>Show</summary>\n\n> [!NOTE]\n> x\n\n</details>"
    assert expected == _report(Callout(tone=Tone.NOTE, text="x"), folded=True)


def test_a_figure_becomes_a_table() -> None:
    """Without drawn figures a table has the last value of each aggregate, and no single run."""
    line = FigureLine(label="ppo", x=(0.0, 2e4, 3e4), y=(1.0, 250.5, None), low=(0.5, 200.0, None))
    figure = LineFigure(
        name="f",
        title="CartPole-v1",
        x=Axis(title="steps"),
        y=Axis(title="return"),
        lines=(replace(line, faint=True), replace(line, high=(2.0, 300.0, None))),
        note="IQM.",
    )
    expected = (
        "### CartPole-v1\n\n"
        "| label | steps | return | low | high |\n"
        "| :--- | ---: | ---: | ---: | ---: |\n"
        "| ppo | 20,000 | 250 | 200 | 300 |\n\n"
        "IQM."
    )
    assert expected == _report(figure)


def test_points_become_counts_and_ranges() -> None:
    """The table has the count and range of each series, and the number of points not shown."""
    figure = ScatterFigure(
        name="f",
        title="History",
        x=Axis(title="steps", log=True),
        y=Axis(title="return"),
        clouds=(
            PointSeries(
                label="complete", x=(1.0, 2.0, 0.0), y=(1.5, 20.0, 3.0), names=("", "", "")
            ),
            PointSeries(label="failed", x=(), y=(), names=()),
        ),
        lines=(FigureLine(label="best", x=(1.0, 2.0), y=(1.5, 20.0)),),
    )
    expected = (
        "### History\n\n"
        "| label | points | least return | greatest return |\n"
        "| :--- | ---: | ---: | ---: |\n"
        "| complete | 3 | 1.5 | 20.0 |\n"
        "| failed | 0 | — | — |\n"
        "| best | 2 | 1.5 | 20.0 |\n\n"
        "1 point is not shown (not finite, or outside the axes)."
    )
    assert expected == _report(figure)


def test_trials_become_columns() -> None:
    """The table has the marked trials, or else those with the highest and the lowest value."""
    threads = tuple(
        TrialLine(name=f"trial {k}", values=(10.0**-k, float(k % 2)), value=value, marked=k == 2)
        for k, value in enumerate((3.0, -12345.6, 7.0, None))
    )
    figure = ParallelFigure(
        name="f",
        title="Threads",
        coordinates=(Coordinate(title="rate"), Coordinate(title="choice", names=("a", "b"))),
        threads=threads,
        colour=Axis(title="return"),
    )
    head = "### Threads\n\n| — | trial 2 |\n| :--- | :--- |\n"
    rows = "| return | 7 |\n| rate | 0.01 |\n| choice | a |\n\n1 of 4 has no value (grey)."
    assert f"{head}{rows}".replace("| — |", "|  |") == _report(figure)
    without_marks = replace(figure, threads=tuple(replace(t, marked=False) for t in threads))
    assert "|  | trial 2 | trial 1 |" in _report(without_marks)
    assert "| return | 7 | −12,346 |" in _report(without_marks)
    assert "Nothing." in _report(replace(figure, threads=()))


def test_drawn_figures_are_linked() -> None:
    """With drawn figures, links to their files replace the tables."""
    text = render(typical(), figures="my figures")["report.md"].decode()
    assert "![CartPole-v1](my%20figures/curves-1.svg)" in text
    expected = "![Probability of improvement](my%20figures/improvement.svg)\n\nHow often a run of "
    assert f"{expected}the row beats a run of the column.\n\nn = 10.\n\n95 % interval" in text


def test_failed_checks_stand_first() -> None:
    """Checks that `--strict` refuses are listed first."""
    text = render(replace(typical(), failed_checks=("2 runs failed", "seeds")))["report.md"]
    assert b"\n\n> [!CAUTION]\n> Failed checks:\n>\n> - 2 runs failed\n> - seeds\n\n## " in text


def test_an_empty_table_says_so() -> None:
    """A table without rows says so."""
    assert "### No row\n\nNothing." == _report(
        Table(name="t", title="No row", columns=(), rows=())
    )


def test_hostile_names_are_only_words() -> None:
    """No name becomes HTML, a link, a formula or a table."""
    markdown = render(hostile())["report.md"].decode()
    kinds = {t.type for token in READER.parse(markdown) for t in [token, *(token.children or [])]}
    html = [t.content for t in READER.parse(markdown) if t.type == "html_block"]
    assert {"<details><summary>Show</summary>\n", "</details>\n"} == set(html)
    assert not kinds & {"html_inline", "link_open", "image", "code_inline", "em_open", "s_open"}
    assert "$" not in markdown
    assert set(map(one_line, HOSTILE)) <= set(_words(markdown))


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_every_table_of_a_study_is_read_as_one(name: str) -> None:
    """A Markdown parser finds every table with all its rows."""
    markdown = render(SAMPLES[name]())["report.md"].decode()
    tokens = [token.type for token in READER.parse(markdown)]
    lines = markdown.splitlines()
    assert sum(line.startswith(("| :--", "| --")) for line in lines) == (
        tokens.count("table_open")
    )
    assert sum(line.startswith("|") for line in lines) == (
        tokens.count("tr_open") + tokens.count("table_open")
    )


@example(text="<div")
@example(text="<!-- a")
@example(text="[a]: b")
@example(text="&amp; &#36;")
@example(text="1) a")
@given(text=st.text())
def test_any_text_is_shown_as_it_is(text: str) -> None:
    """A paragraph, a heading and a cell show any text with single spaces."""
    if line := one_line(text):
        assert [line] == _words(inline(text))
        assert [line] == _words(f"## {inline(text)}")
        assert ["h", line] == _words(f"| h |\n| :--- |\n| {inline(text)} |")


@given(text=st.text(st.sampled_from("*_`~[]()<>#|!\\-+=:.1 &;@$ab\n")))
def test_any_markup_is_shown_as_it_is(text: str) -> None:
    """A text that consists only of markup is shown as text."""
    if line := one_line(text):
        assert [line] == _words(inline(text))
        assert ["h", line] == _words(f"| h |\n| :--- |\n| {inline(text)} |")


@given(text=st.text(st.sampled_from("`~ ab\n")))
def test_any_listing_is_shown_as_it_is(text: str) -> None:
    """A listing that contains fences is one listing."""
    (token,) = READER.parse(fenced(text))
    assert "\n".join(text.splitlines()) == token.content.removesuffix("\n")
