"""The result of `rlexp gate` as Markdown, for the summary of a continuous-integration step."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rlexp.cli.judge.gate_words import answer, identity_text, test_text
from rlexp.text import format_score

if TYPE_CHECKING:
    from rlexp.app.commands.judge.gate import GateResult

SPECIAL = str.maketrans({c: f"\\{c}" for c in "\\`*_[]<>|#"})
"""Characters that Markdown would take for marks, with a backslash before them."""


def gate_markdown(result: "GateResult") -> str:
    """The decision, what it rests on, and a table of the scores, as Markdown."""
    return "\n".join([*_lines(result), ""])


def _lines(result: "GateResult") -> Iterator[str]:
    title = f"{result.label} on {result.task}: {result.decision}"
    yield from (f"### {_text(title)}", "", _text(answer(result)) + ".", "")
    if result.repeated is not None and not result.repeated.identical:
        yield from (_text(identity_text(result)) + ".", "")
    for change in result.changes:
        yield f"- changed: {_text(change)}"
    if result.changes:
        yield ""
    if result.runs:
        yield from _table(result)
        yield from ("", _text(test_text(result)) + ".", "")
    if result.warning:
        yield from (f"**Warning:** {_text(result.warning)}", "")
    yield f"Baseline: `{result.baseline}`, sum `{result.sum[:12]}`"


def _table(result: "GateResult") -> Iterator[str]:
    yield "| seed | baseline | now | tested |"
    yield "|---:|---:|---:|---|"
    for run in result.runs:
        now = run.state if run.score is None else format_score(run.score)
        tested = "yes" if run.tested else "no"
        yield f"| {run.seed} | {format_score(run.baseline)} | {now} | {tested} |"


def _text(text: str) -> str:
    return " ".join(text.split()).translate(SPECIAL)
