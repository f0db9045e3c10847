"""The policies that the trainings of an experiment begin with, each in a folder named by its digest."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from rlexp.errors import RecordError
from rlexp.records.checkpoint import MODEL, NORMALISATION, SavedPolicy
from rlexp.store.files import json_bytes, publish, read_file
from rlexp.store.layout import ExperimentPaths, RunPaths, check_digest
from rlexp.store.schemas import PROVENANCE

START_FROM = "start_from"
"""The setting of an algorithm that names a run; in records, the digest of its policy."""
ORIGIN = "origin.json"
"""The file that says which run has trained a policy."""


def final_policy(run: RunPaths) -> SavedPolicy:
    """The final policy of a run.

    Raises:
        RecordError: The run has none, or its files cannot be read.
    """
    try:
        model = read_file(run.model)
        has_statistics = run.normalisation.exists()
        return SavedPolicy(
            model=model, normalisation=read_file(run.normalisation) if has_statistics else None
        )
    except FileNotFoundError as error:
        raise RecordError(f"{run.model} is missing") from error
    except OSError as error:
        raise RecordError(f"{run.model} cannot be read: {error.strerror}") from error


def keep_policy(
    experiment: ExperimentPaths, policy: SavedPolicy, origin: Mapping[str, Any]
) -> None:
    """Store a policy in an experiment, where the run that trained it may be removed.

    Args:
        experiment: The experiment whose trainings begin with the policy.
        policy: The policy.
        origin: The run that has trained it, as JSON values.

    Raises:
        OSError: The disk is full or fails.
    """
    folder = experiment.policies / policy.digest
    # A policy that is missing or damaged is stored again.
    with suppress(RecordError):
        read_policy(experiment, policy.digest)
        return
    publish(folder / ORIGIN, json_bytes(origin, PROVENANCE))
    if policy.normalisation is not None:
        publish(folder / NORMALISATION, policy.normalisation)
    publish(folder / MODEL, policy.model)


def read_policy(experiment: ExperimentPaths, digest: str) -> SavedPolicy:
    """Read a policy that trainings of an experiment begin with.

    Raises:
        RecordError: It is missing, or was changed.
    """
    check_digest(digest, f"algorithm.{START_FROM}", "a policy")
    paths = RunPaths(experiment.policies / digest)
    policy = final_policy(paths)
    if policy.digest != digest:
        raise RecordError(f"{paths.folder} does not hold the policy that its name says")
    return policy


def copy_policy(source: ExperimentPaths, target: ExperimentPaths, digest: str) -> None:
    """Store a policy of one experiment in another one.

    Raises:
        OSError: The disk is full or fails.
        RecordError: The policy is missing, or was changed.
    """
    policy = read_policy(source, digest)
    keep_policy(target, policy, {"experiment": source.name})
