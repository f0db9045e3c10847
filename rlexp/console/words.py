"""How values, times and ends of runs are said."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlexp.engine.running import Running
    from rlexp.records.run import RunRecord

SCORES = {
    "final": "mean return of the final policy",
    "auc": "mean height of the evaluation curve",
    "last_window": "mean return in the last tenth of training",
}


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


def cell(value: Any) -> str:
    """A value in a table."""
    if value is None:
        return "—"
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def printable(text: str, kept: str = "\n\t") -> str:
    """Text without the control characters that a terminal would obey; those `kept` stay."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in kept else "\N{REPLACEMENT CHARACTER}" for c in text
    )


def json_text(value: Any) -> str:
    """A value as JSON, in which what a terminal would obey is written as JSON escapes it."""
    text = json.dumps(value, indent=1, ensure_ascii=False)
    return "\n".join(line if line.isprintable() else _escaped(line) for line in text.split("\n"))


def _escaped(line: str) -> str:
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in line)


def outline(value: Any) -> str:
    """JSON values as YAML, one leaf a line."""
    return "\n".join(_outline(value, ""))


def _outline(value: Any, indent: str) -> Iterator[str]:
    pairs: list[tuple[str, Any]]
    if isinstance(value, Mapping):
        pairs = [(f"{_scalar(str(key))}:", item) for key, item in value.items()]
    else:
        pairs = [("-", item) for item in value]
    for head, item in pairs:
        nested = isinstance(item, Mapping) or (
            isinstance(item, list | tuple) and any(isinstance(i, Mapping) for i in item)
        )
        if nested and item:
            yield f"{indent}{head}"
            yield from _outline(item, f"{indent}  ")
        else:
            yield f"{indent}{head} {_scalar(item)}"


def _scalar(value: Any) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value not in _WORDS:
        return value
    return json.dumps(value, ensure_ascii=False)


_PLAIN = re.compile(r"[A-Za-z_/][\w./+@()-]*( [\w./+@()-]+)*", re.ASCII)
_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})


def finite(value: Any) -> Any:
    """JSON values with null for numbers that JSON lacks."""
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def moment(time: float | None) -> str | None:
    """Seconds since 1970 as local time (`2026-07-01 12:30:05`)."""
    if time is None:
        return None
    try:
        return datetime.fromtimestamp(time).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return f"{time:g} s after 1970"


def ago(seconds: float) -> str:
    """How long ago, roughly (`5 min ago`)."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f} {unit} ago"
    return f"{max(seconds, 0):.0f} s ago"


def duration(seconds: float) -> str:
    """Seconds in words (`3 min 10 s`)."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def size(count: int) -> str:
    """Bytes in words (`38 MB`, `1.2 GB`)."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 9.95:
            return f"{value:.1f}".removesuffix(".0") + f" {unit}"
        if value < 1000:
            return f"{value:.0f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"
