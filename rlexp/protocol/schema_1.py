"""Runs and configurations of schema 1, which can be read but are no longer created.

Their identities hash the Python paths of classes. When they are read, the names of the plug-ins are
added, so that all other code treats them as runs of the current schema. Their identities stay
unchanged.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

from rlexp.protocol.experiment import Configuration
from rlexp.protocol.identity import (
    PLUG_IN,
    TARGET,
    Identity,
    Plain,
    digest,
    named_by_path,
    without_names,
    without_null,
)
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import ALWAYS, COMPONENTS, RunSpec

OWN_PREFIX = "rlexp."
TEACHERS = "rlexp.components.teachers."
EXCLUDED = {"jump_start": ("guide",), "snapshots": ("guide",)}
"""Settings that components exclude from their identity, by the component's name."""


@dataclass(frozen=True, kw_only=True)
class RunSpecSchema1(RunSpec):
    """A run of schema 1."""

    schema: ClassVar[int] = 1

    @cached_property
    def id(self) -> str:
        """Identity of the run: sha256 of all fields."""
        return digest({**self._hashed, "phase": self.phase, "root": self.root, "seed": self.seed})

    @cached_property
    def fingerprint(self) -> str:
        """Identity of the configuration: sha256 of all fields except phase, root and seed."""
        return digest(self._hashed)

    @cached_property
    def _hashed(self) -> dict[str, Any]:
        parts = {name: _unnamed(getattr(self, name)) for name in ALWAYS}
        environment = parts["environment"]
        components = environment.get(COMPONENTS) if isinstance(environment, Mapping) else None
        if isinstance(components, Mapping):
            parts["environment"] = {**environment, COMPONENTS: _in_order(components)}
        return parts

    @classmethod
    def from_plain(cls, mapping: Plain) -> Self:
        """The run of a mapping of JSON values.

        Raises:
            KeyError: A field is missing.
            ValueError: The phase, the root or the seed is invalid.
        """
        fields = {name: mapping[name] for name in (*ALWAYS, "phase", "root", "seed")}
        return super().from_plain({**fields, **named_configuration(fields)})


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationSchema1(Configuration):
    """A configuration of schema 1."""

    schema: ClassVar[int] = 1

    def spec(self, phase: Phase, root: int, seed: int) -> RunSpec:
        """The run of this configuration with one seed."""
        return RunSpecSchema1(**self.parts(), phase=phase, root=root, seed=seed)

    def renewed(self) -> Configuration:
        """The same configuration in the current schema; its runs have other identities."""
        return Configuration(
            label=self.label,
            task=self.task,
            reference=self.reference,
            budget=self.budget,
            compute=self.compute,
            agent=self.agent,
            algorithm=self.algorithm,
            environment=self.environment,
            measures=self.measures,
        )


def named_configuration(mapping: Plain) -> dict[str, Any]:
    """Agent, algorithm and environment of a file of schema 1, with the names of the plug-ins."""
    named = {group: named_part(mapping[group], group) for group in ("agent", "algorithm")}
    environment = named_part(mapping["environment"], "environment")
    components = environment.get(COMPONENTS) if isinstance(environment, Mapping) else None
    if isinstance(components, Mapping):
        inside = {name: named_part(part, "component") for name, part in components.items()}
        environment = {**environment, COMPONENTS: inside}
    return {**named, "environment": environment}


def named_part(part: Any, group: str) -> Any:
    """A plug-in's mapping with the name that corresponds to its Python path."""
    if not isinstance(part, Mapping) or not isinstance(part.get(TARGET), str):
        return part
    module, _, kind = part[TARGET].rpartition(".")
    if not module.startswith(OWN_PREFIX):
        return {PLUG_IN: named_by_path(group, module, kind), **part}
    if module.startswith(TEACHERS):
        group = "teacher"
    name = module.rpartition(".")[2].removesuffix("_task")
    return {PLUG_IN: Identity(group, name, excluded=EXCLUDED.get(name, ())).plain(), **part}


def _unnamed(part: Any) -> Any:
    return without_null(without_names(part)) if isinstance(part, Mapping) else part


def _in_order(components: Plain) -> Any:
    """Components as schema 1 hashed them: a mapping if in alphabetical order, else a list."""
    present = {name: _unnamed(part) for name, part in components.items()}
    return present if list(present) == sorted(present) else [list(p) for p in present.items()]
