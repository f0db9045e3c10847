"""`rlexp diff`: shows in what two runs differ."""

import json
from typing import TYPE_CHECKING, Any

from rlexp.cli.options import Json, Run, console_for, here, show_result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlexp.app.commands.diff import ComparedRun, RunDifferences

PARTS = ("configuration", "code", "packages", "machine")


def diff(first: Run, second: Run, as_json: Json = False) -> None:
    """Show in what two runs differ: configuration, code, packages, machine."""
    from rlexp.app.commands.diff import diff as use_case

    show_result(use_case(first, second, here()), console_for(as_json=as_json), difference_lines)


def difference_lines(differences: "RunDifferences") -> "Iterator[str]":
    """Both runs, what differs part by part, and what is not known."""
    yield _run_line("-", differences.first)
    yield _run_line("+", differences.second)
    parts = {part: getattr(differences, part) for part in PARTS}
    for part, leaves in parts.items():
        if leaves:
            yield part
            for leaf in leaves:
                yield f"  {leaf.path}: {_value(leaf.first)} → {_value(leaf.second)}"
    same = [part for part, leaves in parts.items() if leaves is not None and not leaves]
    if len(same) == len(PARTS):
        yield "no difference"
    elif same:
        yield f"no difference in {', '.join(same)}"
    yield from differences.unknown


def _run_line(sign: str, run: "ComparedRun") -> str:
    score = f", score {run.score:,.2f}" if run.score is not None else ""
    return f"{sign} {run.run} ({run.state}{score})"


def _value(value: Any) -> str:
    if value is None:
        return "—"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
