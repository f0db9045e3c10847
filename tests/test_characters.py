"""Control characters and characters without a glyph are replaced in texts."""

from hypothesis import given
from hypothesis import strategies as st

from rlexp.text import (
    one_line,
    shorten_middle,
    spell_missing_characters,
    without_control_characters,
)


def test_controls_are_replaced() -> None:
    """A tab becomes a space; escape sequences and lone surrogates are replaced."""
    assert "a b�[31m�" == without_control_characters("a\tb\x1b[31m\ud800")


def test_joined_emoji_stay_joined() -> None:
    """The joiner of an emoji is not a control character."""
    assert "👩‍🔬" == without_control_characters("👩‍🔬")


def test_a_line_has_single_spaces() -> None:
    """Line breaks and runs of spaces become one space."""
    assert "a b" == one_line("  a \r\n\u2028 b ")


def test_unknown_characters_are_spelled() -> None:
    """Adjacent characters without a glyph are spelled in one pair of brackets."""
    assert "[U+1F916 U+05E1] ppo [U+03C4]" == spell_missing_characters("🤖ס ppo τ", str.isascii)


def test_a_long_text_loses_its_middle() -> None:
    """A shortened text keeps its beginning and its end."""
    assert "abcdef…xyz" == shorten_middle("abcdefghijklmnopqrstuvwxyz", 10)
    assert "abcdefghij" == shorten_middle("abcdefghij", 10)


@given(text=st.text(), length=st.integers(3, 40))
def test_a_shortened_text_is_short(text: str, length: int) -> None:
    """A shortened text is never longer than requested."""
    assert len(shorten_middle(text, length)) <= length
