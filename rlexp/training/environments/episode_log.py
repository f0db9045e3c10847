"""Logs the current episode of one environment, so that a fresh environment can replay it."""

import hashlib
import math
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from rlexp.training.environments.rng_state import SPACE, Env, Generators, to_plain_tree

Array = np.ndarray[Any, Any]

LONGEST_REASON = 200
MOST_NUMBERS = 1_000_000
"""Largest number of action entries that are logged in one episode."""


class NotReplayable(Exception):  # noqa: N818
    """The state of an environment cannot be restored by replay; the message says why."""


class EpisodeLog:
    """The generator states before the reset of the current episode, and the actions since.

    A problem while logging raises an error only when the log is read, so that training goes on.
    """

    def __init__(self, env: Env, *, own_process: bool) -> None:
        """Begin with an empty log.

        Args:
            env: The environment with its wrappers.
            own_process: Whether only this environment draws from the global generators here, so
                that they belong to its state.
        """
        self._generators = Generators(env, own_process=own_process)
        self._most = MOST_NUMBERS // max(1, math.prod(env.action_space.shape or ()))
        # One more than the limit, so that an episode beyond the limit can be detected.
        self._actions: deque[Any] = deque(maxlen=self._most + 1)
        self._seed: int | None = None
        self._seeded = False
        self._before: dict[str, Any] = {}
        self._gap: str | None = "it was never reset"

    def begin(self, seed: int | None) -> deque[Any]:
        """Start the log of the episode that the next reset begins.

        Args:
            seed: The seed of that reset, or None.

        Returns:
            The queue to which every action is added: an array as bytes, a number unchanged.
        """
        self._seeded = seed is not None
        # Later episodes keep the seed of the first one, whose reset a replay repeats as well.
        self._seed = self._seed if seed is None else seed
        self._gap = None
        self._actions.clear()
        try:
            self._before = self._generators.read()
        except Exception as error:  # noqa: BLE001
            self._gap = f"its random generator cannot be read ({in_one_line(error)})"
        return self._actions

    def as_dict(self, last: Any) -> dict[str, Any]:
        """Return the log as plain values and arrays.

        Args:
            last: The last action, which gives the type and shape of all actions.

        Raises:
            NotReplayable: The log is incomplete; the message says why.
        """
        if self._gap is not None:
            raise NotReplayable(self._gap)
        if len(self._actions) > self._most:
            raise NotReplayable("its episode is too long to be logged")
        return {
            "seed": self._seed,
            "seeded": self._seeded,
            "before": to_plain_tree(self._before),
            "now": to_plain_tree(self._generators.read()),
            "actions": self._array_of_actions(last),
        }

    def restore_generators(self, before: dict[str, Any]) -> None:
        """Restore the generators to logged states."""
        self._generators.write(before)

    def check(self, now: dict[str, Any]) -> None:
        """Compare the generators after a replay with their logged states.

        Generators of spaces are set to the logged states instead of being compared: the learner,
        which does not take part in the replay, draws its random actions from one of them.

        Raises:
            NotReplayable: A generator has another state.
        """
        present = to_plain_tree(self._generators.read())
        compared = {name for name in (*now, *present) if not name.startswith(SPACE)}
        for name in sorted(compared):
            if digest(present.get(name)) != digest(now.get(name)):
                raise NotReplayable(f"the generator '{name}' differs when its episode is replayed")
        self.restore_generators({n: state for n, state in now.items() if n not in compared})

    def _array_of_actions(self, last: Any) -> Array:
        """Return the logged actions (steps × shape of one action)."""
        if type(last) is np.ndarray and self._actions:
            actions = np.frombuffer(b"".join(self._actions), dtype=last.dtype)
            # An array on bytes is read-only, so a copy is returned.
            return actions.reshape(len(self._actions), *last.shape).copy()
        return np.asarray(list(self._actions))


def in_one_line(error: Exception) -> str:
    """Return the message of an error as one line, to end a sentence with."""
    if isinstance(error, NotReplayable):
        return str(error)
    return " ".join(f"{type(error).__name__}: {error}".split())[:LONGEST_REASON]


def digest(value: Any) -> str:
    """The sha256 of an observation, or of any tree of plain values and arrays, by its bytes."""
    total = hashlib.sha256()
    for part in _parts(value):
        total.update(part)
    return total.hexdigest()


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
            yield to_plain_tree(value).tobytes()
        case _:
            yield repr(to_plain_tree(value)).encode()
