"""What defines one run, as plain data, and the identity that follows from it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from hashlib import sha256
from typing import Any

from rlexp.protocol.seeds import Phase, Streams

Plain = Mapping[str, Any]
"""A mapping of JSON values."""


def canonical(value: Any) -> str:
    """JSON in one form only: keys sorted, no spaces; a key that is null counts as absent.

    So an option that is added later, and is null where it is not used, changes no identity.
    """
    return json.dumps(_without_null(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def _without_null(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _without_null(v) for k, v in value.items() if v is not None}
    if isinstance(value, list | tuple):
        return [_without_null(item) for item in value]
    return value


def digest(value: Any) -> str:
    """The sha256 of the canonical JSON, in hexadecimal."""
    return sha256(canonical(value).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """One training of one configuration with one seed in one phase.

    Two runs are the same run when, and only when, these fields are equal.
    """

    agent: Plain
    algorithm: Plain
    environment: Plain
    budget: Plain
    compute: Plain
    phase: Phase
    root: int
    seed: int

    @cached_property
    def id(self) -> str:
        """Identity: sha256 of exactly the fields."""
        return digest(self.plain())

    @cached_property
    def fingerprint(self) -> str:
        """Identity of the configuration: the same without seed and phase."""
        plain = self.plain()
        for key in ("phase", "root", "seed"):
            del plain[key]
        return digest(plain)

    @property
    def name(self) -> str:
        """Name of the run's folder, readable and unique: `ppo-test-0-1a2b3c4d5e`."""
        return f"{short_name(self.algorithm)}-{self.phase}-{self.seed}-{self.id[:10]}"

    @property
    def streams(self) -> Streams:
        """Every seed that the run hands to a library."""
        return Streams(self.root, self.phase, self.seed)

    def plain(self) -> dict[str, Any]:
        """The fields as a mapping of JSON values."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_plain(cls, plain: Plain) -> "RunSpec":
        """The inverse of `plain`.

        Raises:
            KeyError: A field is missing.
        """
        values = {field.name: plain[field.name] for field in fields(cls)}
        return cls(**{**values, "phase": Phase(plain["phase"])})


def short_name(part: Plain) -> str:
    """The plug-in's name as its module says it: `ppo` for `rlexp.algorithms.ppo.PPO`."""
    path = str(part.get("_target_", "unknown")).split(".")
    return path[-2] if len(path) > 1 else path[-1]
