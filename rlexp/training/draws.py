"""The generators that an environment may draw from, read and written as plain values."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np
import torch

Env = gym.Env[Any, Any]
ENVIRONMENT = "environment"
SPACE = "space"
_GLOBAL = ("python", "numpy", "torch")
_BIT_GENERATORS = {"PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"}
_LONG = 600
"""Numbers from which on a tuple is kept as an array: the state of Python's generator has 625."""


class Generators:
    """The generators of an environment, of its spaces, and of its process if that is its own."""

    def __init__(self, env: Env, *, own_process: bool) -> None:
        """Look at the environment and all its wrappers.

        Args:
            env: The environment with its wrappers.
            own_process: Nothing else in this process draws from the global generators.
        """
        self._owners = _owners(env)
        self._own_process = own_process

    def read(self) -> dict[str, Any]:
        """The state of every generator that there is, by its name; `plain` makes it plain."""
        states: dict[str, Any] = {
            name: owner._np_random.bit_generator.state  # noqa: SLF001
            for name, owner in self._owners.items()
            if owner._np_random is not None  # noqa: SLF001
        }
        return states | read_globals() if self._own_process else states

    def write(self, states: dict[str, Any]) -> None:
        """Put generators into states that were read and made plain."""
        for name, state in states.items():
            if name in _GLOBAL:
                _write_global(name, state)
            else:
                _write(self._owners[name], state)


def read_globals() -> dict[str, Any]:
    """The states of the generators that everything in this process shares, by name."""
    return {
        "python": random.getstate(),
        "numpy": np.random.get_state(legacy=False),  # noqa: NPY002
        "torch": torch.get_rng_state(),
    }


def seed_globals(seed: int) -> None:
    """Seed them all."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    # Not torch.manual_seed, which reaches for accelerators.
    torch.default_generator.manual_seed(seed)


@contextmanager
def undisturbed_globals() -> Iterator[None]:
    """Put them back afterwards, whatever is drawn meanwhile."""
    states = plain(read_globals())
    try:
        yield
    finally:
        for name, state in states.items():
            _write_global(name, state)


def plain(value: Any) -> Any:
    """A copy of a tree as JSON values and arrays.

    Raises:
        TypeError: It holds anything else.
    """
    match value:
        case None | bool() | int() | float() | str():
            return value
        case np.ndarray() | np.generic() if not value.dtype.hasobject:
            return np.array(value)
        case dict():
            return {str(key): plain(each) for key, each in value.items()}
        case tuple() if len(value) > _LONG:
            return np.asarray(value, dtype=np.uint32)
        case list() | tuple():
            return [plain(each) for each in value]
        case torch.Tensor():
            return value.numpy().copy()
    raise TypeError(f"a {type(value).__name__} cannot be written down")


def layers(env: Env) -> list[Any]:
    """The wrappers of an environment, the outermost first, and the environment itself."""
    found: list[Any] = [env]
    while isinstance(found[-1], gym.Wrapper):
        found.append(found[-1].env)
    return found


def _owners(env: Env) -> dict[str, Any]:
    """Whatever may have a generator: the environment, its spaces, and those of its wrappers."""
    spaces: dict[int, Any] = {}
    stack = layers(env)
    for layer in stack:
        for space in (layer.action_space, layer.observation_space):
            spaces |= {id(each): each for each in _with_parts(space)}
    named = {f"{SPACE} {number}": space for number, space in enumerate(spaces.values())}
    return {ENVIRONMENT: stack[-1], **named}


def _with_parts(space: Any) -> Iterator[Any]:
    yield space
    parts = getattr(space, "spaces", ())
    for part in parts.values() if isinstance(parts, dict) else parts:
        yield from _with_parts(part)


def _write(owner: Any, state: dict[str, Any]) -> None:
    name = state["bit_generator"]
    generator = owner._np_random  # noqa: SLF001
    if generator is None or type(generator.bit_generator).__name__ != name:
        if name not in _BIT_GENERATORS:
            raise TypeError(f"a generator of kind {name} is unknown here")
        generator = np.random.Generator(getattr(np.random, name)())
        owner._np_random = generator  # noqa: SLF001
    generator.bit_generator.state = state


def _write_global(name: str, state: Any) -> None:
    if name == "python":
        version, numbers, gauss = state
        random.setstate((version, tuple(int(n) for n in numbers), gauss))
    elif name == "numpy":
        np.random.set_state(state)  # noqa: NPY002
    else:
        torch.set_rng_state(torch.from_numpy(state))
