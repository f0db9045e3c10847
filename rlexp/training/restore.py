"""Restores a trained policy into a freshly built learner, without unpickling files."""

from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import unwrap_vec_normalize

from rlexp.environments import Stage
from rlexp.environments.composed import at_stage
from rlexp.errors import ConfigError, RecordError
from rlexp.records.checkpoint import saved_stage
from rlexp.training.parameters import load_parameters, weights_digest
from rlexp.training.parts import Training
from rlexp.training.vectorise import evaluation_vector, read_statistics

Learner: TypeAlias = BaseAlgorithm
"""A learner of the library, for modules that must not import stable-baselines3."""
LONGEST_REASON = 200


def restore_policy(
    training: Training, model: Path, statistics: Path, *, weights: str | None
) -> BaseAlgorithm:
    """Return a learner that acts as the saved one does.

    Args:
        training: The parts of the run that saved the learner.
        model: The saved learner, in the format of stable-baselines3.
        statistics: The file of normalisation statistics; read if the environment normalises.
        weights: The digest that the parameters must have, or None if the run recorded none.

    Raises:
        RecordError: A file is missing, damaged or does not fit; the message names it.
        ConfigError: The parts cannot be built.
    """
    learner = fresh_learner(training)
    try:
        training.changing_networks().change(learner, saved_stage(model))
        load_parameters(learner, model)
    except Exception as error:
        raise _refusal(model, error) from error
    if weights is not None and weights_digest(learner) != weights:
        # Without this check, a replaced file would be evaluated under the name of the run.
        raise RecordError(
            f"{model} does not hold the weights that the run ended with: it was changed or "
            "damaged; take it from a copy of the run, or evaluate a checkpoint",
        )
    _normalise(learner, statistics)
    return learner


def fresh_learner(training: Training) -> BaseAlgorithm:
    """Build a learner on a single environment, with a replay buffer of one row to save memory."""
    environment = training.environment
    algorithm: Any = training.algorithm
    # A full replay buffer can take gigabytes, and acting needs none of it.
    if hasattr(algorithm, "buffer_size"):
        algorithm = replace(algorithm, buffer_size=1)
    vector, _ = evaluation_vector(at_stage(environment, Stage.EVALUATION), 1)
    # The learner checks its rollout size against the number of environments of the run, so
    # the vector of one claims that number; acting does not use it.
    vector.num_envs = environment.vector.count
    learner: BaseAlgorithm = algorithm.build(
        training.agent.policy,
        training.agent.arguments(),
        vector,
        seed=training.streams.policy,
        device=training.learner_device,
    )
    return learner


def _normalise(learner: BaseAlgorithm, statistics: Path) -> None:
    normalise = unwrap_vec_normalize(learner.env) if learner.env is not None else None
    if learner.env is None or normalise is None:
        return
    expected = getattr(normalise, "obs_rms", None)
    # Reading replaces the arrays, and arrays of other shapes would broadcast silently.
    shapes = _shapes(expected)
    try:
        read_statistics(learner.env, statistics)
    except Exception as error:
        raise _refusal(statistics, error) from error
    if _shapes(expected) != shapes:
        raise RecordError(
            f"{statistics} does not fit this run's observations: take it from a copy of the run"
        )


def _shapes(statistics: Any) -> Any:
    if isinstance(statistics, dict):
        return {name: _shapes(each) for name, each in statistics.items()}
    return statistics if statistics is None else (statistics.mean.shape, statistics.var.shape)


def _refusal(path: Path, error: Exception) -> Exception:
    if isinstance(error, ConfigError):
        return error
    if isinstance(error, FileNotFoundError):
        return RecordError(f"{path} is missing; take it from a copy of the run")
    reason = " ".join(f"{type(error).__name__}: {error}".split())[:LONGEST_REASON]
    return RecordError(
        f"{path} is damaged or does not fit this run ({reason}); take it from a copy of the run, "
        "or evaluate a checkpoint",
    )
