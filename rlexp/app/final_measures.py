"""What was measured of the final episodes of a run, by the distribution that they were played on."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from rlexp.console import Console
from rlexp.records.events import Evaluated, Examined
from rlexp.records.run import RunRecord

COLUMNS = ("measure", "distribution", "mean", "min", "max", "episodes")
RETURN = "return"
EVALUATION = "evaluation"
"""The distribution of the final evaluation, which the score is of."""


def describe_measures(record: RunRecord) -> list[dict[str, Any]]:
    """Every measure of the final evaluation and of the examinations, as plain values.

    Returns of the task stand among them where there is an examination to compare them with.
    """
    rows = [*_rows(EVALUATION, record.final)] if record.final else []
    rows += [row for event in record.examinations for row in _rows(event.distribution, event)]
    if not record.examinations:
        rows = [row for row in rows if row["measure"] != RETURN]
    return sorted(rows, key=lambda row: (row["measure"] != RETURN, row["measure"]))


def tell_measures(rows: Sequence[dict[str, Any]], console: Console) -> None:
    """Print them, if there are any."""
    if rows:
        console.line()
        console.line("measures of the final policy, by episode")
        console.table(rows, COLUMNS)


def _rows(distribution: str, event: Evaluated | Examined) -> Iterator[dict[str, Any]]:
    for name, every in {RETURN: event.returns, **(event.measures or {})}.items():
        values = [value for value in every if math.isfinite(value)]
        yield {
            "measure": name,
            "distribution": distribution,
            "mean": _mean(values),
            "min": min(values, default=None),
            "max": max(values, default=None),
            "episodes": len(values),
        }


def _mean(values: Sequence[float]) -> float | None:
    try:
        return math.fsum(values) / len(values) if values else None
    except OverflowError:
        return None
