"""Words in figures: what the font lacks, and names that are too long."""

import textwrap
from collections.abc import Iterable
from functools import cache

from rlexp.reports.characters import one_line, shortened, spelled

LETTER, BOLD, LINE = 0.066, 0.077, 0.14
"""Inches of a letter at 8 points, of one in a title, and of a line."""

LONGEST_LABEL = 28


def label(text: str) -> str:
    """The name of a label, short enough for a legend."""
    return within(text, LONGEST_LABEL)


def title(text: str, width: float) -> str:
    """A title in bold letters, in two lines of a width in inches at most."""
    return _two_lines(text, int(width / BOLD))


def axis_title(text: str, length: float) -> str:
    """The title of an axis of a length in inches, in two lines at most."""
    return _two_lines(text, int(length / LETTER))


def height(texts: Iterable[str]) -> float:
    """Inches that the tallest of some texts needs beyond one line."""
    return LINE * max((text.count("\n") for text in texts), default=0)


def _two_lines(text: str, length: int) -> str:
    first, *others = textwrap.wrap(written(text), length) or [""]
    return "\n".join([first, shortened(" ".join(others), length)] if others else [first])


def within(text: str, length: int) -> str:
    """A text of at most so many characters, all of which the font has."""
    return shortened(written(text), length)


def written(text: str) -> str:
    """A text that the font has every character of."""
    return spelled(one_line(text), lambda character: ord(character) in _characters())


@cache
def _characters() -> frozenset[int]:
    from matplotlib.font_manager import findfont, get_font

    return frozenset(get_font(findfont("DejaVu Sans")).get_charmap())
