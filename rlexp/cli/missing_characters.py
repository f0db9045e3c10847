"""Spells characters that the encoding of standard output lacks, so that a result is still printed."""

import codecs
import sys
from io import TextIOWrapper

from rlexp.text import is_utf_8

SPELLINGS = {
    **dict(zip("━•●┄│┤└─┬−–—·×†“”‘’", "=o#-|++-+---|x+\"\"''", strict=True)),
    "…": "...",
    "±": "+/-",
    "≥": ">=",
    "≤": "<=",
    "≠": "!=",
}
"""ASCII characters in place of those that rlexp prints; the marks of charts have one each."""
NAME = "rlexp-spelling"
"""The name of the handler of encoding errors."""


def spell_missing(error: UnicodeError) -> tuple[str, int]:
    """The spelling of the characters that cannot be encoded, and where encoding goes on."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    return "".join(SPELLINGS.get(character, "?") for character in missing), error.end


def spell_on_standard_output() -> None:
    """Let standard output spell what its encoding lacks; without this, printing it is an error."""
    if isinstance(sys.stdout, TextIOWrapper) and not is_utf_8(sys.stdout.encoding):
        codecs.register_error(NAME, spell_missing)
        sys.stdout.reconfigure(errors=NAME)
