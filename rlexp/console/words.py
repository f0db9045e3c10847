"""How values, times and ends of runs are said."""

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlexp.engine.running import Running
    from rlexp.records.run import RunRecord


def progress(running: "Running") -> str:
    """Steps of a run, and its last evaluation."""
    total = running.spec.budget["steps"]
    last = f" return {running.last.mean:.1f}" if running.last else ""
    return f"{min(running.step / total, 1):.0%}{last}"


def ending(record: "RunRecord", *, again: bool) -> str:
    """How a run ended, on one line."""
    score = f", score {record.score:.2f}" if record.score is not None else ""
    kind = f" ({record.failure})" if record.failure else ""
    reason = f": {record.reason}" if record.reason else ""
    more = "; trying again" if again else ""
    return f"{record.spec.name} {record.state}{kind}{score}{reason}{more}"


def json_text(value: Any, indent: int | None = 1) -> str:
    """A value as JSON, in which what a terminal would obey is written as JSON escapes it.

    Args:
        value: JSON values.
        indent: Spaces of a level; without it, the text is one line.
    """
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return "\n".join(line if line.isprintable() else _escaped(line) for line in text.split("\n"))


def _escaped(line: str) -> str:
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in line)


def finite(value: Any) -> Any:
    """JSON values with null for numbers that JSON lacks."""
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
