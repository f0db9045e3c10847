"""`rlexp diff`: shows the differences between two runs."""

import json
from typing import TYPE_CHECKING

from rlexp.cli.options import Json, RunName, console_for, current_workspace, show_result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlexp.app.commands.look.diff import ComparedRun, RunDifferences

PARTS = ("configuration", "code", "packages", "machine")


def diff(first: RunName, second: RunName, as_json: Json = False) -> None:
    """Show the differences between two runs.

    Compares their configuration, code, packages and machine.
    """
    from rlexp.app.commands.look.diff import diff as use_case

    show_result(
        use_case(first, second, current_workspace()),
        console_for(as_json=as_json),
        difference_lines,
    )


def difference_lines(differences: "RunDifferences") -> "Iterator[str]":
    """Both runs, their differences part by part, and the parts that are unknown, as lines."""
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
        yield "no differences"
    elif same:
        yield f"no differences in {', '.join(same)}"
    yield from differences.unknown


def _run_line(sign: str, run: "ComparedRun") -> str:
    from rlexp.text import format_score

    score = f", score {format_score(run.score)}" if run.score is not None else ""
    return f"{sign} {run.run} ({run.state}{score})"


def _value(value: object) -> str:
    if value is None:
        return "—"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
