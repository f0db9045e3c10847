"""The state of a learner that stable-baselines3 leaves out of its saved files.

A saved model of stable-baselines3 holds parameters and optimisers. To continue a training bit for
bit, a checkpoint also needs the replay buffer, the random generators, and the counters, last
observations and noise of the learner. All are captured between two rollouts and restored there.
`pack` and `unpack` store them as npz files, without pickle.
"""

import io
import json
import random
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.buffers import (
    DictReplayBuffer,
    NStepReplayBuffer,
    ReplayBuffer,
)
from stable_baselines3.common.distributions import StateDependentNoiseDistribution
from stable_baselines3.common.noise import (
    NormalActionNoise,
    OrnsteinUhlenbeckActionNoise,
    VectorizedActionNoise,
)
from stable_baselines3.common.type_aliases import TrainFrequencyUnit

from rlexp.records.checkpoint import Transitions
from rlexp.replay import CheckpointedBuffer

TREE = "tree"
ARRAY = "__array__"


def pack(tree: Any) -> bytes:
    """Return a tree of dictionaries, lists, arrays and JSON values as an npz file.

    Raises:
        TypeError: The tree holds a value of another type.
    """
    arrays: list[np.ndarray[Any, Any]] = []
    text = json.dumps(_without_arrays(tree, arrays))
    by_number = {str(position): array for position, array in enumerate(arrays)}
    buffer = io.BytesIO()
    encoded = np.frombuffer(text.encode(), dtype=np.uint8)
    np.savez(buffer, allow_pickle=False, **{TREE: encoded}, **by_number)
    return buffer.getvalue()


def unpack(content: bytes) -> Any:
    """Return the tree that `pack` stored.

    Raises:
        ValueError: The content was not written by `pack`.
    """
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        return _with_arrays(json.loads(arrays.pop(TREE).tobytes()), arrays)
    except Exception as error:
        raise ValueError(f"the content is not a packed tree: {error!r}") from error


def _without_arrays(tree: Any, arrays: list[np.ndarray[Any, Any]]) -> Any:
    match tree:
        case dict():
            # JSON turns other keys into strings, and the key ARRAY marks the place of an array.
            if not all(type(key) is str for key in tree) or ARRAY in tree:
                raise TypeError(f"keys of a tree are strings, not {list(tree)}")
            return {key: _without_arrays(value, arrays) for key, value in tree.items()}
        case list() | tuple():
            return [_without_arrays(value, arrays) for value in tree]
        case np.ndarray():
            if tree.dtype.hasobject:
                raise TypeError("arrays of objects cannot be packed")
            arrays.append(tree)
            return {ARRAY: str(len(arrays) - 1)}
        case np.generic():
            return _without_arrays(np.asarray(tree), arrays)
        case str() | bool() | int() | float() | None:
            return tree
    raise TypeError(f"{type(tree).__name__} cannot be packed")


def _with_arrays(tree: Any, arrays: dict[str, np.ndarray[Any, Any]]) -> Any:
    if isinstance(tree, dict):
        if ARRAY in tree:
            return arrays[tree[ARRAY]]
        return {key: _with_arrays(value, arrays) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_with_arrays(value, arrays) for value in tree]
    return tree


# Compared by exact type: a subclass may hold state outside of its arrays, and says so as a
# `CheckpointedBuffer`.
SUPPORTED_BUFFERS = (ReplayBuffer, DictReplayBuffer, NStepReplayBuffer)
"""Replay buffers whose content is their arrays and one position that counts up."""


@dataclass(frozen=True, slots=True)
class BufferExtent:
    """The rows that a replay buffer holds, numbered from the first row of the run.

    A row holds one transition of each environment of the vector.
    """

    oldest: int
    end: int


def buffer_of(model: BaseAlgorithm) -> ReplayBuffer | None:
    """The learner's replay buffer, or None."""
    buffer: ReplayBuffer | None = getattr(model, "replay_buffer", None)
    return buffer


def replay_obstacle(model: BaseAlgorithm) -> str | None:
    """The reason why the replay buffer cannot be saved row by row, or None."""
    buffer = buffer_of(model)
    if buffer is None or type(buffer) in SUPPORTED_BUFFERS or _keeps_state(buffer):
        return None
    return f"a replay buffer of class {type(buffer).__name__} cannot be saved by rlexp"


def _keeps_state(buffer: ReplayBuffer) -> bool:
    # Declared by its own class: a subclass may hold further state.
    return isinstance(buffer, CheckpointedBuffer) and "changing" in vars(type(buffer))


def changing_state(model: BaseAlgorithm) -> dict[str, Any]:
    """Return a copy of what changes in place in the replay buffer; empty for an ordinary one."""
    buffer = buffer_of(model)
    return buffer.changing_state() if isinstance(buffer, CheckpointedBuffer) else {}


