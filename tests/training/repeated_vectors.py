"""Vectors of environments as a training makes them, and digests of what they return."""

from pathlib import Path
from typing import Any

import numpy as np
from stable_baselines3.common.vec_env import VecEnv

from rlexp.environments import Reference, Vector
from rlexp.environments.gymnasium_task import GymnasiumTask
from rlexp.environments.wrappers import Wrapper
from rlexp.training.environments.episode_log import digest
from rlexp.training.vectorise import training_vector

NO_REFERENCE = Reference()


def task(name: str, *wrappers: Wrapper, limit: int | None = None, **vector: Any) -> GymnasiumTask:
    """A task by its id, or by the name of a class in `hidden_state`."""
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
        reference=NO_REFERENCE,
    )


def vector_of(environment: GymnasiumTask, folder: Path) -> VecEnv:
    """A fresh vector, whose monitors write into the folder."""
    folder.mkdir()
    count = environment.vector.count
    seeds, processes = range(100, 100 + count), range(200, 200 + count)
    return training_vector(environment, seeds, processes, 0.99, folder)


def actions_for(vector: VecEnv, steps: int) -> list[Any]:
    """Random actions that are equal in every call; the space of the vector stays unchanged."""
    generator = np.random.default_rng(5)
    space: Any = vector.action_space
    if hasattr(space, "n"):
        return list(generator.integers(0, space.n, (steps, vector.num_envs)))
    shape = (steps, vector.num_envs, *space.shape)
    return list(generator.uniform(-1, 1, shape).astype(np.float32))


def play_digests(vector: VecEnv, actions: list[Any]) -> list[str]:
    """The digest of the results of each step, without times."""
    return [digest(_without_times(vector.step(action.copy()))) for action in actions]


def _without_times(result: Any) -> Any:
    observations, rewards, dones, infos = result
    episodes = [{**info.get("episode", {}), "t": 0} for info in infos]
    other_infos = [{k: v for k, v in info.items() if k != "episode"} for info in infos]
    return [observations, rewards, dones, episodes, other_infos]


def episodes_of(folder: Path) -> list[list[str]]:
    """Return and length of each row of each `monitor.csv`."""
    files = sorted(folder.glob("*.monitor.csv"))
    return [[row.rpartition(",")[0] for row in f.read_text().splitlines()[2:]] for f in files]
