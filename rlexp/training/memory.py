"""Remembers how the present episode of one environment came about, so that it can be repeated."""

import hashlib
import math
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from rlexp.training.draws import SPACE, Env, Generators, plain

Array = np.ndarray[Any, Any]

LONGEST_REASON = 200
MOST_NUMBERS = 1_000_000
"""Of the actions of one episode, up to which they are remembered."""


class NotRepeatable(Exception):  # noqa: N818
    """The state of environments cannot be reproduced; says why in one line."""


class EpisodeMemory:
    """The generators from before the reset that began an episode, and the actions since.

    What could not be remembered is told when it is asked for, and no error before.
    """

    def __init__(self, env: Env, *, own_process: bool) -> None:
        """Remember nothing yet.

        Args:
            env: The environment with its wrappers.
            own_process: Nothing else in this process draws from the global generators, so that
                they belong to the environment.
        """
        self._generators = Generators(env, own_process=own_process)
        self._most = MOST_NUMBERS // max(1, math.prod(env.action_space.shape or ()))
        # One more than can be used, so that an episode that is too long shows.
        self._actions: deque[Any] = deque(maxlen=self._most + 1)
        self._seed: int | None = None
        self._seeded = False
        self._before: dict[str, Any] = {}
        self._gap: str | None = "it was never reset"

    def begin(self, seed: int | None) -> deque[Any]:
        """Forget the last episode; another begins with the reset that follows.

        Args:
            seed: What that reset is seeded with, if it is.

        Returns:
            Where every action is to be added: an array by its bytes, a number as it is.
        """
        self._seeded = seed is not None
        self._seed = self._seed if seed is None else seed
        self._gap = None
        self._actions.clear()
        try:
            self._before = self._generators.read()
        except Exception as error:  # noqa: BLE001
            self._gap = f"its generator cannot be read ({in_one_line(error)})"
        return self._actions

    def tell(self, last: Any) -> dict[str, Any]:
        """What is remembered, as plain values and arrays.

        Args:
            last: The last action, whose type and shape are those of all.

        Raises:
            NotRepeatable: It is not enough.
        """
        if self._gap is not None:
            raise NotRepeatable(self._gap)
        if len(self._actions) > self._most:
            raise NotRepeatable("its episode has gone on for too long to be remembered")
        return {
            "seed": self._seed,
            "seeded": self._seeded,
            "before": plain(self._before),
            "now": plain(self._generators.read()),
            "actions": self._array_of_actions(last),
        }

    def put_back(self, before: dict[str, Any]) -> None:
        """Put the generators into the states that were told."""
        self._generators.write(before)

    def check(self, now: dict[str, Any]) -> None:
        """Compare the generators with their states of a moment that was repeated.

        Those of spaces are put there instead: a learner draws its random actions from one of them.

        Raises:
            NotRepeatable: One differs.
        """
        present = plain(self._generators.read())
        own = {name for name in (*now, *present) if not name.startswith(SPACE)}
        for name in sorted(own):
            if digest(present.get(name)) != digest(now.get(name)):
                raise NotRepeatable(f"the generator '{name}' differs as its episode is repeated")
        self.put_back({name: state for name, state in now.items() if name not in own})

    def _array_of_actions(self, last: Any) -> Array:
        """Shape: steps × the shape of one action."""
        if type(last) is np.ndarray and self._actions:
            actions = np.frombuffer(b"".join(self._actions), dtype=last.dtype)
            return actions.reshape(len(self._actions), *last.shape).copy()
        return np.asarray(list(self._actions))


def in_one_line(error: Exception) -> str:
    """What went wrong, as the end of a sentence."""
    if isinstance(error, NotRepeatable):
        return str(error)
    return " ".join(f"{type(error).__name__}: {error}".split())[:LONGEST_REASON]


def digest(value: Any) -> str:
    """The sha256 of an observation, or of any tree of plain values and arrays, to the byte."""
    found = hashlib.sha256()
    for part in _parts(value):
        found.update(part)
    return found.hexdigest()


def _parts(value: Any) -> Iterator[bytes]:
    match value:
        case dict():
            yield f"dict {len(value)}".encode()
            for key in sorted(value):
                yield from (repr(key).encode(), *_parts(value[key]))
        case list() | tuple():
            yield f"list {len(value)}".encode()
            for each in value:
                yield from _parts(each)
        case np.ndarray() | np.generic():
            yield f"{value.dtype.str} {value.shape}".encode()
            yield plain(value).tobytes()
        case _:
            yield repr(plain(value)).encode()
