"""Folds lines for a terminal: between words, never inside a command, and without spaces at their ends."""

import re
from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook, RenderResult
from rich.segment import Segment

INDENT = "  "
"""What further lines of a folded line have in front, in addition to the indentation of the first."""
COMMAND = re.compile(
    r"(?<=: )(?:[A-Z_]+=\S+ )?"
    r"(?:rlexp|git|pip|pipx|uv|python|optuna-dashboard|wandb sync|mlflow ui|tensorboard --logdir) .*$"
)
"""A command at the end of a line, which the user may paste into a shell."""
UNIT = re.compile(r"(\s*)((?:(?<!\w)'[^'\n]*'(?!\w)|\S)+)")
"""Spaces, and a word or a text in quotes. A command in quotes is only whole when nothing breaks it."""
SHELL_WORD = re.compile(r"(\s*)((?:'[^']*'|\"[^\"]*\"|\S)+)")
"""Spaces, and a word as the shell separates words."""
CONTINUED = " \\"
"""The end of a line of a command that the shell continues on the next line."""


def folded(line: str, width: int, indent: str = INDENT) -> Sequence[str]:
    """A line, folded between words.

    A text in quotes stays whole, and so does a word that is wider than the terminal. A command at
    the end of the line stays whole where it fits; else its lines end with a backslash, so that a
    shell accepts them.

    Args:
        line: The line.
        width: Columns of a line, at most.
        indent: What the further lines have in front, in addition to the indentation of the line.
    """
    if cell_len(line) <= width:
        return [line]
    deeper = line[: len(line) - len(line.lstrip())] + indent
    command = COMMAND.search(line)
    if command is None:
        return [*_filled(UNIT.findall(line), width, deeper)]
    *before, last = _filled(UNIT.findall(line[: command.start()]), width, deeper)
    beside = f"{last} {command[0]}"
    if cell_len(beside) <= width:
        return [*before, beside]
    words = SHELL_WORD.findall(f"{deeper}{command[0]}")
    whole = cell_len(deeper + command[0]) <= width
    lines = [*_filled(words, width - (0 if whole else len(CONTINUED)), deeper + INDENT)]
    return [*before, last, *(f"{part}{CONTINUED}" for part in lines[:-1]), lines[-1]]


def _filled(units: Iterable[tuple[str, str]], width: int, deeper: str) -> Iterator[str]:
    """Units with the spaces in front of them, as lines of at most `width` columns."""
    line = ""
    for spaces, unit in units:
        if line and cell_len(line + spaces + unit) > width:
            yield line
            line = deeper + unit
        else:
            line += spaces + unit
    yield line


class WithoutTrailingSpaces(RenderHook):
    """Removes the spaces at the ends of lines from everything that a console prints.

    Rich pads the cells of tables, and folds paragraphs behind a space. Such spaces are copied with
    the lines, and a terminal that becomes narrower folds them into empty lines.
    """

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """What is printed in place of each renderable."""
        return [_Stripped(renderable) for renderable in renderables]


class _Stripped:
    """A renderable whose lines have no spaces at their ends."""

    def __init__(self, renderable: ConsoleRenderable) -> None:
        self._renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The segments of the renderable, line by line."""
        for line, ended in _lines(console.render(self._renderable, options)):
            yield from _stripped(line)
            if ended:
                yield Segment.line()


def _lines(segments: Iterable[Segment]) -> Iterator[tuple[list[Segment], bool]]:
    """The segments of each line, and whether the line is ended by a line feed."""
    line: list[Segment] = []
    for text, style, control in segments:
        first, *others = text.split("\n") if control is None else [text]
        line.append(Segment(first, style, control))
        for other in others:
            yield line, True
            line = [Segment(other, style)]
    if line:
        yield line, False


def _stripped(line: list[Segment]) -> list[Segment]:
    while line and line[-1].control is None and not (kept := line[-1].text.rstrip(" ")):
        line.pop()
    if line and line[-1].control is None:
        line[-1] = Segment(kept, line[-1].style)
    return line