def buffer_extent(model: BaseAlgorithm) -> BufferExtent:
    """Return the rows that the buffer holds; call it between two rollouts.

    Raises:
        ValueError: The buffer did not receive a row at each step.
    """
    buffer = buffer_of(model)
    if buffer is None:
        return BufferExtent(0, 0)
    end = model.num_timesteps // buffer.n_envs
    if end % buffer.buffer_size != buffer.pos or (end >= buffer.buffer_size) is not buffer.full:
        raise ValueError(f"the replay buffer is at position {buffer.pos} after {end} rows")
    return BufferExtent(max(0, end - buffer.buffer_size), end)


def pending_row(model: BaseAlgorithm) -> dict[str, np.ndarray[Any, Any]]:
    """Return a copy of the row at the write position, or an empty dictionary if it holds no data.

    With `optimize_memory_usage`, stable-baselines3 stores the newest next observation in that row.
    """
    buffer = buffer_of(model)
    if buffer is None or not buffer.optimize_memory_usage:
        return {}
    return {name: array[buffer.pos].copy() for name, array in _arrays(buffer).items()}


def rollout_steps(model: BaseAlgorithm) -> int | None:
    """Environment steps of one rollout; None if a rollout ends with an episode."""
    frequency = getattr(model, "train_freq", None)
    if frequency is None:
        return int(getattr(model, "n_steps", 0)) * model.n_envs
    if frequency.unit is not TrainFrequencyUnit.STEP:
        return None
    return int(frequency.frequency) * model.n_envs


def longest_rollout(model: BaseAlgorithm) -> int:
    """Steps that a rollout of whole episodes takes at most, judged by the last episodes."""
    episodes = int(getattr(model, "train_freq").frequency)  # noqa: B009 (only off-policy learners have it)
    return episodes * max((int(e["l"]) for e in model.ep_info_buffer or ()), default=0)


