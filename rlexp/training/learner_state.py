"""What a learner knows besides its parameters, taken between two rollouts and put back there."""

import io
from collections import deque
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.distributions import StateDependentNoiseDistribution
from stable_baselines3.common.noise import (
    NormalActionNoise,
    OrnsteinUhlenbeckActionNoise,
    VectorizedActionNoise,
)

_OF_THE_CALL = {
    "_num_timesteps_at_start",
    "_total_timesteps",
    "seed",
    "start_time",
    "verbose",
}
"""Numbers that belong to a call of `learn`, not to what was learned."""
_NUMBERS = (int, float, bool, np.integer, np.floating)


def obstacle(model: BaseAlgorithm) -> str | None:
    """Why a learner cannot go on in the middle of its training, or nothing."""
    if not hasattr(model, "collect_rollouts"):
        return f"{type(model).__name__} draws what it tries next before it can be interrupted"
    for noise in _noises(model):
        if type(noise) not in {NormalActionNoise, OrnsteinUhlenbeckActionNoise}:
            return f"{type(noise).__name__} may remember what is not known here"
    return None


def save_parameters(model: BaseAlgorithm) -> bytes:
    """Parameters and optimisers, in the format of stable-baselines3."""
    buffer = io.BytesIO()
    model.save(buffer)
    return buffer.getvalue()


def capture_learner(model: BaseAlgorithm) -> dict[str, Any]:
    """Counters, last observations, statistics of episodes, noises; all copied."""
    return {
        "numbers": {k: _plain(v) for k, v in vars(model).items() if _is_counter(k, v)},
        "arrays": {k: _copied(v) for k, v in vars(model).items() if _is_arrays(v)},
        "episodes": [_episode(e) for e in model.ep_info_buffer or ()],
        "successes": [_plain(s) for s in model.ep_success_buffer or ()],
        "lstm": [_array(t) for t in _recurrent(model)],
        "noises": [getattr(noise, "noise_prev", np.zeros(0)).copy() for noise in _noises(model)],
        "exploration": [[_array(t) for t in _matrices(d)] for d in _explorations(model)],
    }


def prepare_learner(model: BaseAlgorithm, state: dict[str, Any]) -> None:
    """Put back what `learn` looks at before its first rollout."""
    for name, value in state["numbers"].items():
        present = getattr(model, name, None)
        setattr(model, name, type(present)(value) if isinstance(present, _NUMBERS) else value)
    for name, value in state["arrays"].items():
        setattr(model, name, _copied(value))
    window = model._stats_window_size  # noqa: SLF001
    model.ep_info_buffer = deque(state["episodes"], maxlen=window)
    model.ep_success_buffer = deque(state["successes"], maxlen=window)


def restore_learner(model: BaseAlgorithm, state: dict[str, Any]) -> None:
    """Put back the rest, at the start of the rollout before which it was taken."""
    for tensor, saved in zip(_recurrent(model), state["lstm"], strict=True):
        tensor.copy_(torch.from_numpy(saved))
    for noise, previous in zip(_noises(model), state["noises"], strict=True):
        if hasattr(noise, "noise_prev"):
            noise.noise_prev = previous.copy()
    for distribution, saved in zip(_explorations(model), state["exploration"], strict=True):
        matrices = [torch.from_numpy(m.copy()).to(model.device) for m in saved]
        distribution.exploration_mat, distribution.exploration_matrices = matrices


def _is_counter(name: str, value: Any) -> bool:
    return isinstance(value, _NUMBERS) and name not in _OF_THE_CALL


def _is_arrays(value: Any) -> bool:
    """Whether it is an array, or a dictionary of them."""
    if isinstance(value, dict):
        return bool(value) and all(isinstance(v, np.ndarray) for v in value.values())
    return isinstance(value, np.ndarray)


def _copied(value: Any) -> Any:
    return {k: v.copy() for k, v in value.items()} if isinstance(value, dict) else value.copy()


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _episode(episode: dict[str, Any]) -> dict[str, Any]:
    return {key: _plain(value) for key, value in episode.items()}


def _array(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    return tensor.detach().cpu().numpy().copy()


def _recurrent(model: BaseAlgorithm) -> list[torch.Tensor]:
    """The memory of recurrent policies: hidden and cell states of actor and critic."""
    states = getattr(model, "_last_lstm_states", None)
    return [tensor for pair in states or () for tensor in pair]


def _noises(model: BaseAlgorithm) -> list[Any]:
    noise = model.action_noise
    if noise is None:
        return []
    return list(noise.noises) if isinstance(noise, VectorizedActionNoise) else [noise]


def _explorations(model: BaseAlgorithm) -> list[StateDependentNoiseDistribution]:
    """The distributions of state-dependent exploration, which keep what they drew."""
    owners = (model.policy, getattr(model.policy, "actor", None))
    found = (getattr(owner, "action_dist", None) for owner in owners)
    return [d for d in found if isinstance(d, StateDependentNoiseDistribution)]


def _matrices(distribution: StateDependentNoiseDistribution) -> list[torch.Tensor]:
    return [distribution.exploration_mat, distribution.exploration_matrices]
