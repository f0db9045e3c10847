"""Characters that cannot be shown, and what stands for them."""

import unicodedata
from collections.abc import Callable
from itertools import groupby

NOWHERE = frozenset({"Cc", "Cs"})
"""Categories of characters without a glyph and without a place in a file: controls, surrogates."""

TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that turn the text behind them around, so that it reads as what it is not."""

SPACES = frozenset({"Zs", "Zl", "Zp"})


def visible(text: str) -> str:
    """A text without characters that control what is shown: a space or � stands for each."""
    return "".join(map(_visible, text))


def one_line(text: str) -> str:
    """A visible text without line breaks, and with one space between words."""
    return " ".join(visible(text).split())


def spelled(text: str, known: Callable[[str], bool]) -> str:
    """A text whose unknown characters are given by their numbers (`[U+1F916]`).

    What is told apart by such characters stays so, where a box in place of each would not do.
    """
    runs = ((has, "".join(run)) for has, run in groupby(text, known))
    return "".join(run if has else f"[{_numbers(run)}]" for has, run in runs)


def shortened(text: str, length: int) -> str:
    """A text of at most so many characters: what is too much in its middle is left out."""
    if len(text) <= length:
        return text
    tail = length // 3
    return f"{text[: length - tail - 1]}…{text[len(text) - tail :]}"


def _numbers(characters: str) -> str:
    return " ".join(f"U+{ord(c):04X}" for c in characters)


def _visible(character: str) -> str:
    category = unicodedata.category(character)
    if category in SPACES or character in "\t\n\r\v\f":
        return " "
    return "�" if category in NOWHERE or character in TURNING else character
