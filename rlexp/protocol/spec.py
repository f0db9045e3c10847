"""What defines one run, as plain data, and the identity that follows from it."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from rlexp.protocol.seeds import Phase, Streams

if TYPE_CHECKING:
    from hashlib import _Hash as Hash

Plain = Mapping[str, Any]
"""A mapping of JSON values."""
LONGEST_NAME = 100
"""Letters of a plug-in's name."""


CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)
OF_ONE_RUN = ("phase", "root", "seed")
"""Fields in which runs of one configuration differ. In canonical JSON they are the last."""


def canonical(value: Any) -> str:
    """JSON in one form only: keys sorted, no spaces."""
    return CANONICAL.encode(value)


def without_null(part: Any) -> Any:
    """A plug-in's mapping without the settings that are null.

    So a setting that is added later, and is null where it is not used, changes no identity.
    What stands inside a setting is the library's: there, null may well mean something.
    """
    if isinstance(part, Mapping):
        return {key: value for key, value in part.items() if value is not None}
    return part


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
        total = self._begun.copy()
        # As canonical JSON has it: these fields are a word and two whole numbers.
        own = f',"phase":"{self.phase}","root":{self.root},"seed":{self.seed}}}'
        total.update(own.encode())
        return total.hexdigest()

    @cached_property
    def fingerprint(self) -> str:
        """Identity of the configuration: the same without seed and phase."""
        total = self._begun.copy()
        total.update(b"}")
        return total.hexdigest()

    @cached_property
    def name(self) -> str:
        """Name of the run's folder, readable and unique: `ppo-test-0-1a2b3c4d5e`."""
        return f"{self._learner}-{self.phase}-{self.seed}-{self.id[:10]}"

    @cached_property
    def _learner(self) -> str:
        return short_name(self.algorithm)

    @cached_property
    def _begun(self) -> "Hash":
        """The sha256 of the canonical JSON up to the fields in which runs differ."""
        plain = self._defining()
        for key in OF_ONE_RUN:
            del plain[key]
        return sha256(canonical(plain)[:-1].encode())

    def again(self, phase: Phase, root: int, seed: int) -> "RunSpec":
        """The run of the same configuration with another seed; much of its identity is known."""
        other = RunSpec(
            agent=self.agent,
            algorithm=self.algorithm,
            environment=self.environment,
            budget=self.budget,
            compute=self.compute,
            phase=phase,
            root=root,
            seed=seed,
        )
        other.__dict__["_begun"] = self._begun
        other.__dict__["_learner"] = self._learner
        return other

    def _defining(self) -> dict[str, Any]:
        plain = {name: without_null(value) for name, value in self.plain().items()}
        environment = plain["environment"]
        components = environment.get("components") if isinstance(environment, Mapping) else None
        if isinstance(components, Mapping):
            plain["environment"] = {**environment, "components": _in_order(components)}
        return plain

    @property
    def imported(self) -> Plain | None:
        """What says that another tool made the run; nothing for one of ours."""
        marked = self.algorithm.get("imported")
        return marked if isinstance(marked, Mapping) else None

    @property
    def external(self) -> bool:
        """Whether a training script makes the run, with whatever library it uses."""
        part = self.algorithm
        return isinstance(part, Mapping) and isinstance(part.get("command"), str)

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
            ValueError: The phase, the root or the seed is none.
        """
        values = {field.name: plain[field.name] for field in fields(cls)}
        for name in ("root", "seed"):
            if type(values[name]) is not int:
                raise ValueError(f"{name}={values[name]!r} is no whole number")
        return cls(**{**values, "phase": Phase(plain["phase"])})


def _in_order(components: Plain) -> Any:
    """Components as they identify a run: their order counts, the first is the innermost.

    A mapping says it where it is the order of names, which it has in canonical JSON.
    """
    present = {name: without_null(part) for name, part in components.items()}
    return present if list(present) == sorted(present) else [list(p) for p in present.items()]


def short_name(part: Plain) -> str:
    """The plug-in's name as its module says it: `ppo` for `rlexp.algorithms.ppo.PPO`.

    It is part of folder names, so that of a module which is none only harmless letters are kept.
    What another tool made has the name that it has there, and a training script that of its
    settings.
    """
    if "name" in part and ("_target_" not in part or "command" in part):
        return re.sub(r"\W", "_", str(part["name"]), flags=re.ASCII)[:LONGEST_NAME]
    path = str(part.get("_target_", "unknown")).split(".")
    return re.sub(r"\W", "_", path[-2] if len(path) > 1 else path[-1])[:LONGEST_NAME]
