"""What compiled algorithms refuse that learn from a replay buffer."""

from typing import Any

from rlexp.algorithms.off_policy import OffPolicy
from rlexp.errors import ConfigError

KEPT = "handle_timeout_termination"


def check_compiled_replay(algorithm: OffPolicy, counterpart: str) -> None:
    """Refuse settings of collecting and of the replay buffer that are not compiled.

    Args:
        algorithm: The algorithm.
        counterpart: The algorithm with the same definitions that is not compiled.

    Raises:
        ConfigError: Names the setting.
    """
    other = f"or choose an algorithm that is not compiled (algorithm={counterpart})"
    if algorithm.optimize_memory_usage:
        raise ConfigError(
            "algorithm.optimize_memory_usage=true is not part of compiled training: set "
            f"algorithm.optimize_memory_usage=false, {other}"
        )
    frequency: Any = algorithm.train_freq
    if isinstance(frequency, tuple) and frequency[1] == "episode":
        raise ConfigError(
            f"algorithm.train_freq={list(frequency)} counts episodes, and a compiled rollout has a "
            f"number of steps: set algorithm.train_freq=1, {other}"
        )
    unknown = sorted(set(algorithm.replay_buffer_kwargs or {}) - {KEPT})
    if unknown:
        raise ConfigError(
            f"algorithm.replay_buffer_kwargs.{unknown[0]} is not part of compiled training: leave "
            f"it out (compiled: {KEPT}), {other}"
        )
