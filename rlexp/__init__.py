"""Reinforcement-learning experiments you can trust."""

# Without `typing`: until this file is read, Ctrl-C ends a command with a traceback of Python, and to
# import `typing` takes most of that time.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from rlexp.api import (
        best,
        compare,
        evaluate,
        extend,
        final_evaluation,
        load,
        ls,
        mv,
        note,
        plot,
        report,
        run,
        show,
        sweep,
        sweep_study,
        tag,
    )

__all__ = [
    "best",
    "compare",
    "evaluate",
    "extend",
    "final_evaluation",
    "load",
    "ls",
    "mv",
    "note",
    "plot",
    "report",
    "run",
    "show",
    "sweep",
    "sweep_study",
    "tag",
]


def __getattr__(name: str) -> "Any":
    """Import a function of the Python API when it is first used, and return it."""
    if name not in __all__:
        raise AttributeError(f"module 'rlexp' has no attribute {name!r}")
    # `import rlexp` stays fast: the API imports NumPy and the engine.
    from rlexp import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__} - {"TYPE_CHECKING"})
