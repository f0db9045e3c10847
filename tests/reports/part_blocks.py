"""Blocks in the content of a section, selected for tests."""

from typing import TypeVar

from evidence_samples import inquiry

from rlexp.reports.drawing.blocks import Block, Callout, SectionContent, Table, Text, Tone, Value
from rlexp.reports.evidence.runs import Evidence
from rlexp.reports.sections import Section

Kind = TypeVar("Kind", bound=Block)


def part_of(section: Section, evidence: Evidence, **settings: object) -> SectionContent:
    """The content of a section, which must exist."""
    part = section.part(inquiry(evidence, **settings))
    assert part is not None
    return part


def of_kind(part: SectionContent, kind: type[Kind]) -> list[Kind]:
    """The blocks of one kind."""
    return [block for block in part.blocks if isinstance(block, kind)]


def notices(part: SectionContent) -> list[tuple[Tone, str]]:
    """Tone and text of each notice."""
    return [(notice.tone, notice.text) for notice in of_kind(part, Callout)]


def texts(part: SectionContent) -> list[str]:
    """The texts of the paragraphs."""
    return [text.text for text in of_kind(part, Text)]


def table(part: SectionContent, name: str) -> Table:
    """The table of this name."""
    return next(block for block in of_kind(part, Table) if block.name == name)


def column(block: Table, title: str) -> list[Value]:
    """The cells of the column with this title."""
    position = [c.title for c in block.columns].index(title)
    return [row[position] for row in block.rows]
