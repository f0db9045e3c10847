"""Small learners on tiny environments, for the tests of algorithms."""

from typing import Any

import sb3_contrib
import stable_baselines3
from members import member, settings
from spaces import tiny_environments
from stable_baselines3.common.base_class import BaseAlgorithm

SMALL: dict[str, Any] = {
    "n_steps": 8, "batch_size": 4, "n_epochs": 1, "buffer_size": 100, "learning_starts": 4,
    "n_delta": 1, "cg_max_steps": 2, "line_search_max_iter": 2, "n_critic_updates": 1,
}  # fmt: skip


def library_class(name: str) -> type[BaseAlgorithm]:
    """The class of the library that an algorithm builds."""
    kind = settings("algorithm", name)["_target_"].rpartition(".")[2]
    module = stable_baselines3 if hasattr(stable_baselines3, kind) else sb3_contrib
    algorithm_class: type[BaseAlgorithm] = getattr(module, kind)
    return algorithm_class


def small_algorithm(name: str, **changes: Any) -> Any:
    """The algorithm with small numbers, so that it learns at once."""
    values = settings("algorithm", name)
    small_values = {key: value for key, value in SMALL.items() if key in values}
    if "replay_buffer_kwargs" in values:
        small_values["n_steps"] = 1
    return member("algorithm", name, **{**small_values, **changes})


def build_learner(algorithm: Any, **options: Any) -> BaseAlgorithm:
    """A learner of the algorithm on a tiny environment with actions that it accepts."""
    environment = tiny_environments(action=algorithm.actions[0], count=options.pop("count", 1))
    policy = options.pop("policy", algorithm.policies[0])
    arguments = options.pop("arguments", {})
    learner: BaseAlgorithm = algorithm.build(
        policy, arguments, environment, seed=options.pop("seed", 2**32 - 1), device="cpu"
    )
    return learner
