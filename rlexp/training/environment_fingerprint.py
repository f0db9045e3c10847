"""What the attributes of an environment and of its wrappers hold, told so that it can be compared."""

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


SHORT = 40
"""Characters of a number or string that is told as it is."""
HASHED = "blake2b "


def read_attributes(stack: Sequence[Any], ours: tuple[type, ...] = ()) -> dict[str, str]:
    """What each attribute holds: a short number or string as it is, others as a digest.

    It looks into numbers, strings, arrays, containers and generators, into objects of the package
    that the layer's class is of, and into environments that are no layer. Other objects are passed
    over. None counts as no attribute at all, as many are created only when they are needed.

    Args:
        stack: An environment and its wrappers.
        ours: Classes of layers that are passed over.

    Returns:
        By number and class of the layer and name of the attribute, with spaces between.

    Raises:
        NotRepeatable: One holds too much.
    """
    numbers = {id(layer): number for number, layer in enumerate(stack)}
    told: dict[str, str] = {}
    for number, layer in enumerate(stack):
        if isinstance(layer, ours):
            continue
        kind, home = type(layer).__name__, package(type(layer))
        for name, value in attributes(layer):
            try:
                text = _short(value) or _hashed(value, home, numbers)
            except NotRepeatable as error:
                raise NotRepeatable(f"{name} of {kind} {error}") from error
            if text is not None:
                told[f"{number} {kind} {name}"] = text
    return told


def put_back_numbers(stack: Sequence[Any], present: dict[str, str], past: dict[str, str]) -> None:
    """Give counters and the like, which go on over episodes, the values that they had.

    Args:
        stack: An environment and its wrappers.
        present: What their attributes hold now.
        past: What they held; what was a short number or string, and is another one of its kind
            now, is put back.
    """
    for key in sorted(present.keys() & past.keys()):
        number, _, name = key.split(" ", 2)
        held = vars(stack[int(number)])
        with suppress(ValueError, SyntaxError):
            now, then = literal_eval(present[key]), literal_eval(past[key])
            if name in held and type(now) is type(then):
                held[name] = then


def compare_attributes(present: dict[str, str], past: dict[str, str]) -> None:
    """Compare attributes after a repetition with those of the first time.

    Raises:
        NotRepeatable: One differs.
    """
    for key in (*present, *past):
        now, then = present.get(key, "nothing"), past.get(key, "nothing")
        if now != then:
            _, kind, name = key.split(" ", 2)
            if HASHED in {now[: len(HASHED)], then[: len(HASHED)]}:
                raise NotRepeatable(f"{name} of {kind} differs after the repetition")
            raise NotRepeatable(f"{name} of {kind} is {now} after the repetition and was {then}")


def _short(value: Any) -> str | None:
    kind = type(value)
    if kind in NUMBERS and (kind is not int or value.bit_length() <= 64):
        return repr(value)
    if kind is str and len(value) <= SHORT:
        return repr(value)
    return None


def _hashed(value: Any, home: str, layers: dict[int, int]) -> str | None:
    """The digest of a value, or nothing where there is nothing to look into."""
    digest = ValueDigest(home, layers.copy())
    if value is None or not digest.knows(value):
        return None
    digest.add(value)
    return f"{HASHED}{digest.total.hexdigest()}"
