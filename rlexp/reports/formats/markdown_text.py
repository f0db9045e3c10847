"""Plain text as Markdown that shows it as it is, on GitHub and elsewhere."""

import re

from rlexp.reports.characters import one_line, visible

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
