"""Reinforcement-learning experiments you can trust."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlexp.api import compare, evaluate, load, ls, report, run, show, sweep

__all__ = ["compare", "evaluate", "load", "ls", "report", "run", "show", "sweep"]


def __getattr__(name: str) -> Any:
    """A function of the Python API, which is imported when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module 'rlexp' has no attribute {name!r}")
    from rlexp import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
