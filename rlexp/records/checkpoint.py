"""The content of a checkpoint: everything that a run needs to continue with identical results."""

import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import IO, Any

MODEL = "model.zip"
"""The learner's parameters and optimisers, in the format of stable-baselines3."""
NORMALISATION = "normalisation.npz"
"""Statistics of normalised observations and rewards, if the run normalises them."""
STATE = "state.npz"
"""All other state: counters, random generators, environments."""
STAGE = "network_stage"
"""Attribute of a learner whose network has changed: the number of its stage, from 0."""


def saved_stage(model: Path | IO[bytes]) -> int:
    """Read the stage of the network from the JSON in a saved file; 0 where it never changed."""
    with zipfile.ZipFile(model) as archive:
        return int(json.loads(archive.read("data")).get(STAGE, 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedPolicy:
    """The files of a trained policy.

    Attributes:
        model: The content of `model.zip`.
        normalisation: The content of `normalisation.npz`; None if nothing was normalised.
    """

    model: bytes = field(repr=False)
    normalisation: bytes | None = field(default=None, repr=False)

    @property
    def digest(self) -> str:
        """The sha256 of both files, in hexadecimal; of `model.zip` alone if there is no other."""
        model = sha256(self.model).hexdigest()
        if self.normalisation is None:
            return model
        return sha256(f"{model}:{sha256(self.normalisation).hexdigest()}".encode()).hexdigest()

    @property
    def stage(self) -> int:
        """The stage of the network, from 0, of a training whose network changes at given steps.

        Raises:
            Exception: `model.zip` is damaged; the types are those of the libraries.
        """
        return saved_stage(BytesIO(self.model))


@dataclass(frozen=True, slots=True)
class Transitions:
    """A range of transitions of the replay buffer, numbered from the run's first transition."""

    begin: int
    end: int
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A complete checkpoint before it is published.

    Attributes:
        step: Environment steps that the run has taken.
        files: Content of each file, by its name.
        oldest: Number of the oldest transition in the replay buffer; 0 without a buffer.
        transitions: Transitions that the buffer received since the previous checkpoint.
        digest: The sha256 of the state without clock readings, in hexadecimal: of two executions of
            one run, the states at the same step have the same digest.
    """

    step: int
    files: Mapping[str, bytes] = field(repr=False)
    digest: str | None = None
    oldest: int = 0
    transitions: Transitions | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedCheckpoint:
    """A checkpoint that was read from disk with verified checksums.

    Attributes:
        step: Environment steps that the run had taken.
        about: Recorded origin of the checkpoint: run, attempt, versions.
        files: Content of each file, by its name.
        transitions: Reads the transitions of the replay buffer, oldest first, and verifies each
            range while reading; raises RecordError if one is damaged or missing.
    """

    step: int
    about: Mapping[str, Any]
    files: Mapping[str, bytes] = field(repr=False)
    transitions: Callable[[], Iterator[Transitions]] = field(repr=False)
