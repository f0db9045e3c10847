"""The digest of what an object holds, as far as that can be looked into."""

import random
import struct
from collections import OrderedDict, deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from enum import Enum
from hashlib import blake2b
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec

from rlexp.training.memory import NotRepeatable

DEEPEST = 10
"""Values within values, down to which is looked."""
MOST_PARTS = 1_000_000
"""Of one value: numbers, strings, arrays."""
NUMBERS = {bool, int, float, *(np.dtype(code).type for code in "?bhilqBHILQefd")}
SIMPLE = NUMBERS | {str, type(None)}
PLAIN = (
    *(bool, int, float, complex, str, bytes, bytearray, Enum, np.ndarray, np.generic),
    *(dict, list, tuple, deque, set, frozenset),
    *(np.random.Generator, np.random.BitGenerator, np.random.RandomState),
    *(np.random.SeedSequence, random.Random),
)
"""What is looked into wherever it comes from."""
_MUTE = (type, gym.Space, EnvSpec)


def attributes(owner: Any) -> Iterator[tuple[str, Any]]:
    """The attributes of an object, with those that have a slot."""
    yield from getattr(owner, "__dict__", {}).items()
    for kind in type(owner).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in {"__dict__", "__weakref__"}:
                yield name, getattr(owner, name, None)


def package(kind: type) -> str:
    """The outermost package of a class."""
    # Some of those that C made have none.
    return getattr(kind, "__module__", "").partition(".")[0]


def _can_be_sorted(values: Collection[Any]) -> bool:
    return set(map(type, values)) in ({str}, {int})


@dataclass(slots=True)
class ValueDigest:
    """The digest of a value, the same in every process.

    Of each part the kind and the length stand before the content, so that no two values share
    their bytes.
    """

    home: str
    """The package whose objects are looked into."""
    met: dict[int, int]
    """Objects that were looked into, by their identity."""
    total: Any = field(default_factory=lambda: blake2b(digest_size=16))
    parts: int = 0

    def knows(self, value: Any) -> bool:
        """Whether there is something to look into."""
        if isinstance(value, PLAIN):
            return True
        return id(value) not in self.met and self._is_of_home(value)

    def add(self, value: Any, depth: int = 0) -> None:
        """Add a value with all its parts."""
        match value:
            case Enum():
                self._put(value, b"")
                self.add(value.value, depth)
            case np.ndarray() | np.generic():
                self._add_array(value, depth)
            case str():
                self._put(value, value.encode(errors="surrogatepass"))
            case float():
                self._put(value, struct.pack("<d", value))
            case int():
                self._put(value, f"{int(value):x}".encode())
            case bytes() | bytearray():
                self._put(value, value)
            case None | complex():
                self._put(value, repr(value).encode())
            case dict() | list() | tuple() | deque() | set() | frozenset():
                self._add_container(value, depth)
            case _:
                self._add_object(value, depth)

    def _put(self, value: Any, content: Any) -> None:
        self.parts += 1
        if self.parts > MOST_PARTS:
            raise NotRepeatable("holds too much to be compared")
        self.total.update(f"{type(value).__qualname__} {len(content)} ".encode())
        self.total.update(content)

    def _add_array(self, value: Any, depth: int) -> None:
        array = np.asarray(value)
        self._put(value, f"{array.dtype.str} {array.shape}".encode())
        if array.dtype.hasobject:
            self._add_all(value, array.ravel().tolist(), depth)
        else:
            flat = np.ascontiguousarray(array).reshape(-1)
            self._put(value, flat.view(np.uint8).data if flat.size else b"")

    def _add_container(self, value: Any, depth: int) -> None:
        match value:
            case OrderedDict():
                self._add_all(value, [*value, *value.values()], depth)
            case dict():
                # As it is with equality, the order is no part of what it holds.
                keys = sorted(value, key=None if _can_be_sorted(value) else self._alone)
                contents = [dict.__getitem__(value, key) for key in keys]
                self._add_all(value, [*keys, *contents], depth)
            case set() | frozenset():
                self._add_all(value, sorted(map(self._alone, value)), depth)
            case _:
                self._add_all(value, value, depth)

    def _add_all(self, owner: Any, values: Collection[Any], depth: int) -> None:
        """Add the parts of a container."""
        self._put(owner, str(len(values)).encode())
        if SIMPLE.issuperset(map(type, values)):
            self.parts += len(values)
            self._put(values, repr(list(values)).encode(errors="surrogatepass"))
        elif depth < DEEPEST:
            for value in values:
                self.add(value, depth + 1)

    def _alone(self, value: Any) -> bytes:
        """The digest of a member of a set, in which no object is looked into."""
        digest = ValueDigest("", self.met)
        digest.add(value)
        self.parts += digest.parts
        found: bytes = digest.total.digest()
        return found

    def _add_object(self, value: Any, depth: int) -> None:
        match value:
            case np.random.Generator():
                self._add_bits(value.bit_generator, depth)
            case np.random.BitGenerator():
                self._add_bits(value, depth)
            case np.random.RandomState():
                self.add(value.get_state(legacy=False), depth)
            case np.random.SeedSequence():
                self.add(value.state, depth)
            case random.Random():
                self._put(value, repr(value.getstate()).encode())
            case _:
                self._look_into(value, depth)

    def _add_bits(self, bits: np.random.BitGenerator, depth: int) -> None:
        """Add what it will draw, and how many others were made from it."""
        self.add(bits.state, depth)
        self.add(getattr(bits.seed_seq, "n_children_spawned", None), depth)

    def _look_into(self, value: Any, depth: int) -> None:
        if id(value) in self.met:
            self._put(value, str(self.met[id(value)]).encode())
        elif not self._is_of_home(value):
            self._put(value, b"")
        else:
            self.met[id(value)] = len(self.met)
            self._put(value, b"object")
            held = {n: v for n, v in attributes(value) if v is not None and self.knows(v)}
            self._add_container(held, depth)

    def _is_of_home(self, value: Any) -> bool:
        if not self.home or isinstance(value, _MUTE):
            return False
        return package(type(value)) == self.home or isinstance(value, gym.Env)
