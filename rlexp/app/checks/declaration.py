"""Whether what an environment returns is what it declared."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import gymnasium

    Space = gymnasium.Space[Any]

FLAGS = ("terminated", "truncated")


@dataclass(frozen=True, slots=True)
class Contradiction:
    """How a value contradicts its space; a harmless one is cast on the way to the learner."""

    detail: str
    fix: str
    harmless: bool = False


def result_fault(result: Any) -> tuple[str, str] | None:
    """What is wrong with all that a step returns but its observation, and what to do."""
    if not isinstance(result, tuple) or len(result) != 5:
        count = len(result) if isinstance(result, tuple) else f"a {type(result).__name__}"
        return (
            f"returns {count}{' values' if isinstance(count, int) else ''}, not five",
            "return observation, reward, terminated, truncated, info",
        )
    _, reward, terminated, truncated, info = result
    if fault := _reward_fault(reward):
        return fault, "return one finite number as the reward"
    for name, flag in zip(FLAGS, (terminated, truncated), strict=True):
        if not isinstance(flag, bool | np.bool_):
            return f"{name} is {flag!r}, a {type(flag).__name__}", "return True or False"
    if not isinstance(info, dict):
        return f"info is a {type(info).__name__}", "return a dictionary, which may be empty"
    return None


def _reward_fault(reward: Any) -> str | None:
    if np.ndim(reward) != 0:
        return f"reward has shape {np.shape(reward)}"
    try:
        number = float(reward)
    except (TypeError, ValueError):
        return f"reward is {reward!r}, a {type(reward).__name__}"
    return None if math.isfinite(number) else f"reward is {number}"


def contradiction(value: Any, space: "Space", path: str) -> Contradiction | None:
    """How a value contradicts its space, naming the field, or nothing."""
    import gymnasium

    if isinstance(space, gymnasium.spaces.Dict):
        if not isinstance(value, dict) or set(value) != set(space.spaces):
            keys = sorted(value) if isinstance(value, dict) else type(value).__name__
            return Contradiction(
                f"{path} has {keys}, declared is {sorted(space.spaces)}", "return every key"
            )
        return _first([(value[k], s, f"{path}[{k!r}]") for k, s in space.spaces.items()])
    if isinstance(space, gymnasium.spaces.Tuple):
        if not isinstance(value, tuple | list) or len(value) != len(space.spaces):
            return Contradiction(f"{path} is no tuple of {len(space.spaces)}", "return one")
        pairs = enumerate(zip(value, space.spaces, strict=True))
        return _first([(v, s, f"{path}[{i}]") for i, (v, s) in pairs])
    return _leaf(value, space, path)


def _first(parts: list[tuple[Any, "Space", str]]) -> Contradiction | None:
    found = [c for part in parts if (c := contradiction(*part)) is not None]
    return min(found, key=lambda c: c.harmless, default=None)


def _leaf(value: Any, space: "Space", path: str) -> Contradiction | None:
    import gymnasium

    array = np.asarray(value)
    if space.shape is not None and array.shape != space.shape:
        detail = f"{path} has shape {array.shape}, declared is {space.shape}"
        return Contradiction(detail, "return that shape, or declare this one")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        return Contradiction(_at(array, ~np.isfinite(array), path), "return finite numbers")
    # A Box would warn of what is no array; that it can be cast is told below.
    if space.contains(array if isinstance(space, gymnasium.spaces.Box) else value):
        return None
    low, high = getattr(space, "low", None), getattr(space, "high", None)
    if low is None or high is None:
        return Contradiction(f"{path} is {value!r}, outside {space}", "declare what it returns")
    outside = (array < low) | (array > high)
    if outside.any():
        detail = f"{_at(array, outside, path)}, outside {_bounds(low, high, outside)}"
        return Contradiction(detail, "declare the bounds that it keeps")
    detail = f"{path} has dtype {array.dtype}, declared is {space.dtype}"
    return Contradiction(detail, "", harmless=True)


def _at(array: Any, mask: Any, path: str) -> str:
    place = tuple(int(i) for i in np.argwhere(mask)[0])
    return f"{path}{list(place) or ''} is {array[place]}"


def _bounds(low: Any, high: Any, mask: Any) -> str:
    place = tuple(np.argwhere(mask)[0])
    return f"{low[place]} … {high[place]}"
