"""Finds the commands and outputs that a page of the documentation shows."""

import re

BLOCK = re.compile(r"^```(?P<kind>[^\n]+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"[-−]?\d[\d,]*(\.\d+)?")
IDENTITY = re.compile(r"\b[0-9a-f]{6,64}\b")


def blocks(page: str, kind: str) -> list[str]:
    """The code blocks of a kind on a page, in order; `bash tour` are commands that work as pasted."""
    return [match["text"] for match in BLOCK.finditer(page) if match["kind"] == kind]


def shape(line: str) -> str:
    """A line of output without the parts that differ between machines: numbers, ids, spaces."""
    return " ".join(NUMBER.sub("0", IDENTITY.sub("0", line)).split())


def lines_not_printed(page: str, output: str) -> list[str]:
    """The lines in the page's blocks `text tour` that an output lacks, except for their numbers."""
    printed = {shape(line) for line in output.splitlines()}
    shown = [line for text in blocks(page, "text tour") for line in text.splitlines()]
    return [line for line in shown if line.strip() and shape(line) not in printed]
