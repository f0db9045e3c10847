"""Small learners on tiny environments, for the tests of algorithms."""

from typing import Any

import sb3_contrib
import stable_baselines3
from members import member, settings
from spaces import tiny
from stable_baselines3.common.base_class import BaseAlgorithm

SMALL: dict[str, Any] = {
    "n_steps": 8, "batch_size": 4, "n_epochs": 1, "buffer_size": 100, "learning_starts": 4,
    "n_delta": 1, "cg_max_steps": 2, "line_search_max_iter": 2, "n_critic_updates": 1,
}  # fmt: skip


def library(name: str) -> type[BaseAlgorithm]:
    """The class of the library that an algorithm builds."""
    kind = settings("algorithm", name)["_target_"].rpartition(".")[2]
    module = stable_baselines3 if hasattr(stable_baselines3, kind) else sb3_contrib
    found: type[BaseAlgorithm] = getattr(module, kind)
    return found


def small(name: str, **changes: Any) -> Any:
    """The algorithm with small numbers, so that it learns at once."""
    values = settings("algorithm", name)
    shrunk = {key: value for key, value in SMALL.items() if key in values}
    if "replay_buffer_kwargs" in values:
        shrunk["n_steps"] = 1
    return member("algorithm", name, **{**shrunk, **changes})


def built(algorithm: Any, **options: Any) -> BaseAlgorithm:
    """A learner on a tiny environment that fits."""
    environment = tiny(action=algorithm.actions[0], count=options.pop("count", 1))
    policy = options.pop("policy", algorithm.policies[0])
    arguments = options.pop("arguments", {})
    learner: BaseAlgorithm = algorithm.build(
        policy, arguments, environment, seed=options.pop("seed", 2**32 - 1), device="cpu"
    )
    return learner
