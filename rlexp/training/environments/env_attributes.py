"""The attributes of an environment and its wrappers as text that two processes can compare.

A replayed episode restores an environment only if its attributes agree with the logged ones.
`ValueDigest` computes the digest of a value, `read_attributes` the text of each attribute of a
stack of wrappers, and `compare_attributes` compares these texts after a replay.
"""

import random
import struct
from ast import literal_eval
from collections import OrderedDict, deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from hashlib import blake2b
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec

from rlexp.training.environments.episode_log import NotReplayable

DEEPEST = 10
"""Levels of nested values that a digest includes."""
MOST_PARTS = 1_000_000
"""Numbers, strings and arrays that one value may hold."""
NUMBERS = {bool, int, float, *(np.dtype(code).type for code in "?bhilqBHILQefd")}
SIMPLE = NUMBERS | {str, type(None)}
ALWAYS_READ = (
    *(bool, int, float, complex, str, bytes, bytearray, Enum, np.ndarray, np.generic),
    *(dict, list, tuple, deque, set, frozenset),
    *(np.random.Generator, np.random.BitGenerator, np.random.RandomState),
    *(np.random.SeedSequence, random.Random),
)
"""Types whose content is read regardless of the package of their class."""
_NEVER_READ = (type, gym.Space, EnvSpec)


def attributes(owner: Any) -> Iterator[tuple[str, Any]]:
    """Yield name and value of each attribute of an object, slots included."""
    yield from getattr(owner, "__dict__", {}).items()
    for kind in type(owner).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in {"__dict__", "__weakref__"}:
                yield name, getattr(owner, name, None)


def package(kind: type) -> str:
    """The outermost package of a class."""
    # Some classes of C extensions have no `__module__`.
    return getattr(kind, "__module__", "").partition(".")[0]


def _can_be_sorted(values: Collection[Any]) -> bool:
    return set(map(type, values)) in ({str}, {int})


@dataclass(slots=True)
class ValueDigest:
    """Computes the digest of a value, which is the same in every process.

    The type and the length of each part precede its content, so that different values never give
    the same bytes.
    """

    home: str
    """The package whose objects are read."""
    met: dict[int, int]
    """Numbers of the objects read so far, by their `id`; this ends reference cycles."""
    total: Any = field(default_factory=lambda: blake2b(digest_size=16))
    parts: int = 0

    def can_read(self, value: Any) -> bool:
        """Whether the content of a value is part of the digest."""
        if isinstance(value, ALWAYS_READ):
            return True
        return id(value) not in self.met and self._is_of_home(value)

    def add(self, value: Any, depth: int = 0) -> None:
        """Add a value and its parts."""
        match value:
            # Special types come first: an IntEnum is also an int, and a np.float64 also a float.
            case Enum():
                self._put(value, b"")
                self.add(value.value, depth)
            case np.ndarray() | np.generic():
                self._add_array(value, depth)
            case str():
                # A text may hold half of a surrogate pair, which UTF-8 alone refuses.
                self._put(value, value.encode(errors="surrogatepass"))
            case float():
                self._put(value, struct.pack("<d", value))
            case int():
                # Python limits the length of decimal texts of integers, not of hexadecimal ones.
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
            raise NotReplayable("holds too much to be compared")
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
                # Dictionaries are equal regardless of their order, so keys are sorted.
                keys = sorted(value, key=None if _can_be_sorted(value) else self._alone)
                # Not `value[key]`, which a defaultdict or a subclass may override.
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
            # One `repr` for all: adding each number by itself would be far slower.
            self.parts += len(values)
            self._put(values, repr(list(values)).encode(errors="surrogatepass"))
        elif depth < DEEPEST:
            for value in values:
                self.add(value, depth + 1)

    def _alone(self, value: Any) -> bytes:
        """Return the digest of a member of a set or of a key; objects in it are not read.

        Objects are numbered in the order in which they are read, and sets have no stable order.
        """
        digest = ValueDigest("", self.met)
        digest.add(value)
        self.parts += digest.parts
        result: bytes = digest.total.digest()
        return result

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
                self._read_object(value, depth)

    def _add_bits(self, bits: np.random.BitGenerator, depth: int) -> None:
        """Add the state of a bit generator and the number of generators spawned from it."""
        self.add(bits.state, depth)
        # `spawn` continues from this counter, which the state of the generator does not hold.
        self.add(getattr(bits.seed_seq, "n_children_spawned", None), depth)

    def _read_object(self, value: Any, depth: int) -> None:
        if id(value) in self.met:
            self._put(value, str(self.met[id(value)]).encode())
        elif not self._is_of_home(value):
            self._put(value, b"")
        else:
            self.met[id(value)] = len(self.met)
            self._put(value, b"object")
            held = {n: v for n, v in attributes(value) if v is not None and self.can_read(v)}
            self._add_container(held, depth)

    def _is_of_home(self, value: Any) -> bool:
        if not self.home or isinstance(value, _NEVER_READ):
            return False
        return package(type(value)) == self.home or isinstance(value, gym.Env)


