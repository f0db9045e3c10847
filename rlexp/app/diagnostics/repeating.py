"""Plays an environment twice with equal seeds and actions, inside a process of its own.

On request the clock or the system's entropy is made to repeat: where that makes the environment
repeat, it is what the environment depends on.
"""

import datetime as dt
import json
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np

from rlexp.app.diagnostics.random_steps import SEED, random_action
from rlexp.config.validate import build

if TYPE_CHECKING:
    import gymnasium

    Env = gymnasium.Env[Any, Any]

STEPS = 500
"""Steps of each play, if they are quick enough."""
SECONDS = 5.0
"""After which a play takes no further step."""
CLOCKS = ("time", "perf_counter", "monotonic", "process_time")
TICK = 0.001
"""Seconds that pass between two looks at a clock that repeats."""
EPOCH = 1_000_000_000.0

Trace = list[list[str]]
"""Of each step: digests of observation, reward, terminated and truncated."""


def execute(words: list[str]) -> int:
    """Play an environment twice.

    Args:
        words: A folder that holds `request.json`, and what is to repeat: one of `CURES`.
    """
    folder, cure = Path(words[0]), words[1]
    request = json.loads((folder / "request.json").read_text())
    now = time.perf_counter
    # Before the environment's own modules are imported: they may take functions by name.
    with CURES[cure]() as begin:
        environment = build(request["environment"], "environment", tuple(request["allowed"]))
        traces = [_play(environment.make, begin, now) for _ in range(2)]
    (folder / f"{words[2]}.json").write_text(json.dumps(traces))
    return 0


def _play(make: Callable[[], "Env"], begin: Callable[[], None], now: Callable[[], float]) -> Trace:
    """What a fresh environment returns, the generators of the process being seeded alike."""
    begin()
    random.seed(SEED)
    np.random.seed(SEED)  # noqa: NPY002
    env = make()
    deadline = now() + SECONDS
    trace = [[_digest(env.reset(seed=SEED)[0])]]
    env.action_space.seed(SEED)
    for _ in range(STEPS):
        if now() > deadline:
            break
        observation, reward, terminated, truncated, _ = env.step(random_action(env))
        trace.append([_digest(v) for v in (observation, reward, terminated, truncated)])
        if terminated or truncated:
            trace.append([_digest(env.reset()[0])])
    env.close()
    return trace


def _digest(value: Any) -> str:
    total = sha256()
    _add(total.update, value)
    return total.hexdigest()[:16]


def _add(update: Callable[[bytes], object], value: Any) -> None:
    if isinstance(value, Mapping):
        for key in sorted(value, key=str):
            update(f"{key}:".encode())
            _add(update, value[key])
    elif isinstance(value, tuple | list):
        for item in value:
            _add(update, item)
    else:
        array = np.asarray(value)
        update(f"{array.dtype}{array.shape}".encode())
        update(array.tobytes() if array.dtype != object else repr(value).encode())


@contextmanager
def _nothing() -> Iterator[Callable[[], None]]:
    yield lambda: None


@contextmanager
def _entropy() -> Iterator[Callable[[], None]]:
    """Entropy of the system that repeats from the last `begin` on."""
    source = random.Random(SEED)
    seed = random.Random.seed

    def seeded(self: random.Random, a: Any = None, version: int = 2) -> None:
        seed(self, source.getrandbits(64) if a is None else a, version)

    with ExitStack() as stack:
        for module in (os, random):
            name = "urandom" if module is os else "_urandom"
            stack.enter_context(patch.object(module, name, source.randbytes))
        stack.enter_context(patch.object(random.Random, "seed", seeded))
        yield lambda: seed(source, SEED)


@contextmanager
def _clock() -> Iterator[Callable[[], None]]:
    """Clocks that repeat from the last `begin` on."""
    looks = [0]

    def seconds() -> float:
        looks[0] += 1
        return EPOCH + TICK * looks[0]

    class Dated(dt.datetime):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> "Dated":
            return cls.fromtimestamp(seconds(), tz)

    with ExitStack() as stack:
        for name in CLOCKS:
            stack.enter_context(patch.object(time, name, seconds))
            nanoseconds = patch.object(time, f"{name}_ns", lambda: int(seconds() * 1e9))
            stack.enter_context(nanoseconds)
        stack.enter_context(patch.object(dt, "datetime", Dated))
        yield lambda: looks.__setitem__(0, 0)


@contextmanager
def _both() -> Iterator[Callable[[], None]]:
    with _clock() as begin_clock, _entropy() as begin_entropy:

        def begin() -> None:
            begin_clock()
            begin_entropy()

        yield begin


CURES = {"nothing": _nothing, "entropy": _entropy, "clock": _clock, "both": _both}
"""What is made to repeat."""
