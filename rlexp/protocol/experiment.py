"""An experiment as asked for: configurations × seeds, under one name."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal

from rlexp.protocol.budget import Budget, Compute
from rlexp.protocol.identity import Plain, digest
from rlexp.protocol.seeds import Phase, SeedPlan
from rlexp.protocol.spec import RunSpec, described
from rlexp.protocol.sweep import Sweep

Failures = Literal["missing", "worst"]
"""How a failed run counts: as a missing score, or as the declared minimum of its task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One agent, algorithm and environment with its budget, and the label it is reported under."""

    schema: ClassVar[int] = 2
    """Of the file that holds it; how identities are computed follows from it."""

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
        """The fields of every run of this configuration, by their names, as JSON values."""
        return {
            "agent": self.agent,
            "algorithm": self.algorithm,
            "environment": self.environment,
            "budget": self.budget.defining(),
            "compute": asdict(self.compute),
        }

    @property
    def fingerprint(self) -> str:
        """Identity of the configuration, whatever its seed."""
        return self.spec(Phase.TEST, 0, 0).fingerprint

    def plain(self) -> dict[str, Any]:
        """What `experiment.json` says of it."""
        return {
            "label": self.label,
            "task": self.task,
            "fingerprint": self.fingerprint,
            **self.parts(),
            "reference": self.reference,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A named set of runs.

    `allotted` gives the number of test seeds, by fingerprint, of the configurations that are
    asked for fewer than the plan's: a sequential comparison spends seeds where they decide.

    `imported` gives the seeds of every configuration, by fingerprint, where another tool made the
    runs: nothing of them can be run here.

    Where a `sweep` finds the configurations, `configurations` are those that are run on test
    seeds: the default alone until the winner is chosen, then both. Its trials are run on tuning
    seeds, its finalists on selection seeds.
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

    @property
    def schema(self) -> int:
        """Of the file that holds it."""
        schemas = (configuration.schema for configuration in self.configurations)
        return min(schemas, default=Configuration.schema)

    @property
    def default(self) -> Configuration:
        """The configuration that a sweep starts from."""
        return self.configurations[-1]

    def of_phase(self, phase: Phase) -> tuple[Configuration, ...]:
        """The configurations that are run in a phase."""
        if self.sweep is None or phase is Phase.TEST:
            return self.configurations
        return self.trials if phase is Phase.TUNING else self.finalists

    def specs(self, phase: Phase) -> Iterator[tuple[Configuration, RunSpec]]:
        """Every run of a phase: seeds outermost, so that each configuration advances alike."""
        seeds = self.seeds.seeds(phase)
        configurations = self.of_phase(phase)
        root = self.seeds.root
        wanted = [(c, c.spec(phase, root, 0), self._seeds(c, phase)) for c in configurations]
        for seed in seeds:
            for configuration, first, own in wanted:
                if seed in own:
                    yield configuration, first.again(phase, root, seed)

    def _seeds(self, configuration: Configuration, phase: Phase) -> frozenset[int]:
        planned = self.seeds.seeds(phase)
        if self.imported is not None:
            return frozenset(self.imported.get(configuration.fingerprint, ()))
        if phase is not Phase.TEST or not self.allotted:
            return frozenset(planned)
        return frozenset(planned[: self.allotted.get(configuration.fingerprint, len(planned))])

    def definition(self) -> dict[str, Any]:
        """The question that the name stands for; how many seeds are spent on it may grow.

        Neither the order of the configurations, nor their labels, nor known scores of the tasks
        are part of it, but for the score that a failure counts as.
        """
        ordered = sorted(self.defined(), key=lambda defined: defined[0].fingerprint)
        return {
            "configurations": [definition for _, definition in ordered],
            "root": self.seeds.root,
            "failures": self.failures,
            **self._searched(),
        }

    def defined(self) -> list[tuple[Configuration, dict[str, Any]]]:
        """Each configuration that the name stands for; of a sweep, the default. What defines each."""
        return [(c, self._defining(c)) for c in self._asked]

    @property
    def _asked(self) -> tuple[Configuration, ...]:
        return self.configurations if self.sweep is None else (self.default,)

    def _searched(self) -> dict[str, Any]:
        """What a sweep adds to the question: its tuning and selection seeds decide, too."""
        if self.sweep is None:
            return {}
        seeds = {p: self.seeds.seeds(p) for p in (Phase.TUNING, Phase.SELECTION)}
        definition = {**self.sweep.definition(), "seeds": seeds}
        if "steps_to_threshold" in self.sweep.plan.objectives:
            definition["threshold"] = self.default.reference.get("threshold")
        return {"sweep": definition}

    def _defining(self, configuration: Configuration) -> dict[str, Any]:
        """A configuration in the form in which differences are named."""
        named = {"task": configuration.task, "fingerprint": configuration.fingerprint}
        plain = {**named, **described(configuration.parts())}
        minimum = self._minimum(configuration)
        return plain if minimum is None else {**plain, "minimum": minimum}

    def _minimum(self, configuration: Configuration) -> Any:
        """The score that a failure counts as, where it counts."""
        return configuration.reference.get("minimum") if self.failures == "worst" else None

    @property
    def fingerprint(self) -> str:
        """Identity of the question."""
        configurations = sorted(digest([c.fingerprint, self._minimum(c)]) for c in self._asked)
        return digest([configurations, self.seeds.root, self.failures, *self._searched().values()])