def first_row(model: BaseAlgorithm) -> int:
    """The oldest row that the buffer still holds."""
    buffer = buffer_of(model)
    assert buffer is not None
    return max(0, model.num_timesteps // buffer.n_envs - buffer.buffer_size)


def read_rows(model: BaseAlgorithm, begin: int, end: int) -> Transitions:
    """Return the rows from `begin` to `end`; the buffer must still hold all of them."""
    buffer = buffer_of(model)
    assert buffer is not None
    rows = np.arange(begin, end) % buffer.buffer_size
    # Mappings of a row become a part of the tree.
    content = {
        name: array[rows].tolist() if array.dtype.hasobject else array[rows]
        for name, array in _arrays(buffer).items()
    }
    return Transitions(begin, end, pack(content))


def fill_buffer(
    model: BaseAlgorithm,
    stretches: Iterable[Transitions],
    next_row: dict[str, np.ndarray[Any, Any]],
    changing: dict[str, Any],
) -> None:
    """Restore the content of a fresh buffer at step `model.num_timesteps`.

    Raises:
        KeyError: The state that changes in place is missing.
        ValueError: Rows are missing, or they do not fit the buffer.
    """
    buffer = buffer_of(model)
    if buffer is None:
        return
    end = model.num_timesteps // buffer.n_envs
    reached = max(0, end - buffer.buffer_size)
    arrays = _arrays(buffer)
    for stretch in stretches:
        # Later stretches cannot close a gap, which the check below the loop reports.
        if stretch.begin > reached:
            break
        reached = max(reached, stretch.end)
        _write(arrays, np.arange(stretch.begin, stretch.end), unpack(stretch.content), buffer)
    if reached < end:
        raise ValueError(f"transitions {reached} to {end} are missing")
    buffer.pos, buffer.full = end % buffer.buffer_size, end >= buffer.buffer_size
    for name, row in next_row.items():
        arrays[name][buffer.pos] = row
    if isinstance(buffer, CheckpointedBuffer):
        buffer.restore_changing_state(changing)


def _write(
    arrays: dict[str, np.ndarray[Any, Any]],
    rows: np.ndarray[Any, Any],
    content: dict[str, Any],
    buffer: ReplayBuffer,
) -> None:
    # Checked before writing: NumPy would broadcast or cast arrays that do not fit.
    if set(content) != set(arrays):
        raise ValueError(f"transitions hold {sorted(content)} instead of {sorted(arrays)}")
    # The buffer is a ring: of rows that share an index, only the newest is kept.
    rows = rows[-buffer.buffer_size :]
    for name, stored in content.items():
        array = arrays[name]
        values = _mappings(stored, array.shape[1:]) if array.dtype.hasobject else stored
        if values.dtype != array.dtype or values.shape[1:] != array.shape[1:]:
            raise ValueError(f"{name} of the transitions is {values.dtype}{values.shape[1:]}")
        array[rows % buffer.buffer_size] = values[-len(rows) :] if len(rows) else values


def _mappings(rows: list[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Rows of mappings as an array of objects; `pack` turns scalars of NumPy into arrays."""
    values = np.empty((len(rows), *shape), dtype=object)
    for number, row in enumerate(rows):
        values[number] = [_with_scalars(mapping) for mapping in row]
    return values


def _with_scalars(tree: Any) -> Any:
    match tree:
        case dict():
            return {key: _with_scalars(value) for key, value in tree.items()}
        case list():
            return [_with_scalars(value) for value in tree]
        case np.ndarray() if tree.ndim == 0:
            return tree[()]
    return tree


def _arrays(buffer: ReplayBuffer) -> dict[str, np.ndarray[Any, Any]]:
    """Return the arrays with `buffer_size` rows by name; in dictionaries, by `name/key`."""
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    changing = buffer.changing if isinstance(buffer, CheckpointedBuffer) else frozenset[str]()
    for name, value in vars(buffer).items():
        if name in changing:
            continue
        parts = value if isinstance(value, dict) else {"": value}
        for key, array in parts.items():
            if isinstance(array, np.ndarray) and array.shape[:1] == (buffer.buffer_size,):
                arrays[f"{name}/{key}" if key else name] = array
    return arrays


def capture_generators(model: BaseAlgorithm) -> dict[str, Any]:
    """Return the states of the generators of Python, NumPy, torch and the action space."""
    version, numbers, gauss = random.getstate()
    # stable-baselines3 samples replay buffers with the legacy generator of NumPy.
    name, keys, position, has_gauss, cached = np.random.get_state(legacy=True)  # noqa: NPY002
    return {
        "python": {
            "version": version,
            "numbers": np.asarray(numbers, dtype=np.uint32),
            "gauss": gauss,
        },
        "numpy": {
            "name": name,
            "keys": np.array(keys),
            "position": position,
            "has_gauss": has_gauss,
            "cached": cached,
        },
        "torch": torch.get_rng_state().numpy().copy(),
        "cuda": [state.cpu().numpy().copy() for state in _cuda_states()],
        "actions": model.action_space.np_random.bit_generator.state,
    }


def restore_generators(model: BaseAlgorithm, states: dict[str, Any]) -> None:
    """Restore the states of all generators."""
    python, numpy = states["python"], states["numpy"]
    numbers = tuple(int(n) for n in python["numbers"])
    random.setstate((python["version"], numbers, python["gauss"]))
    np.random.set_state(  # noqa: NPY002
        (
            numpy["name"],
            numpy["keys"],
            numpy["position"],
            numpy["has_gauss"],
            numpy["cached"],
        )
    )
    torch.set_rng_state(torch.from_numpy(states["torch"]))
    if states["cuda"]:
        torch.cuda.set_rng_state_all([torch.from_numpy(state) for state in states["cuda"]])
    model.action_space.np_random.bit_generator.state = states["actions"]


def _cuda_states() -> list[torch.Tensor]:
    # Reading the state would initialise CUDA in a run on the CPU, which costs memory and seconds.
    initialised = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return torch.cuda.get_rng_state_all() if initialised else []


_NOT_RESTORED = {
    "_num_timesteps_at_start",
    "_total_timesteps",
    "seed",
    "start_time",
    "verbose",
}
"""Numbers that each call of `learn` sets itself, or that the configuration sets."""
_NUMBERS = (int, float, bool, np.integer, np.floating)


def continuation_obstacle(model: BaseAlgorithm) -> str | None:
    """The reason why a learner cannot continue in the middle of its training, or None."""
    if not hasattr(model, "collect_rollouts"):
        # ARS evaluates all its random directions in one go, without rollouts between them.
        return f"{type(model).__name__} has no rollouts between which it can be continued"
    for noise in _action_noises(model):
        if type(noise) not in {NormalActionNoise, OrnsteinUhlenbeckActionNoise}:
            return f"{type(noise).__name__} may hold state that rlexp cannot save"
    return None


def save_parameters(model: BaseAlgorithm) -> bytes:
    """Return parameters and optimisers in the file format of stable-baselines3."""
    buffer = io.BytesIO()
    model.save(buffer)
    return buffer.getvalue()


def capture_learner(model: BaseAlgorithm) -> dict[str, Any]:
    """Return copies of counters, last observations, episode statistics and noise."""
    return {
        "numbers": {k: _to_python(v) for k, v in vars(model).items() if _is_counter(k, v)},
        # `_last_obs`, `_last_episode_starts` and the like: `learn` continues from them.
        "arrays": {k: _copy(v) for k, v in vars(model).items() if _is_arrays(v)},
        "episodes": [_episode(e) for e in model.ep_info_buffer or ()],
        "successes": [_to_python(s) for s in model.ep_success_buffer or ()],
        "lstm": [_array(t) for t in _lstm_states(model)],
        "noises": [
            getattr(noise, "noise_prev", np.zeros(0)).copy() for noise in _action_noises(model)
        ],
        "exploration": [[_array(t) for t in _matrices(d)] for d in _gsde_distributions(model)],
    }


def prepare_learner(model: BaseAlgorithm, state: dict[str, Any]) -> None:
    """Restore the state that `learn` reads before its first rollout."""
    for name, value in state["numbers"].items():
        # Some counters are NumPy scalars, and JSON returns Python numbers: keep the type.
        present = getattr(model, name, None)
        setattr(model, name, type(present)(value) if isinstance(present, _NUMBERS) else value)
    for name, value in state["arrays"].items():
        setattr(model, name, _copy(value))
    window = model._stats_window_size  # noqa: SLF001
    model.ep_info_buffer = deque(state["episodes"], maxlen=window)
    model.ep_success_buffer = deque(state["successes"], maxlen=window)


def restore_learner(model: BaseAlgorithm, state: dict[str, Any]) -> None:
    """Restore the rest at the start of the first rollout, after `learn` has reset it."""
    for tensor, saved in zip(_lstm_states(model), state["lstm"], strict=True):
        tensor.copy_(torch.from_numpy(saved))
    for noise, previous in zip(_action_noises(model), state["noises"], strict=True):
        if hasattr(noise, "noise_prev"):
            noise.noise_prev = previous.copy()
    for distribution, saved in zip(_gsde_distributions(model), state["exploration"], strict=True):
        matrices = [torch.from_numpy(m.copy()).to(model.device) for m in saved]
        distribution.exploration_mat, distribution.exploration_matrices = matrices


def logged_values(model: BaseAlgorithm) -> dict[str, Any]:
    """The numbers that the learner has logged since its logger last wrote, such as its losses."""
    logger = getattr(model, "_logger", None)
    if logger is None:
        return {}
    return {
        "values": {
            k: float(v) for k, v in logger.name_to_value.items() if isinstance(v, _NUMBERS)
        },
        "counts": {k: int(v) for k, v in logger.name_to_count.items()},
        "excluded": {k: list(v or ()) for k, v in logger.name_to_excluded.items()},
    }


def restore_logged_values(model: BaseAlgorithm, logged: dict[str, Any]) -> None:
    """Give the values back to the learner's logger, which writes them after the next rollout.

    Args:
        model: The learner, with a logger.
        logged: From `logged_values`; empty for a checkpoint of an older version.
    """
    for name, value in logged.get("values", {}).items():
        model.logger.name_to_value[name] = value
        model.logger.name_to_excluded[name] = tuple(logged["excluded"].get(name, ()))
        model.logger.name_to_count[name] = logged["counts"].get(name, 0)


def _is_counter(name: str, value: Any) -> bool:
    return isinstance(value, _NUMBERS) and name not in _NOT_RESTORED


def _is_arrays(value: Any) -> bool:
    """Whether a value is an array or a non-empty dictionary of arrays."""
    if isinstance(value, dict):
        return bool(value) and all(isinstance(v, np.ndarray) for v in value.values())
    return isinstance(value, np.ndarray)


def _copy(value: Any) -> Any:
    return {k: v.copy() for k, v in value.items()} if isinstance(value, dict) else value.copy()


def _to_python(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _episode(episode: dict[str, Any]) -> dict[str, Any]:
    return {key: _to_python(value) for key, value in episode.items()}


def _array(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    return tensor.detach().cpu().numpy().copy()


def _lstm_states(model: BaseAlgorithm) -> list[torch.Tensor]:
    """The hidden and cell states of actor and critic of a recurrent policy."""
    states = getattr(model, "_last_lstm_states", None)
    return [tensor for pair in states or () for tensor in pair]


def _action_noises(model: BaseAlgorithm) -> list[Any]:
    noise = model.action_noise
    if noise is None:
        return []
    return list(noise.noises) if isinstance(noise, VectorizedActionNoise) else [noise]


def _gsde_distributions(model: BaseAlgorithm) -> list[StateDependentNoiseDistribution]:
    """The distributions of gSDE, which keep their noise matrices over several steps."""
    owners = (model.policy, getattr(model.policy, "actor", None))
    distributions = (getattr(owner, "action_dist", None) for owner in owners)
    return [d for d in distributions if isinstance(d, StateDependentNoiseDistribution)]


def _matrices(distribution: StateDependentNoiseDistribution) -> list[torch.Tensor]:
    return [distribution.exploration_mat, distribution.exploration_matrices]
