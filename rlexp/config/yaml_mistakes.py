"""Mistakes in yaml files in words: the line, and what was expected there."""

from typing import Any

MEANINGS = {
    "mapping values are not allowed here": (
        "expected one KEY: VALUE; keys of one mapping begin in the same column, and a value "
        "with ': ' in it needs quotes"
    ),
    "found character '\\t' that cannot start any token": "expected spaces, and found a tab",
    "found unexpected end of stream": "expected the closing quotation mark of a text",
}
"""What was expected, by the problem that PyYAML reports."""
BEGINNINGS = {
    "expected ',' or ']'": "expected a comma or ] in a list; a value with brackets needs quotes",
    "expected ',' or '}'": "expected a comma or } in a mapping; a value with braces needs quotes",
    "expected <block end>": (
        "expected a line that begins in the same column as the lines before it, and nothing "
        "behind a closing bracket"
    ),
    "found character": "expected quotes around a value that begins with such a character",
}
"""What was expected, by the beginning of the problem."""


def describe_yaml_error(error: Exception) -> str:
    """The line of a mistake in a yaml file and what was expected; one line.

    Args:
        error: An error of PyYAML, of reading the file or of decoding its text.
    """
    problem = getattr(error, "problem", None)
    mark = getattr(error, "problem_mark", None)
    if problem is None or mark is None:
        return " ".join(str(error).split())
    expected = MEANINGS.get(problem) or next(
        (meaning for start, meaning in BEGINNINGS.items() if problem.startswith(start)), None
    )
    sentence = problem if expected is None else f"{expected} ({problem})"
    return f"line {mark.line + 1}: {sentence}{_beginning(error, mark.line)}"


def _beginning(error: Any, line: int) -> str:
    """Where the list, mapping or text begins that has the mistake, if in an earlier line."""
    mark = getattr(error, "context_mark", None)
    return "" if mark is None or mark.line == line else f"; it begins in line {mark.line + 1}"
