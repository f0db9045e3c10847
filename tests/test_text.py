"""Words that several surfaces share have one form."""

import pytest

from rlexp.text import first_sentence, format_p_value


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
