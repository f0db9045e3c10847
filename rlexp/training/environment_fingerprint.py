"""What the attributes of an environment and of its wrappers hold, told so that it can be compared."""

from ast import literal_eval
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from rlexp.training.hashing import NUMBERS, ValueDigest, attributes, package
from rlexp.training.memory import NotRepeatable

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
