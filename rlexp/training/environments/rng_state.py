"""The random generators that an environment may draw from: reading and restoring their states."""

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
"""Tuples of more numbers become arrays; the state of Python's generator has 625."""


class Generators:
    """The generators of an environment, its spaces and, in a separate process, the global ones."""

    def __init__(self, env: Env, *, own_process: bool) -> None:
        """Collect the generators of an environment and of all its wrappers.

        Args:
            env: The environment with its wrappers.
            own_process: Whether only this environment draws from the global generators here.
        """
        self._owners = _owners(env)
        self._own_process = own_process

    def read(self) -> dict[str, Any]:
        """Return the state of every existing generator by name, as `to_plain_tree` accepts it."""
        # The private attribute: the property `np_random` would create and seed a generator.
        states: dict[str, Any] = {
            name: owner._np_random.bit_generator.state  # noqa: SLF001
            for name, owner in self._owners.items()
            if owner._np_random is not None  # noqa: SLF001
        }
        return states | read_globals() if self._own_process else states

    def write(self, states: dict[str, Any]) -> None:
        """Restore states that `read` returned and `to_plain_tree` converted."""
        for name, state in states.items():
            if name in _GLOBAL:
                _write_global(name, state)
            else:
                _write(self._owners[name], state)


def read_globals() -> dict[str, Any]:
    """Return the states of the global generators of Python, NumPy and torch by name."""
    return {
        "python": random.getstate(),
        "numpy": np.random.get_state(legacy=False),  # noqa: NPY002
        "torch": torch.get_rng_state(),
    }


def seed_globals(seed: int) -> None:
    """Seed the global generators of Python, NumPy and torch."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    # Not torch.manual_seed, which also seeds accelerators and may initialise them.
    torch.default_generator.manual_seed(seed)


@contextmanager
def undisturbed_globals() -> Iterator[None]:
    """Restore the states of the global generators at the end of the block."""
    states = to_plain_tree(read_globals())
    try:
        yield
    finally:
        for name, state in states.items():
            _write_global(name, state)


def to_plain_tree(value: Any) -> Any:
    """Return a copy of a tree that holds only JSON values and arrays.

    Raises:
        TypeError: A value has another type.
    """
    match value:
        case None | bool() | int() | float() | str():
            return value
        case np.ndarray() | np.generic() if not value.dtype.hasobject:
            return np.array(value)
        case dict():
            return {str(key): to_plain_tree(each) for key, each in value.items()}
        case tuple() if len(value) > _LONG:
            return np.asarray(value, dtype=np.uint32)
        case list() | tuple():
            return [to_plain_tree(each) for each in value]
        case torch.Tensor():
            return value.numpy().copy()
    raise TypeError(f"a value of type {type(value).__name__} cannot be stored in a checkpoint")


def wrapper_stack(env: Env) -> list[Any]:
    """Return the wrappers of an environment, outermost first, then the bare environment."""
    stack: list[Any] = [env]
    while isinstance(stack[-1], gym.Wrapper):
        stack.append(stack[-1].env)
    return stack


def _owners(env: Env) -> dict[str, Any]:
    """Return the owners of generators: the environment and the spaces of all layers."""
    spaces: dict[int, Any] = {}
    stack = wrapper_stack(env)
    for layer in stack:
        for space in (layer.action_space, layer.observation_space):
            # By identity: wrappers often share the space object of the layer below.
            spaces |= {id(each): each for each in _with_parts(space)}
    numbered = {f"{SPACE} {number}": space for number, space in enumerate(spaces.values())}
    return {ENVIRONMENT: stack[-1], **numbered}


def _with_parts(space: Any) -> Iterator[Any]:
    yield space
    parts = getattr(space, "spaces", ())
    for part in parts.values() if isinstance(parts, dict) else parts:
        yield from _with_parts(part)


def _write(owner: Any, state: dict[str, Any]) -> None:
    name = state["bit_generator"]
    generator = owner._np_random  # noqa: SLF001
    if generator is None or type(generator.bit_generator).__name__ != name:
        # The name comes from a file, so only known classes are created by their name.
        if name not in _BIT_GENERATORS:
            raise TypeError(f"the bit generator {name} is not supported")
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
