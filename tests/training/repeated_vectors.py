"""Vectors of environments as a training makes them, and digests of what they return."""

from pathlib import Path
from typing import Any

import numpy as np
from stable_baselines3.common.vec_env import VecEnv

from rlexp.environments import Reference, Vector
from rlexp.environments.gymnasium_task import GymnasiumTask
from rlexp.environments.wrappers import Wrapper
from rlexp.training.episode_log import digest
from rlexp.training.vectorise import training_vector

NONE = Reference()


def task(name: str, *wrappers: Wrapper, limit: int | None = None, **vector: Any) -> GymnasiumTask:
    """A task by its id, or by the class of one of the tests' own environments."""
    settings: dict[str, Any] = {
        "count": 1,
        "kind": "dummy",
        "frame_stack": 1,
        "normalise_observations": False,
        "normalise_rewards": False,
        "clip_observations": 10.0,
        "clip_rewards": 10.0,
    }
    return GymnasiumTask(
        id=name if "-v" in name else f"hidden/{name}-v0",
        name=None,
        imports=("hidden_state",),
        arguments={},
        max_episode_steps=limit,
        wrappers=wrappers,
        vector=Vector(**settings | vector),
        reference=NONE,
    )


def vector_of(environment: GymnasiumTask, folder: Path) -> VecEnv:
    """A fresh vector, whose monitors write into the folder."""
    folder.mkdir()
    count = environment.vector.count
    seeds, processes = range(100, 100 + count), range(200, 200 + count)
    return training_vector(environment, seeds, processes, 0.99, folder)


def actions_for(vector: VecEnv, steps: int) -> list[Any]:
    """Random actions that are the same in every call; the space of the vector stays unchanged."""
    generator = np.random.default_rng(5)
    space: Any = vector.action_space
    if hasattr(space, "n"):
        return list(generator.integers(0, space.n, (steps, vector.num_envs)))
    shape = (steps, vector.num_envs, *space.shape)
    return list(generator.uniform(-1, 1, shape).astype(np.float32))


def played(vector: VecEnv, actions: list[Any]) -> list[str]:
    """A digest of everything that each step returns, without times."""
    return [digest(_timeless(vector.step(action.copy()))) for action in actions]


def _timeless(result: Any) -> Any:
    observations, rewards, dones, infos = result
    episodes = [{**info.get("episode", {}), "t": 0} for info in infos]
    others = [{k: v for k, v in info.items() if k != "episode"} for info in infos]
    return [observations, rewards, dones, episodes, others]


def episodes_of(folder: Path) -> list[list[str]]:
    """Return and length of each row of each `monitor.csv`."""
    files = sorted(folder.glob("*.monitor.csv"))
    return [[row.rpartition(",")[0] for row in f.read_text().splitlines()[2:]] for f in files]
