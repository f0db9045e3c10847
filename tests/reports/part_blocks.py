"""What stands in a part of a report, picked out for tests."""

from typing import TypeVar

from evidence_samples import inquiry

from rlexp.reports.drawing.blocks import Block, Callout, SectionContent, Table, Text, Tone, Value
from rlexp.reports.evidence.runs import Evidence
from rlexp.reports.sections import Section

Kind = TypeVar("Kind", bound=Block)


def part_of(section: Section, evidence: Evidence, **settings: object) -> SectionContent:
    """The part that a section computes, which must be there."""
    found = section.part(inquiry(evidence, **settings))
    assert found is not None
    return found


def of_kind(part: SectionContent, kind: type[Kind]) -> list[Kind]:
    """The blocks of one kind."""
    return [block for block in part.blocks if isinstance(block, kind)]


def notices(part: SectionContent) -> list[tuple[Tone, str]]:
    """Tones and words of the notices."""
    return [(notice.tone, notice.text) for notice in of_kind(part, Callout)]


def texts(part: SectionContent) -> list[str]:
    """The paragraphs."""
    return [text.text for text in of_kind(part, Text)]


def table(part: SectionContent, name: str) -> Table:
    """The table of this name."""
    return next(own for own in of_kind(part, Table) if own.name == name)


def column(own: Table, title: str) -> list[Value]:
    """The cells under a title."""
    position = [c.title for c in own.columns].index(title)
    return [row[position] for row in own.rows]
