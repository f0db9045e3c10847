"""Datasets of Minari that tests record: random actions, and a controller that swings the pendulum up."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from rlexp.datasets.recorded import Episode
from rlexp.datasets.writing import new_folder, write_dataset

Policy = Callable[[Any], Any]


def swing_up(observation: Any) -> Any:
    """The action of a controller of energy, which holds the pendulum upright in the end."""
    cosine, sine, speed = (float(value) for value in observation)
    angle = np.arctan2(sine, cosine)
    if cosine > 0.9:
        torque = -12.0 * angle - 2.0 * speed
    else:
        torque = np.sign(speed or 1.0) * (10.0 * (1.0 - cosine) - 0.5 * speed**2 + 2.0)
    return np.clip([torque], -2.0, 2.0).astype(np.float32)


def half_random(seed: int = 0) -> Policy:
    """A medium policy for the pendulum: each action is random or that of `swing_up`, with equal chances."""
    generator = np.random.default_rng(seed)

    def act(observation: Any) -> Any:
        if generator.random() < 0.5:
            return swing_up(observation)
        return generator.uniform(-2.0, 2.0, 1).astype(np.float32)

    return act


def record(
    name: str,
    task: str = "Pendulum-v1",
    episodes: int = 5,
    policy: Policy | None = None,
    seed: int = 0,
    **metadata: Any,
) -> Path:
    """Record a dataset into Minari's folder; without a policy, actions are random. Returns its data folder."""
    folder = new_folder(name, "--record")
    with closing(gymnasium.make(task)) as environment:
        played = [*_played(environment, episodes, policy, seed)]
        write_dataset(folder, name, played, environment, metadata)
    return folder / "data"


def _played(
    environment: gymnasium.Env[Any, Any], episodes: int, policy: Policy | None, seed: int
) -> Iterator[Episode]:
    environment.action_space.seed(seed)
    for number in range(episodes):
        observation, _ = environment.reset(seed=seed + number)
        observations, rows, over = [observation], [], False
        while not over:
            action = policy(observation) if policy else environment.action_space.sample()
            observation, reward, terminated, truncated, _ = environment.step(action)
            observations.append(observation)
            rows.append((action, float(reward), terminated, truncated))
            over = terminated or truncated
        actions, rewards, terminations, truncations = zip(*rows, strict=True)
        yield Episode(
            np.stack(observations),
            np.stack(actions),
            np.asarray(rewards),
            np.asarray(terminations),
            np.asarray(truncations),
        )
