"""Looks at test scores with made-up values."""

from typing import Any

from rlexp.records.look import Look


def look(number: int = 0, **values: Any) -> Look:
    """The look at the configuration of a number on three seeds."""
    fields: dict[str, Any] = {
        "configuration": f"{number:064x}",
        "task": "CartPole-v1",
        "root": 0,
        "seeds": (0, 1, 2),
        "steps": 100,
        "score": "final",
        "label": f"label-{number}",
        "experiment": "alpha",
        "mean": 10.0 + number,
        "deviation": 2.0,
    }
    return Look(**{**fields, **values})
