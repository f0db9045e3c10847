"""The definition of an experiment: configurations × seeds, with a name."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal, Self

from rlexp.protocol.budget import Budget, Compute
from rlexp.protocol.identity import Plain, digest
from rlexp.protocol.seeds import Phase, SeedPlan
from rlexp.protocol.spec import Parent, RunSpec, described
from rlexp.protocol.sweep import Sweep

Failures = Literal["missing", "worst"]
"""Treatment of failed runs: as a missing score, or as the declared minimum of the task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """An agent, algorithm and environment with a budget, and the label used in reports."""

    schema: ClassVar[int] = 2
    """Schema version of its file, which determines how identities are computed."""

    label: str
    task: str
    agent: Plain
    algorithm: Plain
    environment: Plain
    reference: Plain
    budget: Budget
    compute: Compute

    def spec(self, phase: Phase, root: int, seed: int) -> RunSpec:
        """The run of this configuration with one seed."""
        return RunSpec(**self.parts(), phase=phase, root=root, seed=seed)

    def parts(self) -> dict[str, Any]:
        """The fields that all runs of this configuration share, by name, as JSON values."""
        return {
            "agent": self.agent,
            "algorithm": self.algorithm,
            "environment": self.environment,
            "budget": self.budget.defining(),
            "compute": asdict(self.compute),
        }

    @property
    def fingerprint(self) -> str:
        """Identity of the configuration, independent of seed and phase."""
        return self.spec(Phase.TEST, 0, 0).fingerprint

    def plain(self) -> dict[str, Any]:
        """The entry of the configuration in `experiment.json`."""
        return {
            "label": self.label,
            "task": self.task,
            "fingerprint": self.fingerprint,
            **self.parts(),
            "reference": self.reference,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """The experiment whose finished runs another experiment continues.

    Attributes:
        experiment: The name of the experiment with the finished runs.
        parents: The run, step and state from which each run continues. Keys are the ids that the
            runs would have without a parent.
    """

    experiment: str
    parents: Mapping[str, Parent]

    def plain(self) -> dict[str, Any]:
        """The entry of the extension in `experiment.json`."""
        parents = {key: asdict(parent) for key, parent in self.parents.items()}
        return {"experiment": self.experiment, "parents": parents}

    @classmethod
    def from_plain(cls, mapping: Plain) -> Self:
        """The extension of an entry in `experiment.json`; the inverse of `plain`.

        Raises:
            KeyError: A field is missing.
            TypeError: A parent has unknown fields, or a field is of another type.
        """
        parents = {str(key): Parent(**parent) for key, parent in mapping["parents"].items()}
        return cls(experiment=str(mapping["experiment"]), parents=parents)


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A named set of runs.

    `allotted` maps fingerprints to numbers of test seeds, for configurations that use fewer seeds
    than planned: a sequential comparison adds seeds only to undecided pairs.

    `imported` maps fingerprints to seeds, if another tool made the runs. Imported runs cannot be
    executed.

    In a `sweep`, `configurations` are those that run on test seeds: only the default until the
    winner is chosen, then the winner and the default. Trials run on tuning seeds, finalists on
    selection seeds.

    In an extension, `extends` names the parent of each run, and only runs with a parent are planned.
    """

    name: str
    configurations: tuple[Configuration, ...]
    seeds: SeedPlan
    failures: Failures
    allotted: Mapping[str, int] = field(default_factory=dict)
    sweep: Sweep | None = None
    trials: tuple[Configuration, ...] = ()
    finalists: tuple[Configuration, ...] = ()
    imported: Mapping[str, tuple[int, ...]] | None = None
    extends: Extension | None = None

    @property
    def schema(self) -> int:
        """Schema version of the experiment's file: the lowest of its configurations."""
        schemas = (configuration.schema for configuration in self.configurations)
        return min(schemas, default=Configuration.schema)

    @property
    def default(self) -> Configuration:
        """The default configuration of a sweep."""
        return self.configurations[-1]

    def of_phase(self, phase: Phase) -> tuple[Configuration, ...]:
        """The configurations that run in a phase."""
        if self.sweep is None or phase is Phase.TEST:
            return self.configurations
        return self.trials if phase is Phase.TUNING else self.finalists

    def specs(self, phase: Phase) -> Iterator[tuple[Configuration, RunSpec]]:
        """Every run of a phase, seed by seed, so that all configurations advance equally."""
        seeds = self.seeds.seeds(phase)
        configurations = self.of_phase(phase)
        root = self.seeds.root
        # The first spec of a configuration is hashed once; `again` reuses it for all other seeds.
        planned = [(c, c.spec(phase, root, 0), self._seeds(c, phase)) for c in configurations]
        for seed in seeds:
            for configuration, first, allowed in planned:
                if seed not in allowed:
                    continue
                spec = first.again(phase, root, seed)
                if self.extends is None:
                    yield configuration, spec
                elif (parent := self.extends.parents.get(spec.id)) is not None:
                    yield configuration, spec.again(phase, root, seed, parent)

    def _seeds(self, configuration: Configuration, phase: Phase) -> frozenset[int]:
        planned = self.seeds.seeds(phase)
        if self.imported is not None:
            return frozenset(self.imported.get(configuration.fingerprint, ()))
        if phase is not Phase.TEST or not self.allotted:
            return frozenset(planned)
        return frozenset(planned[: self.allotted.get(configuration.fingerprint, len(planned))])

    def definition(self) -> dict[str, Any]:
        """The definition to which the experiment's name is bound; numbers of seeds may still grow.

        The order of the configurations, their labels and the reference scores of the tasks are not
        part of it, except the minimum score if failures count as the minimum.
        """
        ordered = sorted(self.defined(), key=lambda defined: defined[0].fingerprint)
        return {
            "configurations": [definition for _, definition in ordered],
            "root": self.seeds.root,
            "failures": self.failures,
            **self._searched(),
            **self._extended(),
        }

    def defined(self) -> list[tuple[Configuration, dict[str, Any]]]:
        """The configurations (of a sweep, the default) that the name stands for, with definitions."""
        return [(c, self._defining(c)) for c in self._requested]

    @property
    def _requested(self) -> tuple[Configuration, ...]:
        return self.configurations if self.sweep is None else (self.default,)

    def _extended(self) -> dict[str, Any]:
        """The part of the definition that an extension adds; further runs may be added to it."""
        return {} if self.extends is None else {"extends": self.extends.experiment}

    def _searched(self) -> dict[str, Any]:
        """The part of the definition that a sweep adds, with its tuning and selection seeds."""
        if self.sweep is None:
            return {}
        seeds = {p: self.seeds.seeds(p) for p in (Phase.TUNING, Phase.SELECTION)}
        definition = {**self.sweep.definition(), "seeds": seeds}
        if "steps_to_threshold" in self.sweep.plan.objectives:
            definition["threshold"] = self.default.reference.get("threshold")
        return {"sweep": definition}

    def _defining(self, configuration: Configuration) -> dict[str, Any]:
        """The definition of a configuration, in the form in which differences are reported."""
        names = {"task": configuration.task, "fingerprint": configuration.fingerprint}
        definition = {**names, **described(configuration.parts())}
        minimum = self._minimum(configuration)
        return definition if minimum is None else {**definition, "minimum": minimum}

    def _minimum(self, configuration: Configuration) -> Any:
        """The score of a failed run, if failures count as the minimum."""
        return configuration.reference.get("minimum") if self.failures == "worst" else None

    @property
    def fingerprint(self) -> str:
        """Identity of the definition."""
        # Sorted: the order in which configurations were typed is not part of the definition.
        configurations = sorted(digest([c.fingerprint, self._minimum(c)]) for c in self._requested)
        added = [*self._searched().values(), *self._extended().values()]
        return digest([configurations, self.seeds.root, self.failures, *added])
