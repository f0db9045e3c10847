"""Plain text as LaTeX that shows it as it is, with pdfLaTeX as with LuaLaTeX."""

import re
import unicodedata
from collections.abc import Mapping

from rlexp.reports.characters import one_line, spelled, visible

SPECIAL: Mapping[str, str] = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "`": r"\textasciigrave{}",
}
"""What LaTeX reads as commands or, in some fonts, as another character."""

APART = re.compile(r"(?:^(?=[\[*])|(?<=-)(?=-)|(?<=,)(?=,)|(?<=')(?='))")
"""Places that must be kept apart: two of these characters become one, and a bracket or a star at
the beginning of a row becomes an argument of the end of the row before."""

BREAK = "\0"
"""Marks where a word may break; a visible text has no such character."""

SYMBOLS: Mapping[str, str] = {
    "−": "$-$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "≠": r"$\neq$",
    "≈": r"$\approx$",
    "∞": r"$\infty$",
    "→": r"$\rightarrow$",
    "←": r"$\leftarrow$",
    "√": r"$\surd$",
    "∑": r"$\sum$",
    "∈": r"$\in$",
    "°": r"\textdegree{}",
    "µ": r"\textmu{}",
    "†": r"\textdagger{}",
    "‡": r"\textdaggerdbl{}",
    "…": r"\ldots{}",
    "–": r"\textendash{}",
    "—": r"\textemdash{}",
    "‘": r"\textquoteleft{}",
    "’": r"\textquoteright{}",
    "“": r"\textquotedblleft{}",
    "”": r"\textquotedblright{}",
    "²": r"$^2$",
    "³": r"$^3$",
    "¹": r"$^1$",
    "⁻": r"$^-$",
    "₀": "$_0$",
    "₁": "$_1$",
    "₂": "$_2$",
    "½": r"\textonehalf{}",
    "ß": r"\ss{}",
    "æ": r"\ae{}",
    "Æ": r"\AE{}",
    "ø": r"\o{}",
    "Ø": r"\O{}",
    "ł": r"\l{}",
    "Ł": r"\L{}",
    "§": r"\S{}",
    "€": r"\texteuro{}",
    "©": r"\textcopyright{}",
    "✓": "yes",
    "✗": "no",
}

GREEK = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau "
    "upsilon phi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega"
)
"""Letters that have a command of their name; the others look like Latin ones."""

ACCENTS = {
    "\u0300": "`",
    "\u0301": "'",
    "\u0302": "^",
    "\u0303": "~",
    "\u0304": "=",
    "\u0306": "u",
    "\u0307": ".",
    "\u0308": '"',
    "\u030a": "r",
    "\u030b": "H",
    "\u030c": "v",
    "\u0327": "c",
}
"""Combining characters whose LaTeX command works with every letter."""


def latex(text: str) -> str:
    """A text in one line, with every character that commands LaTeX made harmless.

    What pdfLaTeX has no letter for is given by its number (`[U+1F916]`).
    """
    return _set(one_line(text))


def breakable(text: str) -> str:
    """The same, with places where a word of more than 25 characters may break."""
    return _set(re.sub(r"[^ ]{25}(?=[^ ])", rf"\g<0>{BREAK}", one_line(text)))


def verbatim(text: str) -> str:
    """Lines as they are, in the typewriter font; long ones break between words."""
    return "\n".join(_line(visible(line)) for line in text.splitlines())


def _line(line: str) -> str:
    pieces = re.split(r"(^ +| {2,})", line)
    shown = ("~" * len(p) if p.isspace() else breakable(p) for p in pieces)
    return rf"\mbox{{}}{''.join(shown)}\\"


def _set(line: str) -> str:
    pieces = APART.split(spelled(line, _known))
    return "{}".join("".join(map(_escaped, piece)) for piece in pieces)


def _known(character: str) -> bool:
    return character.isascii() or _letter(character) is not None


def _escaped(character: str) -> str:
    if character == BREAK:
        return r"\allowbreak{}"
    if character.isascii():
        return SPECIAL.get(character) or character
    return _letter(character) or ""


def _letter(character: str) -> str | None:
    return SYMBOLS.get(character) or _greek(character) or _accented(character)


def _greek(character: str) -> str | None:
    words = unicodedata.name(character, "").split(" ")
    if len(words) != 4 or words[0] != "GREEK" or words[2] != "LETTER":
        return None
    name = words[3].lower().replace("lamda", "lambda")
    name = name.capitalize() if words[1] == "CAPITAL" else name
    return rf"$\{name}$" if name in GREEK.split(" ") else None


def _accented(character: str) -> str | None:
    pair = unicodedata.normalize("NFD", character)
    if len(pair) != 2 or not (pair[0].isascii() and pair[0].isalpha()) or pair[1] not in ACCENTS:
        return None
    return rf"\{ACCENTS[pair[1]]}{{{pair[0]}}}"
