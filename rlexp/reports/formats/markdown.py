"""The report as Markdown, for a repository, an issue or a pull request on GitHub."""

import re
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import quote

from rlexp.reports.drawing.blocks import (
    Block,
    Listing,
    Notice,
    Part,
    Study,
    Table,
    Text,
    Tone,
)
from rlexp.reports.drawing.file_names import file_stems
from rlexp.reports.formats.figure_tables import summary_table
from rlexp.reports.formats.text_tables import TextTable, as_text_table, caption_notes
from rlexp.text import one_line, visible

ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;", "$": "&#36;", "@": "&#64;", "|": "&#124;"}
"""Written as entities: what reads HTML, formulas or cells first sees no backslash before them."""

MARKUP = frozenset("\\`*_{}[]~#")

BEGINNING = re.compile(r"^(?:[-+=](?=[-+=\s]|$)|\d{1,9}(?=[.)](?:\s|$)))")
"""What makes a list, a rule or a heading where a line begins with it."""


def inline(text: str) -> str:
    """A text in one line, for a paragraph, a heading or a cell of a table."""
    escaped = "".join(map(_escaped, one_line(text)))
    return BEGINNING.sub(_set_off, escaped)


def fenced(text: str) -> str:
    """A text as it is, behind a fence that is longer than any within."""
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([fence, *map(visible, text.splitlines()), fence])


def _escaped(character: str) -> str:
    return ENTITIES.get(character) or (f"\\{character}" if character in MARKUP else character)


def _set_off(match: re.Match[str]) -> str:
    word = match.group()
    return f"{word}\\" if word.isdigit() else f"\\{word}"


ALERTS = {
    Tone.NOTE: "NOTE",
    Tone.GOOD: "TIP",
    Tone.WARNING: "WARNING",
    Tone.PROBLEM: "CAUTION",
}
"""GitHub's names of what its readers know as a note, a tip, a warning and a caution."""


def render(study: Study, figures: str | None = None) -> Mapping[str, bytes]:
    """The study as `report.md`.

    Args:
        study: What is told.
        figures: Folder of the drawn figures (`NAME.svg`), relative to the report. Without one,
            each figure's end points stand in a table.
    """
    stems = file_stems(study) if figures else {}
    images = {name: f"{quote(figures or '')}/{stem}.svg" for name, stem in stems.items()}
    blocks = [f"# {_words(study.title)}", inline(study.subtitle), *_failed(study)]
    for part in study.parts:
        blocks.extend(_part(part, images))
    blocks.append(f"Written by rlexp {inline(study.version)}.")
    text = "\n\n".join(block for block in blocks if block)
    return {"report.md": f"{text}\n".encode(errors="replace")}


def _failed(study: Study) -> Iterator[str]:
    if study.failed_checks:
        items = (f"- {inline(text)}" for text in study.failed_checks)
        yield _alert(Tone.PROBLEM, ["Failed checks:", "", *items])


def _part(part: Part, images: Mapping[str, str]) -> Iterator[str]:
    yield f"## {_words(part.title)}"
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
        case Notice():
            yield _alert(block.tone, [inline(block.text)])
        case Listing():
            yield f"### {_words(block.title)}"
            yield fenced(block.text)
        case Table():
            yield from _table(block, as_text_table(block).notes)
        case _ if image := images.get(block.name):
            yield f"### {_words(block.title)}"
            yield f"![{inline(block.title)}]({image})"
            yield from map(inline, caption_notes(block))
        case _:
            yield from _table(summary_table(block), list(caption_notes(block)))


def _words(text: str) -> str:
    return inline(text) or "—"


def _alert(tone: Tone, lines: Sequence[str]) -> str:
    return "\n".join(f"> {line}".rstrip() for line in (f"[!{ALERTS[tone]}]", *lines))


def _table(table: Table, notes: Sequence[str]) -> Iterator[str]:
    words = as_text_table(table)
    yield f"### {_words(table.title)}"
    yield "\n".join(_rows(words)) if table.rows else "Nothing."
    yield from map(inline, notes)


def _rows(words: TextTable) -> Iterator[str]:
    yield _row(words.titles)
    yield f"| {' | '.join('---:' if right else ':---' for right in words.numeric)} |"
    yield from map(_row, words.rows)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(inline, cells))} |"
