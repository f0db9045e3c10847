"""Plays an environment twice with equal seeds and actions, inside a separate process.

The clock or the system's entropy can be replaced by a repeatable one. If the environment repeats
only then, the replaced source is the cause of its differences.
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
"""Largest number of steps of a play."""
SECONDS = 5.0
"""Seconds after which a play stops."""
CLOCKS = ("time", "perf_counter", "monotonic", "process_time")
TICK = 0.001
"""Seconds between two readings of the replaced clock."""
EPOCH = 1_000_000_000.0

Trace = list[list[str]]
"""For each step, the digests of observation, reward, terminated and truncated."""


def execute(arguments: list[str]) -> int:
    """Play an environment twice.

    Args:
        arguments: A folder that holds `request.json`, one of `CURES`, and the name of the trace.
    """
    folder, cure = Path(arguments[0]), arguments[1]
    request = json.loads((folder / "request.json").read_text())
    # Kept before the clock is replaced: the limit of a play needs the real one.
    now = time.perf_counter
    # The replacement precedes the import of the environment's modules, which may import `time` or
    # `urandom` functions by name.
    with CURES[cure]() as begin:
        environment = build(request["environment"], "environment", tuple(request["allowed"]))
        traces = [_play(environment.make, begin, now) for _ in range(2)]
    (folder / f"{arguments[2]}.json").write_text(json.dumps(traces))
    return 0


def _play(make: Callable[[], "Env"], begin: Callable[[], None], now: Callable[[], float]) -> Trace:
    """The digests of what a fresh environment returns; global generators are seeded first."""
    begin()
    # Runs seed these generators too, so an environment may rely on them.
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


def _digest(value: object) -> str:
    digest = sha256()
    _add(digest.update, value)
    return digest.hexdigest()[:16]


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
        # Without dtype and shape, different arrays could have the same bytes.
        update(f"{array.dtype}{array.shape}".encode())
        update(array.tobytes() if array.dtype != object else repr(value).encode())


@contextmanager
def _nothing() -> Iterator[Callable[[], None]]:
    yield lambda: None


@contextmanager
def _entropy() -> Iterator[Callable[[], None]]:
    """Replace the system's entropy by a sequence that restarts at each `begin`."""
    source = random.Random(SEED)
    seed = random.Random.seed

    # Without a seed, random.Random takes entropy in C code, which cannot be replaced there.
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
    """Replace all clocks by one that restarts at each `begin`."""
    readings = [0]

    def seconds() -> float:
        readings[0] += 1
        return EPOCH + TICK * readings[0]

    # Methods of the C type datetime cannot be replaced, so the class itself is.
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
        yield lambda: readings.__setitem__(0, 0)


@contextmanager
def _both() -> Iterator[Callable[[], None]]:
    with _clock() as begin_clock, _entropy() as begin_entropy:

        def begin() -> None:
            begin_clock()
            begin_entropy()

        yield begin


CURES = {"nothing": _nothing, "entropy": _entropy, "clock": _clock, "both": _both}
"""The sources of nondeterminism that can be replaced, by name."""
