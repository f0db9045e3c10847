"""The report as Markdown, for a repository, an issue or a pull request on GitHub."""

import re
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import quote

from rlexp.reports.drawing.blocks import (
    Block,
    Callout,
    ReportDocument,
    SectionContent,
    Table,
    Text,
    Tone,
    VerbatimText,
)
from rlexp.reports.drawing.file_names import file_stems
from rlexp.reports.formats.figure_tables import summary_table
from rlexp.reports.formats.text_tables import TextTable, as_text_table, caption_notes
from rlexp.text import one_line, without_control_characters

ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;", "$": "&#36;", "@": "&#64;", "|": "&#124;"}
"""Characters written as entities: HTML, formulas and table cells are parsed before backslashes."""

MARKUP = frozenset("\\`*_{}[]~#")

BEGINNING = re.compile(r"^(?:[-+=](?=[-+=\s]|$)|\d{1,9}(?=[.)](?:\s|$)))")
"""Beginnings of a line that Markdown reads as a list, a rule or a heading."""


def inline(text: str) -> str:
    """A text escaped on one line, for a paragraph, a heading or a table cell."""
    escaped = "".join(map(_escaped, one_line(text)))
    return BEGINNING.sub(_set_off, escaped)


def fenced(text: str) -> str:
    """A text as a code block, with a fence longer than any run of backticks in the text."""
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([fence, *map(without_control_characters, text.splitlines()), fence])


def _escaped(character: str) -> str:
    return ENTITIES.get(character) or (f"\\{character}" if character in MARKUP else character)


def _set_off(match: re.Match[str]) -> str:
    word = match.group()
    # In `1.` the backslash belongs before the dot: Markdown escapes punctuation, not digits.
    return f"{word}\\" if word.isdigit() else f"\\{word}"


ALERTS = {
    Tone.NOTE: "NOTE",
    Tone.GOOD: "TIP",
    Tone.WARNING: "WARNING",
    Tone.PROBLEM: "CAUTION",
}
"""GitHub's names of alerts by tone."""


def render(study: ReportDocument, figures: str | None = None) -> Mapping[str, bytes]:
    """The report as `report.md`.

    Args:
        study: The report.
        figures: Folder of the drawn figures (`NAME.svg`), relative to the report. None: each
            figure is replaced by a table.
    """
    stems = file_stems(study) if figures else {}
    images = {name: f"{quote(figures or '')}/{stem}.svg" for name, stem in stems.items()}
    blocks = [
        f"# {_title(study.title)}",
        inline(study.subtitle),
        *_answer(study),
        *_failed(study),
        *_notes(study),
    ]
    for part in study.parts:
        blocks.extend(_part(part, images))
    blocks.append(f"Written by rlexp {inline(study.version)}.")
    text = "\n\n".join(block for block in blocks if block)
    return {"report.md": f"{text}\n".encode(errors="replace")}


def _answer(study: ReportDocument) -> Iterator[str]:
    """The card as text: answer, basis, cost and missing runs, and the next commands."""
    card = study.card
    if card is None:
        return
    lines = [f"**{inline(card.text)}.**", inline(card.basis)]
    lines += [f"{inline(name)}: {inline(text)}." for name, text in card.facts]
    yield _alert(card.tone, ["\\\n> ".join(line for line in lines if line)])
    for step in card.commands:
        yield f"To {inline(step.why)}:"
        yield fenced(step.command)


def _notes(study: ReportDocument) -> Iterator[str]:
    if study.tags:
        yield f"Tags: {inline(', '.join(study.tags))}"
    for name, date, text in study.notes:
        yield f"Note on {inline(name)}, {inline(date)}: {inline(text)}"


def _failed(study: ReportDocument) -> Iterator[str]:
    if study.failed_checks:
        items = (f"- {inline(text)}" for text in study.failed_checks)
        yield _alert(Tone.PROBLEM, ["Failed checks:", "", *items])


def _part(part: SectionContent, images: Mapping[str, str]) -> Iterator[str]:
    yield f"## {_title(part.title)}"
    if part.folded:
        yield "<details><summary>Show</summary>"
    for block in part.blocks:
        yield from _block(block, images)
    if part.folded:
        yield "</details>"


def _block(block: Block, images: Mapping[str, str]) -> Iterator[str]:
    match block:
        case Text():
            yield inline(block.text)
        case Callout():
            yield _alert(block.tone, [inline(block.text)])
        case VerbatimText():
            yield f"### {_title(block.title)}"
            yield fenced(block.text)
        case Table():
            yield from _table(block, as_text_table(block).notes)
        case _ if image := images.get(block.name):
            yield f"### {_title(block.title)}"
            yield f"![{inline(block.title)}]({image})"
            yield from map(inline, caption_notes(block))
        case _:
            yield from _table(summary_table(block), list(caption_notes(block)))


def _title(text: str) -> str:
    return inline(text) or "—"


def _alert(tone: Tone, lines: Sequence[str]) -> str:
    return "\n".join(f"> {line}".rstrip() for line in (f"[!{ALERTS[tone]}]", *lines))


def _table(table: Table, notes: Sequence[str]) -> Iterator[str]:
    text_table = as_text_table(table)
    yield f"### {_title(table.title)}"
    yield "\n".join(_rows(text_table)) if table.rows else "Nothing."
    yield from map(inline, notes)


def _rows(text_table: TextTable) -> Iterator[str]:
    yield _row(text_table.titles)
    yield f"| {' | '.join('---:' if right else ':---' for right in text_table.numeric)} |"
    yield from map(_row, text_table.rows)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(inline, cells))} |"