SHORT = 40
"""Longest string that is stored as it is, in characters."""
HASHED = "blake2b "


def read_attributes(stack: Sequence[Any], ours: tuple[type, ...] = ()) -> dict[str, str]:
    """Return each attribute as text: a short number or string as it is, other values as a digest.

    A digest includes numbers, strings, arrays, containers and generators, objects from the package
    of the layer's class, and environments that are not layers. Other objects are skipped. An
    attribute that is None counts as missing, since many are created only when they are needed.

    Args:
        stack: An environment and its wrappers.
        ours: Classes of layers to skip.

    Returns:
        The texts; a key is number and class of the layer and name of the attribute, separated by
        spaces.

    Raises:
        NotReplayable: An attribute holds too much to be compared.
    """
    numbers = {id(layer): number for number, layer in enumerate(stack)}
    texts: dict[str, str] = {}
    for number, layer in enumerate(stack):
        if isinstance(layer, ours):
            continue
        kind, home = type(layer).__name__, package(type(layer))
        for name, value in attributes(layer):
            try:
                text = _short(value) or _hashed(value, home, numbers)
            except NotReplayable as error:
                raise NotReplayable(f"{name} of {kind} {error}") from error
            if text is not None:
                texts[f"{number} {kind} {name}"] = text
    return texts


def restore_numbers(stack: Sequence[Any], present: dict[str, str], past: dict[str, str]) -> None:
    """Set short numbers and strings, such as counters over all episodes, to their past values.

    Args:
        stack: An environment and its wrappers.
        present: The result of `read_attributes` now.
        past: The logged result. An attribute is set if it is a short number or string of the
            same type in both.
    """
    for key in sorted(present.keys() & past.keys()):
        number, _, name = key.split(" ", 2)
        held = vars(stack[int(number)])
        with suppress(ValueError, SyntaxError):
            # The past value comes from a file: `literal_eval` reads values and runs no code.
            now, then = literal_eval(present[key]), literal_eval(past[key])
            if name in held and type(now) is type(then):
                held[name] = then


def compare_attributes(present: dict[str, str], past: dict[str, str]) -> None:
    """Compare attributes after a replay with the logged ones.

    Raises:
        NotReplayable: An attribute differs.
    """
    for key in (*present, *past):
        now, then = present.get(key, "nothing"), past.get(key, "nothing")
        if now != then:
            _, kind, name = key.split(" ", 2)
            if HASHED in {now[: len(HASHED)], then[: len(HASHED)]}:
                raise NotReplayable(f"{name} of {kind} differs after the replay")
            raise NotReplayable(f"{name} of {kind} is {now} after the replay and was {then}")


def _short(value: Any) -> str | None:
    kind = type(value)
    if kind in NUMBERS and (kind is not int or value.bit_length() <= 64):
        return repr(value)
    if kind is str and len(value) <= SHORT:
        return repr(value)
    return None


def _hashed(value: Any, home: str, layers: dict[int, int]) -> str | None:
    """Return the digest of a value, or None where it has no readable content."""
    # A copy, because a digest numbers further objects, and attributes must not affect each other.
    digest = ValueDigest(home, layers.copy())
    if value is None or not digest.can_read(value):
        return None
    digest.add(value)
    return f"{HASHED}{digest.total.hexdigest()}"
