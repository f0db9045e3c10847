"""Vectors of environments: for training, and for evaluation with the statistics of training."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    VecEnv,
    VecFrameStack,
    VecNormalize,
    unwrap_vec_normalize,
)

from rlexp.environments import Environment
from rlexp.training.monitor import Env, EvaluatedEnvironment, RewardTap, WatchedEnvironment
from rlexp.training.processes import ProcessVector
from rlexp.training.repeatable import RepeatableEnvironment

Watched = TypeVar("Watched", bound=WatchedEnvironment)


def watched(
    environment: Environment,
    seed: int,
    *,
    filename: str | None = None,
    defer: bool = False,
    render: str | None = None,
    kind: type[Watched] = WatchedEnvironment,  # type: ignore[assignment]
) -> Watched:
    """Make one environment, watched by a wrapper of this kind."""
    taps: list[RewardTap] = []

    def tap(inner: Env) -> Env:
        taps.append(RewardTap(inner))
        return taps[-1]

    env = environment.make(render, tap)
    return kind(env, taps[-1], seed, filename=filename, defer=defer)


def training_vector(
    environment: Environment,
    seeds: Sequence[int],
    processes: Sequence[int],
    gamma: float,
    folder: Path,
) -> VecEnv:
    """Make the vector that a run trains on.

    Args:
        environment: The task.
        seeds: One for each environment of the vector.
        processes: One for each process that an environment has of its own.
        gamma: Discount, for the normalisation of rewards.
        folder: Where each environment writes its `monitor.csv`.
    """
    subprocess = environment.vector.kind == "subprocess"

    def maker(position: int, seed: int, own: int) -> Callable[[], Env]:
        filename = str(folder / str(position))

        def make() -> Env:
            if subprocess:
                # Forked processes share the state of generators that an environment may use.
                set_random_seed(own)
            return watched(
                environment, seed, filename=filename, defer=subprocess, kind=RepeatableEnvironment
            )

        return make

    makers = [maker(i, *pair) for i, pair in enumerate(zip(seeds, processes, strict=True))]
    vector = ProcessVector(makers) if subprocess else DummyVecEnv(makers)
    return _transform(environment, vector, gamma, training=True)


def evaluation_vector(
    environment: Environment,
    count: int,
    render: str | None = None,
) -> tuple[VecEnv, list[EvaluatedEnvironment]]:
    """Make a vector for evaluation, and give its environments, so that they can be seeded."""
    members = [
        watched(environment, 0, render=render, kind=EvaluatedEnvironment) for _ in range(count)
    ]
    vector = DummyVecEnv([lambda member=member: member for member in members])  # type: ignore[misc]
    return _transform(environment, vector, 0.99, training=False), members


def _transform(
    environment: Environment, vector: VecEnv, gamma: float, *, training: bool
) -> VecEnv:
    settings = environment.vector
    if settings.normalise_observations or (training and settings.normalise_rewards):
        vector = VecNormalize(
            vector,
            training=training,
            norm_obs=settings.normalise_observations,
            norm_reward=training and settings.normalise_rewards,
            clip_obs=settings.clip_observations,
            clip_reward=settings.clip_rewards,
            gamma=gamma,
        )
    return VecFrameStack(vector, settings.frame_stack) if settings.frame_stack > 1 else vector


def as_seen(vector: VecEnv | None, observations: Any) -> Any:
    """Observations (batch × shape) as a policy on this vector sees them: normalised where it does."""
    normalise = unwrap_vec_normalize(vector) if vector is not None else None
    return observations if normalise is None else normalise.normalize_obs(observations)


def share_statistics(source: VecEnv, target: VecEnv) -> None:
    """Let an evaluation normalise observations as training does now."""
    trained, evaluated = unwrap_vec_normalize(source), unwrap_vec_normalize(target)
    if trained is not None and evaluated is not None and hasattr(trained, "obs_rms"):
        evaluated.obs_rms = trained.obs_rms


def write_statistics(vector: VecEnv, path: Path | IO[bytes]) -> None:
    """Write the statistics of a normalised vector as arrays (`numpy.savez`, no pickle)."""
    normalise = unwrap_vec_normalize(vector)
    assert normalise is not None
    arrays = {}
    for name, statistics in running_statistics(normalise).items():
        arrays[f"{name}/mean"] = statistics.mean
        arrays[f"{name}/variance"] = statistics.var
        arrays[f"{name}/count"] = np.asarray(statistics.count)
    np.savez(path, allow_pickle=False, **arrays)


def read_statistics(vector: VecEnv, path: Path) -> None:
    """Fill the statistics that `write_statistics` wrote into a vector that normalises alike."""
    normalise = unwrap_vec_normalize(vector)
    if normalise is None:
        return
    with np.load(path, allow_pickle=False) as arrays:
        for name, statistics in running_statistics(normalise).items():
            statistics.mean = arrays[f"{name}/mean"]
            statistics.var = arrays[f"{name}/variance"]
            statistics.count = float(arrays[f"{name}/count"])


def running_statistics(normalise: VecNormalize) -> dict[str, RunningMeanStd]:
    """The statistics that a vector normalises with, by their names."""
    found: dict[str, Any] = {"return": normalise.ret_rms}
    observations = getattr(normalise, "obs_rms", None)
    if isinstance(observations, dict):
        found |= {f"observation/{key}": value for key, value in observations.items()}
    elif observations is not None:
        found["observation"] = observations
    return found
