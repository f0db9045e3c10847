"""Experience in replay buffers, as stretches that are written once."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.buffers import (
    DictReplayBuffer,
    NStepReplayBuffer,
    ReplayBuffer,
)

from rlexp.records.checkpoint import Transitions
from rlexp.training.packing import pack, unpack

KNOWN = (ReplayBuffer, DictReplayBuffer, NStepReplayBuffer)
"""Buffers whose whole content is their arrays, with a position that counts up."""


@dataclass(frozen=True, slots=True)
class Extent:
    """Which transitions a buffer holds, counted in rows from the run's first on.

    A row holds one transition of each environment of the vector.
    """

    oldest: int
    end: int


def buffer_of(model: BaseAlgorithm) -> ReplayBuffer | None:
    """The learner's replay buffer, or nothing."""
    buffer: ReplayBuffer | None = getattr(model, "replay_buffer", None)
    return buffer


def obstacle(model: BaseAlgorithm) -> str | None:
    """Why the experience of a learner cannot be saved row by row, or nothing."""
    buffer = buffer_of(model)
    if buffer is None or type(buffer) in KNOWN:
        return None
    return f"a {type(buffer).__name__} holds more than transitions"


def extent(model: BaseAlgorithm) -> Extent:
    """What the buffer holds now; call it between rollouts.

    Raises:
        ValueError: The buffer did not receive a row at each step.
    """
    buffer = buffer_of(model)
    if buffer is None:
        return Extent(0, 0)
    end = model.num_timesteps // buffer.n_envs
    if end % buffer.buffer_size != buffer.pos or (end >= buffer.buffer_size) is not buffer.full:
        raise ValueError(f"the replay buffer stands at {buffer.pos} after {end} rows")
    return Extent(max(0, end - buffer.buffer_size), end)


def pending(model: BaseAlgorithm) -> dict[str, np.ndarray[Any, Any]]:
    """What the next row will find in its place: a lean buffer keeps its next observation there."""
    buffer = buffer_of(model)
    if buffer is None or not buffer.optimize_memory_usage:
        return {}
    return {name: array[buffer.pos].copy() for name, array in _arrays(buffer).items()}


def first_row(model: BaseAlgorithm) -> int:
    """The oldest row that is not overwritten by now."""
    buffer = buffer_of(model)
    assert buffer is not None
    return max(0, model.num_timesteps // buffer.n_envs - buffer.buffer_size)


def read_rows(model: BaseAlgorithm, begin: int, end: int) -> Transitions:
    """The rows from `begin` to `end`, none of them overwritten."""
    buffer = buffer_of(model)
    assert buffer is not None
    rows = np.arange(begin, end) % buffer.buffer_size
    content = {name: array[rows] for name, array in _arrays(buffer).items()}
    return Transitions(begin, end, pack(content))


def fill_buffer(
    model: BaseAlgorithm,
    stretches: Iterable[Transitions],
    next_row: dict[str, np.ndarray[Any, Any]],
) -> None:
    """Fill a fresh buffer as it was when `model.num_timesteps` were taken.

    Raises:
        ValueError: Rows are missing, or they do not fit the buffer.
    """
    buffer = buffer_of(model)
    if buffer is None:
        return
    end = model.num_timesteps // buffer.n_envs
    reached = max(0, end - buffer.buffer_size)
    arrays = _arrays(buffer)
    for stretch in stretches:
        if stretch.begin > reached:
            break
        reached = max(reached, stretch.end)
        _write(arrays, np.arange(stretch.begin, stretch.end), unpack(stretch.content), buffer)
    if reached < end:
        raise ValueError(f"transitions {reached} to {end} are missing")
    buffer.pos, buffer.full = end % buffer.buffer_size, end >= buffer.buffer_size
    for name, row in next_row.items():
        arrays[name][buffer.pos] = row


def _write(
    arrays: dict[str, np.ndarray[Any, Any]],
    rows: np.ndarray[Any, Any],
    content: dict[str, np.ndarray[Any, Any]],
    buffer: ReplayBuffer,
) -> None:
    if set(content) != set(arrays):
        raise ValueError(f"transitions hold {sorted(content)} instead of {sorted(arrays)}")
    # Of rows that share a place, the last stays.
    rows = rows[-buffer.buffer_size :]
    for name, values in content.items():
        array = arrays[name]
        if values.dtype != array.dtype or values.shape[1:] != array.shape[1:]:
            raise ValueError(f"{name} of the transitions is {values.dtype}{values.shape[1:]}")
        array[rows % buffer.buffer_size] = values[-len(rows) :] if len(rows) else values


def _arrays(buffer: ReplayBuffer) -> dict[str, np.ndarray[Any, Any]]:
    """Every array with a row for each place, by name; those of dictionaries as `name/key`."""
    found: dict[str, np.ndarray[Any, Any]] = {}
    for name, value in vars(buffer).items():
        parts = value if isinstance(value, dict) else {"": value}
        for key, array in parts.items():
            if isinstance(array, np.ndarray) and array.shape[:1] == (buffer.buffer_size,):
                found[f"{name}/{key}" if key else name] = array
    return found
