"""The definition of an experiment: configurations × seeds, with a name."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

from rlexp.protocol.budget import Budget, Compute
from rlexp.protocol.identity import Plain, digest
from rlexp.protocol.measures import (
    dataset_anchors,
    declaration_key,
    is_minimised,
    known_values,
)
from rlexp.protocol.origin import Origin
from rlexp.protocol.seeds import Phase, SeedPlan
from rlexp.protocol.spec import CALLBACK, Parent, RunSpec, described
from rlexp.protocol.sweep import MINIMISED, OBJECTIVES, Sweep, SweepPlan
from rlexp.protocol.units import unit_of

Failures = Literal["missing", "worst"]
"""Treatment of failed runs: as a missing score, or as the declared minimum of the task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """An agent, algorithm and environment with a budget, and the label used in reports.

    `reference` holds the known returns of the task, and `measures` the declared measures by name.
    Neither is part of the identity of a run. `code` is the digest of the code of a candidate in a stream,
    or of a commit in an ablation; it is part of the identity, and None for every other configuration.
    `callback` holds the plug-ins that act during training, by name; None without any.
    `replay` is None for uniform replay, and `dataset` None without recorded experience.
    """

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
    measures: Plain = field(default_factory=dict)
    code: str | None = None
    callback: Plain | None = None
    replay: Plain | None = None
    dataset: Plain | None = None

    @property
    def score_reference(self) -> Plain:
        """The known values of the score, in its units: `reference`, or those of the measure."""
        return known_values(self.budget.score, self.reference, self.measures)

    @property
    def dataset_anchors(self) -> tuple[float, float] | None:
        """The returns of a random policy and of an expert that the dataset declares, if it does."""
        return dataset_anchors(self.budget.score, self.dataset)

    @property
    def lower_is_better(self) -> bool:
        """Whether the score is a measure that is declared as minimised."""
        return is_minimised(self.budget.quantity, self.measures)

    @property
    def unit(self) -> str:
        """The unit of the steps of its runs, as `environment.unit` writes it."""
        return unit_of(self.environment)

    @property
    def worst_key(self) -> str:
        """The key of the configuration that declares the worst possible score."""
        end = "maximum" if self.lower_is_better else "minimum"
        return f"{declaration_key(self.budget.score)}.{end}"

    @property
    def worst_score(self) -> float | None:
        """The worst possible score, if the configuration declares it."""
        worst: float | None = self.score_reference.get(self.worst_key.rpartition(".")[2])
        return worst

    def without_known_values(self) -> Self:
        """The configuration without known scores, which keeps the direction of each measure."""
        directions = {
            name: {"direction": declared["direction"]}
            for name, declared in self.measures.items()
            if "direction" in declared
        }
        return replace(self, reference={}, measures=directions)

    def spec(self, phase: Phase, root: int, seed: int) -> RunSpec:
        """The run of this configuration with one seed."""
        return RunSpec(**self.parts(), phase=phase, root=root, seed=seed)

    def tuning_spec(self, plan: SweepPlan, seeds: SeedPlan, seed: int) -> RunSpec:
        """The run of this configuration as a trial of a sweep, on one of its tuning seeds."""
        return self.evaluated_by(plan, seeds, seed).spec(Phase.TUNING, seeds.root, seed)

    def evaluated_by(self, plan: SweepPlan, seeds: SeedPlan, seed: int) -> Self:
        """The configuration with the final episodes that a trial has on one of its tuning seeds.

        Only the first tuning seed screens trials. Every other run has all episodes of the budget.
        """
        if plan.screening_episodes is None or seed != seeds.seeds(Phase.TUNING)[0]:
            return self
        return replace(self, budget=replace(self.budget, final_episodes=plan.screening_episodes))

    def parts(self) -> dict[str, Any]:
        """The fields that all runs of this configuration share, by name, as JSON values."""
        return {
            "agent": self.agent,
            "algorithm": self.algorithm,
            "environment": self.environment,
            "budget": self.budget.defining(),
            "compute": self.compute.defining(),
            # What is absent is not hashed: all other identities stay as they are.
            **({} if self.code is None else {"code": self.code}),
            **({} if not self.callback else {CALLBACK: self.callback}),
            **({} if self.replay is None else {"replay": self.replay}),
            **({} if self.dataset is None else {"dataset": self.dataset}),
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
            # Files of experiments without measures keep their bytes.
            **({"measures": self.measures} if self.measures else {}),
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

    `continued` holds the states from which runs of trials continue that repeat a configuration with
    more steps. Keys are the ids that the runs would have without a parent.

    `origin` is the trial of a sweep from which the experiment was made. It defines no run.
    In an extension, `extends` names the parent of each run, and only runs with a parent are planned.
    """

    name: str
    configurations: tuple[Configuration, ...]
    seeds: SeedPlan
    failures: Failures
    allotted: Mapping[str, int] = field(default_factory=dict)
    sweep: Sweep | None = None
    trials: tuple[Configuration, ...] = ()
    continued: Mapping[str, Parent] = field(default_factory=dict)
    finalists: tuple[Configuration, ...] = ()
    imported: Mapping[str, tuple[int, ...]] | None = None
    origin: Origin | None = None
    extends: Extension | None = None

    @property
    def schema(self) -> int:
        """Schema version of the experiment's file: the lowest of its configurations."""
        schemas = (configuration.schema for configuration in self.configurations)
        return min(schemas, default=Configuration.schema)

    @property
    def default(self) -> Configuration:
        """The default configuration of a sweep; of several tasks, the one on the first task."""
        return self.defaults[0]

    @property
    def defaults(self) -> tuple[Configuration, ...]:
        """The default configuration of a sweep on each of its tasks."""
        return self.configurations[-self.tasks :]

    @property
    def tasks(self) -> int:
        """Number of tasks on which each configuration of a sweep is trained."""
        return 1 if self.sweep is None else max(len(self.sweep.tasks), 1)

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
        parents = self.continued if self.extends is None else self.extends.parents
        # The first spec of a configuration is hashed once; `again` reuses it for all other seeds.
        planned = [(c, c.spec(phase, root, 0), self._seeds(c, phase)) for c in configurations]
        for seed in seeds:
            for configuration, first, allowed in planned:
                if seed not in allowed:
                    continue
                spec = self._screening(configuration, phase, seed) or first.again(
                    phase, root, seed
                )
                # Most experiments continue no run, and hash no identity here.
                if parents and (parent := parents.get(spec.id)) is not None:
                    yield configuration, spec.again(phase, root, seed, parent)
                elif self.extends is None:
                    yield configuration, spec

    def _screening(self, configuration: Configuration, phase: Phase, seed: int) -> RunSpec | None:
        """The screening run of a trial whose plan sets other final episodes; None for every other run."""
        plan = None if self.sweep is None or phase is not Phase.TUNING else self.sweep.plan
        if plan is None or plan.screening_episodes is None:
            return None
        return configuration.tuning_spec(plan, self.seeds, seed)

    def fingerprints(self, configuration: Configuration, phase: Phase) -> set[str]:
        """The fingerprints of the runs of a configuration in a phase.

        There are two where the screening run of a trial has final episodes of its own.
        """
        runs = (self._screening(configuration, phase, seed) for seed in self.seeds.seeds(phase))
        return {configuration.fingerprint, *(run.fingerprint for run in runs if run is not None)}

    def _seeds(self, configuration: Configuration, phase: Phase) -> frozenset[int]:
        planned = self.seeds.seeds(phase)
        if self.imported is not None:
            return frozenset(self.imported.get(configuration.fingerprint, ()))
        if phase is not Phase.TEST or not self.allotted:
            return frozenset(planned)
        return frozenset(planned[: self.allotted.get(configuration.fingerprint, len(planned))])

    def definition(self) -> dict[str, Any]:
        """The definition to which the experiment's name is bound; numbers of seeds may still grow.

        The order of the configurations, their labels and the known scores of the tasks are not
        part of it, except the worst score if failures count as it, and a direction that is not
        the usual one.
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
        return self.configurations if self.sweep is None else self.defaults

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
            definition["threshold"] = self.default.score_reference.get("threshold")
        # Only what a measure adds: the definitions of other sweeps keep their fingerprints.
        if minimised := self.minimised - MINIMISED:
            definition["minimised"] = sorted(minimised)
        return {"sweep": definition}

    def _defining(self, configuration: Configuration) -> dict[str, Any]:
        """The definition of a configuration, in the form in which differences are reported."""
        names = {"task": configuration.task, "fingerprint": configuration.fingerprint}
        definition = {**names, **described(configuration.parts())}
        worst = self._worst(configuration)
        return {
            **definition,
            **({} if worst is None else {"minimum": worst}),
            **({"direction": "minimise"} if configuration.lower_is_better else {}),
        }

    def _worst(self, configuration: Configuration) -> float | None:
        """The score that failed runs get, if failures have the worst score."""
        return configuration.worst_score if self.failures == "worst" else None

    @property
    def minimised(self) -> frozenset[str]:
        """The objectives of the sweep whose lower values are better."""
        # On several tasks, the objective is made of normalised scores, which are better the higher.
        if self.sweep is None or self.sweep.tasks:
            return frozenset()
        default = self.default
        # An environment may report a measure with the name of an objective, such as `final`.
        quantities = {"score": default.budget.quantity} | {
            name: name for name in self.sweep.plan.objectives if name not in OBJECTIVES
        }
        by_direction = {
            name
            for name in self.sweep.plan.objectives
            if name in quantities and is_minimised(quantities[name], default.measures)
        }
        return MINIMISED.intersection(self.sweep.plan.objectives) | by_direction

    @property
    def fingerprint(self) -> str:
        """Identity of the definition."""
        # Sorted: the order in which configurations were typed is not part of the definition.
        configurations = sorted(digest(self._identifying(c)) for c in self._requested)
        added = [*self._searched().values(), *self._extended().values()]
        return digest([configurations, self.seeds.root, self.failures, *added])

    def _identifying(self, configuration: Configuration) -> list[Any]:
        """The hashed part of a configuration; a direction is added only where it is unusual."""
        direction = ["minimise"] if configuration.lower_is_better else []
        return [configuration.fingerprint, self._worst(configuration), *direction]
