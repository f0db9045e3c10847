"""Words that several surfaces share have one form."""

import re
from pathlib import Path

import pytest

import rlexp
from rlexp.text import first_sentence, format_p_value, format_percentage


@pytest.mark.parametrize(
    ("p", "text"),
    [(0.007936507, "p = 0.00794"), (0.5, "p = 0.5"), (1.0, "p = 1"), (0.00009, "p < 0.0001")],
)
def test_a_p_value_has_three_significant_digits(p: float, text: str) -> None:
    """A p-value that is too small for a reader is given as a bound."""
    assert text == format_p_value(p)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Runs are missing. a2c has 2 of 5.", ("Runs are missing.", "a2c has 2 of 5.")),
        ("The score is 0.5 of 1.", ("The score is 0.5 of 1.", "")),
        ("Runs: Two of five.", ("Runs: Two of five.", "")),
        ("", ("", "")),
    ],
)
def test_the_first_sentence_ends_at_its_full_stop(text: str, parts: tuple[str, str]) -> None:
    """A decimal point or a colon ends no sentence, and a sentence may begin with a label."""
    assert parts == first_sentence(text)


SOURCES = [
    path
    for path in sorted(Path(rlexp.__file__).parent.rglob("*.py"))
    # These hold style sheets, in which a per cent sign touches its number.
    if path.name not in {"html_console.py", "figures.py", "html.py"}
]


def test_every_percentage_has_one_form() -> None:
    """No text of rlexp writes a per cent sign right behind a number, as `95%`, or formats its own."""
    own = re.compile(r"\{[^{}]*:[^{}]*%\}|\d%(?=[\s.,;:)`\"]|$)", re.MULTILINE)
    found = {path.name: own.findall(path.read_text()) for path in SOURCES}
    assert {} == {name: texts for name, texts in found.items() if texts}


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.95, "95 %"),
        (0.005, "0.5 %"),
        (1.0, "100 %"),
        (0.9875, "98.75 %"),
        (0.99975, "99.98 %"),
        (0.9999999, "99.99999 %"),
        (2.78e-7, "< 0.01 %"),
        (0.0, "0 %"),
    ],
)
def test_a_percentage_keeps_what_a_level_needs(share: float, text: str) -> None:
    """A percentage has a space before its sign, and small levels are not rounded to 0."""
    assert text == format_percentage(share)
