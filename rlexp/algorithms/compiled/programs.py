"""Compiles each program once in a process, and keeps it for later runs of the process.

Two runs have the same program if all settings that shape it are equal. Seeds and continuous
hyperparameters are arguments of a program.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from functools import lru_cache
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

MOST_PROGRAMS = 16
"""Programs that a process keeps, each with some megabytes of code."""
BEAT_EVERY = 1.0
"""Seconds between two heartbeats during a compilation."""
MOST_BEATS = 900
"""Heartbeats of a compilation; one that takes longer counts as hung after `hang_timeout`."""
NAMES = (bool, int, str, bytes, type(None), type)
"""Types whose equal values mean the same, if the types are equal, too."""

P = TypeVar("P")


@runtime_checkable
class Heart(Protocol):
    """A callback that can report that the training is alive, from any thread."""

    def beat(self) -> None:
        """Report that the training is alive."""
        ...


@dataclass(frozen=True, slots=True)
class _Kept:
    settings: Any
    program: Any = field(compare=False)


def kept_program(program: P) -> P:
    """Return the program of this process that has the same settings; without one, this program.

    Args:
        program: A dataclass whose fields are the settings, and whose fields outside `__init__` are
            compiled functions.
    """
    try:
        kept: P = _first(_Kept(comparable(program), program))
    # The twin of a user may hold a value whose equality means nothing.
    except TypeError:
        return program
    return kept


@lru_cache(MOST_PROGRAMS)
def _first(kept: _Kept) -> Any:
    return kept.program


def comparable(value: Any) -> Any:
    """A value that equals another one only where both shape the same program.

    Raises:
        TypeError: The value has an unknown type.
    """
    match value:
        case np.ndarray():
            return value.dtype.str, value.shape, value.tobytes()
        case float():
            # 0.0 and -0.0 are equal, and compile to different constants.
            return float, value.hex()
        case Mapping():
            return dict, tuple((comparable(k), comparable(v)) for k, v in value.items())
        case tuple() | list():
            return type(value), tuple(map(comparable, value))
        case _ if isinstance(value, NAMES):
            return type(value), value
        case _ if is_dataclass(value):
            parts = (comparable(getattr(value, part.name)) for part in fields(value) if part.init)
            return type(value), tuple(parts)
    raise TypeError(f"{type(value).__name__} has no known equality")


@contextmanager
def beating(callback: object) -> Iterator[None]:
    """Send heartbeats during a compilation, in which no step is trained.

    Args:
        callback: The callback of the training; one without heartbeats is left alone.
    """
    if not isinstance(callback, Heart):
        yield
        return
    over = threading.Event()
    thread = threading.Thread(target=_beat, args=(callback.beat, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _beat(beat: Callable[[], None], over: threading.Event) -> None:
    for _ in range(MOST_BEATS):
        beat()
        if over.wait(BEAT_EVERY):
            return
