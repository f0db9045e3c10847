"""The state of a whole vector of environments, taken by how it came about and put back by replay."""

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

from rlexp.training.draws import plain
from rlexp.training.memory import NotRepeatable, in_one_line
from rlexp.training.processes import EnvironmentDied, ProcessVector
from rlexp.training.repeatable import REASON
from rlexp.training.vectorise import running_statistics

REPLAY_LIMIT = 30.0
"""Seconds that the replay of the present episodes may take."""

__all__ = ["REPLAY_LIMIT", "NotRepeatable", "capture", "restore"]


def capture(vector: VecEnv) -> dict[str, Any]:
    """The state of a vector between two steps; never raises.

    Returns:
        A tree of JSON values and arrays, all copied: for each environment what
        `RepeatableEnvironment.situation` says, for each wrapper of the vector what it knows. Where
        the state cannot be reproduced, only a `reason`.
    """
    try:
        layers = [_layer(layer) for layer in _layers(vector)]
        members = list(_members(vector.unwrapped))
    except Exception as error:  # noqa: BLE001
        return {REASON: in_one_line(error)}
    return {"members": members, "layers": layers}


def restore(
    vector: VecEnv, situation: dict[str, Any], *, beat: Callable[[], object] = lambda: None
) -> None:
    """Bring a freshly built vector of the same configuration into a state that was captured.

    The environments replay their present episodes, which may draw from the global generators of
    this process: put those back afterwards.

    Args:
        vector: As built, before its first reset.
        situation: What `capture` returned.
        beat: Called again and again meanwhile, as long as it goes on; what it raises is passed on.

    Raises:
        NotRepeatable: The state cannot be reproduced to the byte; says why. The vector is of no
            use any more.
    """
    if REASON in situation:
        raise NotRepeatable(situation[REASON])
    layers = list(_layers(vector))
    if [type(layer).__name__ for layer in layers] != [s["kind"] for s in situation["layers"]]:
        raise NotRepeatable("the wrappers of the environments are others now")
    if vector.num_envs != len(situation["members"]):
        raise NotRepeatable("the number of environments is another now")
    _replay(vector.unwrapped, situation["members"], beat)
    for layer, state in zip(layers, situation["layers"], strict=True):
        _put_back(layer, state)


def _layers(vector: VecEnv) -> Iterator[VecEnvWrapper]:
    while isinstance(vector, VecEnvWrapper):
        yield vector
        vector = vector.venv


def _members(vector: VecEnv) -> Iterator[dict[str, Any]]:
    # One by one: where one is dead, no other's answer is left lying in its pipe.
    for position in range(vector.num_envs):
        (situation,) = vector.env_method("situation", indices=position)
        if REASON in situation:
            raise NotRepeatable(f"environment {position}: {situation[REASON]}")
        yield situation


def _replay(vector: VecEnv, situations: list[dict[str, Any]], beat: Callable[[], object]) -> None:
    try:
        reasons = _resumed(vector, situations, beat)
    except EnvironmentDied as error:
        raise NotRepeatable(f"{error} as it repeated its episode") from error
    for position, reason in enumerate(reasons):
        if reason is not None:
            raise NotRepeatable(f"environment {position}: {reason}")


def _resumed(
    vector: VecEnv, situations: list[dict[str, Any]], beat: Callable[[], object]
) -> list[str | None]:
    """For each environment, why it is not where it was, or nothing."""
    if isinstance(vector, ProcessVector):
        return vector.resume(situations, REPLAY_LIMIT, beat)
    deadline = time.monotonic() + REPLAY_LIMIT
    reasons: list[str | None] = []
    for position, situation in enumerate(situations):
        left = deadline - time.monotonic()
        reasons += vector.env_method("resume", situation, left, beat=beat, indices=position)
    return reasons


def _layer(layer: VecEnvWrapper) -> dict[str, Any]:
    """What a wrapper of the vector knows."""
    state: dict[str, Any] = {"kind": type(layer).__name__}
    match layer:
        case VecNormalize():
            return state | {
                "statistics": {
                    name: plain({"mean": each.mean, "variance": each.var, "count": each.count})
                    for name, each in running_statistics(layer).items()
                },
                "returns": layer.returns.copy(),
                "observations": plain(getattr(layer, "old_obs", None)),
                "rewards": layer.old_reward.copy(),
            }
        case VecFrameStack():
            stacks = _stacks(layer.stacked_obs)
            return state | {"stacks": {name: s.stacked_obs.copy() for name, s in stacks}}
        case VecTransposeImage():
            return state
    raise NotRepeatable(f"{type(layer).__name__} may remember what is not known here")


def _put_back(layer: VecEnvWrapper, state: dict[str, Any]) -> None:
    match layer:
        case VecNormalize():
            # In place: an evaluation may share them.
            for name, statistics in running_statistics(layer).items():
                saved = plain(state["statistics"][name])
                statistics.mean, statistics.var = saved["mean"], saved["variance"]
                statistics.count = saved["count"]
            layer.returns, layer.old_reward = state["returns"].copy(), state["rewards"].copy()
            if state["observations"] is not None:
                layer.old_obs = plain(state["observations"])
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
