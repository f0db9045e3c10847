"""The state of a vector of environments: captured as episode logs, and restored by replay.

Most environments cannot save their state. A fresh environment reaches the same state by replaying
the current episode: the same generator states, one reset, and the same actions.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

from stable_baselines3.common.vec_env import (
    VecEnv,
    VecEnvWrapper,
    VecFrameStack,
    VecNormalize,
    VecTransposeImage,
)
from stable_baselines3.common.vec_env.stacked_observations import StackedObservations

from rlexp.training.environments.episode_log import NotReplayable, in_one_line
from rlexp.training.environments.replayable_env import REASON
from rlexp.training.environments.rng_state import to_plain_tree
from rlexp.training.environments.subprocess_vec_env import EnvironmentDied, ForkedVecEnv
from rlexp.training.environments.taught_vector import TaughtVector
from rlexp.training.vectorise import running_statistics

REPLAY_LIMIT = 30.0
"""Seconds that the replay of the current episodes may take."""

__all__ = ["REPLAY_LIMIT", "NotReplayable", "capture_vec_env", "restore_vec_env"]


def capture_vec_env(vector: VecEnv) -> dict[str, Any]:
    """Return the state of a vector between two steps; never raises.

    Returns:
        A tree of JSON values and arrays, all copied: the result of
        `ReplayableEnvironment.env_state` for each environment, and the state of each wrapper of
        the vector. If the state cannot be restored, only a `reason`.
    """
    try:
        layers = [_capture_layer(layer) for layer in _vec_wrappers(vector)]
        members = list(_capture_members(vector.unwrapped))
    except Exception as error:  # noqa: BLE001
        return {REASON: in_one_line(error)}
    return {"members": members, "layers": layers}


def restore_vec_env(
    vector: VecEnv, env_state: dict[str, Any], *, beat: Callable[[], object] = lambda: None
) -> None:
    """Restore a captured state in a freshly built vector of the same configuration.

    The environments replay their current episodes, which may draw from the global generators of
    this process: restore these generators afterwards.

    Args:
        vector: The fresh vector, before its first reset.
        env_state: The result of `capture_vec_env`.
        beat: Called repeatedly during the replay; its exceptions are passed on.

    Raises:
        NotReplayable: The state cannot be restored bit for bit; the message says why. The vector
            is unusable afterwards.
    """
    if REASON in env_state:
        raise NotReplayable(env_state[REASON])
    layers = list(_vec_wrappers(vector))
    if [type(layer).__name__ for layer in layers] != [s["kind"] for s in env_state["layers"]]:
        raise NotReplayable("the wrappers of the vector differ from those of the checkpoint")
    if vector.num_envs != len(env_state["members"]):
        raise NotReplayable("the number of environments differs from that of the checkpoint")
    _replay(vector.unwrapped, env_state["members"], beat)
    for layer, state in zip(layers, env_state["layers"], strict=True):
        _restore_layer(layer, state)


def _vec_wrappers(vector: VecEnv) -> Iterator[VecEnvWrapper]:
    while isinstance(vector, VecEnvWrapper):
        yield vector
        vector = vector.venv


def _capture_members(vector: VecEnv) -> Iterator[dict[str, Any]]:
    # One by one: if a process is dead, no unread reply of another is left in its pipe.
    for position in range(vector.num_envs):
        (env_state,) = vector.env_method("env_state", indices=position)
        if REASON in env_state:
            raise NotReplayable(f"environment {position}: {env_state[REASON]}")
        yield env_state


def _replay(vector: VecEnv, env_states: list[dict[str, Any]], beat: Callable[[], object]) -> None:
    try:
        reasons = _resume_all(vector, env_states, beat)
    except EnvironmentDied as error:
        raise NotReplayable(f"{error} while it replayed its episode") from error
    for position, reason in enumerate(reasons):
        if reason is not None:
            raise NotReplayable(f"environment {position}: {reason}")


def _resume_all(
    vector: VecEnv, env_states: list[dict[str, Any]], beat: Callable[[], object]
) -> list[str | None]:
    """Return for each environment the reason why its replay failed, or None."""
    if isinstance(vector, ForkedVecEnv):
        return vector.resume(env_states, REPLAY_LIMIT, beat)
    deadline = time.monotonic() + REPLAY_LIMIT
    reasons: list[str | None] = []
    for position, env_state in enumerate(env_states):
        left = deadline - time.monotonic()
        reasons += vector.env_method("resume", env_state, left, beat=beat, indices=position)
    return reasons


def _capture_layer(layer: VecEnvWrapper) -> dict[str, Any]:
    """Return the state of a wrapper of the vector."""
    state: dict[str, Any] = {"kind": type(layer).__name__}
    match layer:
        case VecNormalize():
            return state | {
                "statistics": {
                    name: to_plain_tree(
                        {"mean": each.mean, "variance": each.var, "count": each.count}
                    )
                    for name, each in running_statistics(layer).items()
                },
                "returns": layer.returns.copy(),
                "observations": to_plain_tree(getattr(layer, "old_obs", None)),
                "rewards": layer.old_reward.copy(),
            }
        case VecFrameStack():
            stacks = _stacks(layer.stacked_obs)
            return state | {"stacks": {name: s.stacked_obs.copy() for name, s in stacks}}
        case TaughtVector():
            return state | layer.state()
        case VecTransposeImage():
            return state
    raise NotReplayable(f"{type(layer).__name__} may hold state that rlexp cannot save")


def _restore_layer(layer: VecEnvWrapper, state: dict[str, Any]) -> None:
    match layer:
        case VecNormalize():
            # In place: the evaluation vector may share these objects.
            for name, statistics in running_statistics(layer).items():
                saved = to_plain_tree(state["statistics"][name])
                statistics.mean, statistics.var = saved["mean"], saved["variance"]
                statistics.count = saved["count"]
            layer.returns, layer.old_reward = state["returns"].copy(), state["rewards"].copy()
            if state["observations"] is not None:
                layer.old_obs = to_plain_tree(state["observations"])
        case TaughtVector():
            layer.restore(state)
        case VecFrameStack():
            for name, stack in _stacks(layer.stacked_obs):
                stack.stacked_obs = state["stacks"][name].copy()


def _stacks(stacked: StackedObservations[Any], name: str = "") -> Iterator[tuple[str, Any]]:
    parts = getattr(stacked, "sub_stacked_observations", None)
    if parts is None:
        yield name, stacked
    else:
        for key, part in parts.items():
            yield from _stacks(part, f"{name}/{key}")
