"""The transitions that trainings of an experiment begin with, each in a folder named by its digest."""

import io
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from rlexp.errors import RecordError
from rlexp.records.prior_transitions import PriorTransitions
from rlexp.store.files import json_bytes, publish, read_file
from rlexp.store.layout import ExperimentPaths, check_digest
from rlexp.store.schemas import PROVENANCE

ORIGIN = "origin.json"
"""The file that says where transitions come from."""
CONTENT = "transitions.npz"


def keep_prior_data(
    experiment: ExperimentPaths, transitions: PriorTransitions, origin: Mapping[str, Any]
) -> None:
    """Store transitions in an experiment, where their source may be removed.

    Args:
        experiment: The experiment whose trainings begin with them.
        transitions: The transitions.
        origin: Where they come from, as JSON values.

    Raises:
        OSError: The disk is full or fails.
    """
    digest = transitions.digest
    # Transitions that are missing or damaged are stored again.
    with suppress(RecordError):
        read_prior_data(experiment, digest)
        return
    folder = experiment.prior_data / digest
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **dict(transitions.arrays))
    publish(folder / ORIGIN, json_bytes(origin, PROVENANCE))
    publish(folder / CONTENT, content.getvalue())


def read_prior_data(experiment: ExperimentPaths, digest: str) -> PriorTransitions:
    """Read transitions that trainings of an experiment begin with.

    Raises:
        RecordError: They are missing, or were changed.
    """
    check_digest(digest, "replay.source", "transitions")
    path = experiment.prior_data / digest / CONTENT
    try:
        with np.load(io.BytesIO(read_file(path)), allow_pickle=False) as file:
            transitions = PriorTransitions({name: file[name] for name in file.files})
    except FileNotFoundError as error:
        raise RecordError(f"{path} is missing: the trainings begin with it") from error
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise RecordError(f"{path} cannot be read: {reason}") from error
    if transitions.digest != digest:
        raise RecordError(f"{path} does not hold the transitions that its folder names")
    return transitions


def copy_prior_data(source: ExperimentPaths, target: ExperimentPaths, digest: str) -> None:
    """Store transitions of one experiment in another one.

    Raises:
        OSError: The disk is full or fails.
        RecordError: They are missing, or were changed.
    """
    keep_prior_data(target, read_prior_data(source, digest), {"experiment": source.name})
