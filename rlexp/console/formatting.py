"""Progress and ends of runs as text, and JSON text that is safe on a terminal."""

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rlexp.protocol.measures import RETURN, quantity_of
from rlexp.records.run import State
from rlexp.text import format_percentage, format_score, shorten_middle

if TYPE_CHECKING:
    from rlexp.engine.run_in_flight import RunInFlight
    from rlexp.records.run import RunRecord


LONGEST_REASON = 120
"""Characters of the reason why a run failed; an exception may quote whole arrays."""


def progress(running: "RunInFlight") -> str:
    """The share of steps done and the mean of the last evaluation (`40 % return 12.5`)."""
    return " ".join(filter(None, (share_done(running), last_mean(running))))


def share_done(running: "RunInFlight") -> str:
    """The share of steps done (`40 %`)."""
    return format_percentage(round(min(running.step / running.spec.budget["steps"], 1), 2))


def last_mean(running: "RunInFlight") -> str:
    """The mean of what is scored in the last evaluation (`return 12.5`); empty before the first."""
    if running.last is None:
        return ""
    quantity = quantity_of(running.spec.budget["score"])
    return mean_text(quantity, running.last.mean_of(quantity))


def mean_text(quantity: str, mean: float) -> str:
    """A mean of an evaluation with its quantity (`return 12.5`, `success 0.833`)."""
    return f"{quantity} {format_score(mean, 1 if quantity == RETURN else 3, separator='')}"


def ending(record: "RunRecord", *, again: bool) -> str:
    """The state, score and reason of an ended run, on one line."""
    score = (
        f", score {format_score(record.score, separator='')}" if record.score is not None else ""
    )
    kind = f" ({record.failure})" if record.failure else ""
    reason = f": {shorten_middle(record.reason, LONGEST_REASON)}" if record.reason else ""
    more = "; trying again" if again else ""
    # On a full disk, neither the run nor the command that started it can write how it ended.
    running = record.state is State.RUNNING
    state = "ended, which could not be recorded" if running else str(record.state)
    return f"{record.spec.name} {state}{kind}{score}{reason}{more}"


def json_text(value: object, indent: int | None = 1, *, only_ascii: bool = False) -> str:
    """A value as JSON text, with control characters escaped so that no terminal obeys them.

    Args:
        value: JSON values.
        indent: Spaces per level; with None, the text is one line.
        only_ascii: Whether every character outside of ASCII is escaped.
    """
    text = json.dumps(value, indent=indent, ensure_ascii=only_ascii)
    # Line by line, because the line feeds of the indentation are control characters, too.
    return "\n".join(line if line.isprintable() else _escaped(line) for line in text.split("\n"))


def _escaped(line: str) -> str:
    # json.dumps escapes the character; its quotes are cut off.
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in line)


def finite(value: object) -> Any:
    """JSON values with null in place of infinity and NaN, which JSON lacks."""
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
