"""Finds the commands and outputs that a page of the documentation shows."""

import re
from pathlib import Path

BLOCK = re.compile(r"^```(?P<kind>[^\n]+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"[-−]?\d[\d,]*(\.\d+)?")
IDENTITY = re.compile(r"\b[0-9a-f]{6,64}\b")


def blocks(page: str, kind: str) -> list[str]:
    """The code blocks of a kind on a page, in order; `bash tour` are commands that work as pasted."""
    return [match["text"] for match in BLOCK.finditer(page) if match["kind"] == kind]


FILE = re.compile(
    r"^`(?P<name>[\w./-]+)`:\n\n```\w+\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
NAMED_INSIDE = re.compile(
    r"^```(?:python|yaml)\n(?P<text># (?P<name>[\w/-]+\.(?:py|yaml))\b.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
"""A file whose first line is a comment with its name."""
PROMPT = "$ "
SHELLS = {"bash", "console", "sh"}


def files(page: str) -> dict[str, str]:
    """The files that a page shows, each with its name above it or in its first line, by their names."""
    matches = [*FILE.finditer(page), *NAMED_INSIDE.finditer(page)]
    return {match["name"]: match["text"] for match in matches}


def write_files(page: str, folder: Path) -> None:
    """Write the files that a page shows into a folder."""
    for name, text in files(page).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def commands(page: str, *other_kinds: str) -> list[str]:
    """The commands in all shell blocks of a page but those of other kinds, in order.

    A command is what was typed up to the end of a line, or of a here-document. In a block `console`,
    only lines behind a prompt are commands.
    """
    shown = set(files(page).values())
    found: list[str] = []
    for match in BLOCK.finditer(page):
        kind, text = match["kind"], match["text"]
        if kind.split()[0] in SHELLS and kind not in other_kinds and text not in shown:
            found += _typed(text, kind.startswith("console"))
    return found


def _typed(text: str, prompted: bool) -> list[str]:
    """The commands of a block, each with its continued lines."""
    found, rest = [], text.splitlines()
    while rest:
        line = rest.pop(0)
        if prompted and not line.startswith(PROMPT):
            continue
        command = line.removeprefix(PROMPT) if prompted else line
        while command.endswith("\\"):
            command = f"{command}\n{rest.pop(0)}"
        if command.strip() and not command.startswith("#"):
            found.append(command)
    return found


def shape(line: str) -> str:
    """A line of output without the parts that differ between machines: numbers, ids, spaces."""
    return " ".join(NUMBER.sub("0", IDENTITY.sub("0", line)).split())


def lines_not_printed(page: str, output: str) -> list[str]:
    """The lines in the page's blocks `text tour` that an output lacks, except for their numbers."""
    printed = {shape(line) for line in output.splitlines()}
    shown = [line for text in blocks(page, "text tour") for line in text.splitlines()]
    return [line for line in shown if line.strip() and shape(line) not in printed]
