"""Vectors of environments for training and evaluation, and their normalisation statistics."""

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
from rlexp.environments.run_teacher import run_teacher
from rlexp.training.environments.monitor import (
    Env,
    EvaluatedEnvironment,
    RewardTap,
    WatchedEnvironment,
)
from rlexp.training.environments.replayable_env import ReplayableEnvironment
from rlexp.training.environments.subprocess_vec_env import ForkedVecEnv
from rlexp.training.environments.taught_vector import TaughtVector
from rlexp.training.lean.classic_vector import factories, vector_of

Watched = TypeVar("Watched", bound=WatchedEnvironment)


def make_watched(
    environment: Environment,
    seed: int,
    *,
    filename: str | None = None,
    defer: bool = False,
    render: str | None = None,
    kind: type[Watched] = WatchedEnvironment,  # type: ignore[assignment]
) -> Watched:
    """Make one environment inside a wrapper of class `kind`.

    Args:
        environment: The task.
        seed: Seed of the environment.
        filename: Where the wrapper writes `monitor.csv`, without its ending; `None` writes none.
        defer: Whether errors are raised by the parent process, which names the environment.
        render: Render mode; `None` draws nothing.
        kind: Class of the wrapper.
    """
    # `make` puts further wrappers around the tap, so the tap is handed out through a list.
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
    *,
    at_once: bool = False,
    teacher_seed: int = 0,
) -> VecEnv:
    """Make the vector of environments for training.

    Args:
        environment: The task.
        seeds: Seed of each environment of the vector.
        processes: Seed of the global generators in the process of each environment.
        gamma: Discount, for the normalisation of rewards.
        folder: Folder for the `monitor.csv` of each environment.
        at_once: Whether environments of classic control are stepped at once in NumPy.
        teacher_seed: Seed of the teacher of the run, where it has one.
    """
    subprocess = environment.vector.kind == "subprocess"

    def maker(position: int, seed: int, process_seed: int) -> Callable[[], ReplayableEnvironment]:
        filename = str(folder / str(position))

        def make() -> ReplayableEnvironment:
            if subprocess:
                # Forked processes inherit equal states of the global generators, from which
                # environments may draw: without this, all would draw the same numbers.
                set_random_seed(process_seed)
            return make_watched(
                environment, seed, filename=filename, defer=subprocess, kind=ReplayableEnvironment
            )

        return make

    makers = [maker(i, *pair) for i, pair in enumerate(zip(seeds, processes, strict=True))]
    vector: VecEnv = (
        ForkedVecEnv(makers) if subprocess else _in_process([m() for m in makers], at_once=at_once)
    )
    if (teacher := run_teacher(environment)) is not None:
        # The innermost layer: observations of a new episode are normalised as all others are.
        vector = TaughtVector(vector, teacher, teacher_seed)
    return _transform(environment, vector, gamma, training=True)


def evaluation_vector(
    environment: Environment,
    count: int,
    render: str | None = None,
    *,
    at_once: bool = False,
) -> tuple[VecEnv, list[EvaluatedEnvironment]]:
    """Make a vector for evaluation; returns it with its environments, which are seeded later.

    With `at_once`, environments of classic control are stepped at once in NumPy.
    """
    members = [
        make_watched(environment, 0, render=render, kind=EvaluatedEnvironment)
        for _ in range(count)
    ]
    vector = _in_process(members, at_once=at_once)
    # The discount matters for the normalisation of rewards only, which evaluation never does.
    return _transform(environment, vector, 0.99, training=False), members


def _in_process(members: Sequence[WatchedEnvironment], *, at_once: bool) -> DummyVecEnv:
    return vector_of(members) if at_once else DummyVecEnv(factories(members))


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
    # Stack after normalising, so that statistics are those of single frames.
    return VecFrameStack(vector, settings.frame_stack) if settings.frame_stack > 1 else vector


def as_seen(vector: VecEnv | None, observations: Any) -> Any:
    """Return observations (batch × shape) as a policy on this vector sees them.

    They are normalised if the vector normalises observations.
    """
    normalise = unwrap_vec_normalize(vector) if vector is not None else None
    return observations if normalise is None else normalise.normalize_obs(observations)


def share_statistics(source: VecEnv, target: VecEnv) -> None:
    """Let an evaluation vector normalise observations with the current training statistics."""
    trained, evaluated = unwrap_vec_normalize(source), unwrap_vec_normalize(target)
    if trained is not None and evaluated is not None and hasattr(trained, "obs_rms"):
        # The object is shared, not copied; the evaluation never updates it (`training=False`).
        evaluated.obs_rms = trained.obs_rms


def write_statistics(vector: VecEnv, path: Path | IO[bytes]) -> None:
    """Write the normalisation statistics of a vector as arrays (`numpy.savez`, no pickle)."""
    normalise = unwrap_vec_normalize(vector)
    assert normalise is not None
    arrays = {}
    for name, statistics in running_statistics(normalise).items():
        arrays[f"{name}/mean"] = statistics.mean
        arrays[f"{name}/variance"] = statistics.var
        arrays[f"{name}/count"] = np.asarray(statistics.count)
    np.savez(path, allow_pickle=False, **arrays)


def read_statistics(vector: VecEnv, path: Path | IO[bytes]) -> None:
    """Read statistics from `write_statistics` into a vector with the same normalisation."""
    normalise = unwrap_vec_normalize(vector)
    if normalise is None:
        return
    with np.load(path, allow_pickle=False) as arrays:
        for name, statistics in running_statistics(normalise).items():
            statistics.mean = arrays[f"{name}/mean"]
            statistics.var = arrays[f"{name}/variance"]
            statistics.count = float(arrays[f"{name}/count"])


def running_statistics(normalise: VecNormalize) -> dict[str, RunningMeanStd]:
    """Return the running statistics of rewards and observations by name."""
    statistics: dict[str, Any] = {"return": normalise.ret_rms}
    observations = getattr(normalise, "obs_rms", None)
    if isinstance(observations, dict):
        statistics |= {f"observation/{key}": value for key, value in observations.items()}
    elif observations is not None:
        statistics["observation"] = observations
    return statistics
