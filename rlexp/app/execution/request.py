"""From words on the command line to an experiment: composed, validated, labelled, named."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from rlexp.app.reading.imported import refuse_imported
from rlexp.app.reading.older_schema import refuse_older
from rlexp.app.tracking.mirror_client import Trackers
from rlexp.app.workspace import Workspace
from rlexp.config.compose import Composed, compose
from rlexp.config.validate import Parts, Root, validate
from rlexp.config.variables import has_variable
from rlexp.environments.composed import ComposedTask, pinned
from rlexp.errors import ConfigError, RecordError
from rlexp.executors import Executor
from rlexp.protocol.budget import Budget
from rlexp.protocol.experiment import Configuration, Experiment
from rlexp.protocol.identity import named_part, short_name
from rlexp.protocol.redefinition import redefinition
from rlexp.protocol.seeds import Phase, SeedPlan, Seeds
from rlexp.protocol.spec import RunSpec
from rlexp.store.layout import ExperimentPaths, check_name
from rlexp.store.runs import read_experiment


def join(paths: ExperimentPaths, asked: Experiment) -> Experiment:
    """The experiment as it stands, with the seeds that are asked for now.

    Raises:
        RecordError: The name stands for another question; shows what differs.
    """
    if not paths.definition.exists():
        return asked
    there = read_experiment(paths)
    refuse_imported(there, "; choose another name with experiment=…")
    refuse_older(there)
    if there.sweep is not None:
        raise RecordError(
            f"experiment {asked.name} is a sweep: continue it with 'rlexp sweep', "
            "or choose another name with experiment=…",
            code="other_definition",
            key="experiment",
            command=f"rlexp sweep {asked.name}",
        )
    if there.fingerprint != asked.fingerprint:
        differences = "\n".join(f"  {line}" for line in redefinition(there, asked))
        raise RecordError(
            f"experiment {asked.name} exists with another definition; "
            f"choose another name with experiment=…\n{differences}",
            code="other_definition",
            key="experiment",
        )
    seeds = SeedPlan(
        root=there.seeds.root,
        **{p: union(getattr(there.seeds, p), getattr(asked.seeds, p)) for p in Phase},
    )
    configurations = as_built_now(there.configurations, asked.configurations)
    allotted = _allotted(there, asked, seeds)
    return replace(there, configurations=configurations, seeds=seeds, allotted=allotted)


def as_built_now(
    there: Sequence[Configuration], asked: Sequence[Configuration]
) -> tuple[Configuration, ...]:
    """Configurations with the parts as they are asked for: a class may have moved since.

    Args:
        there: What is recorded.
        asked: What a command asks for; the same, by their fingerprints.
    """
    now = {c.fingerprint: c for c in asked}
    return tuple(
        replace(c, agent=n.agent, algorithm=n.algorithm, environment=n.environment)
        for c in there
        for n in (now.get(c.fingerprint, c),)
    )


def _allotted(there: Experiment, asked: Experiment, seeds: SeedPlan) -> dict[str, int]:
    """What stays below the plan: nothing that the command asks for does."""
    wanted, planned = len(asked.seeds.seeds(Phase.TEST)), len(seeds.seeds(Phase.TEST))
    raised = {f: max(count, wanted) for f, count in there.allotted.items()}
    return {f: count for f, count in raised.items() if count < planned}


def union(first: Seeds, second: Seeds) -> Seeds:
    """Seeds of both, counts staying counts."""
    if isinstance(first, int) and isinstance(second, int):
        return max(first, second)
    both = [tuple(range(s)) if isinstance(s, int) else s for s in (first, second)]
    return tuple(dict.fromkeys((*both[0], *both[1])))


TASK_CHOICES = ("environment", "environment.id", "algorithm")
"""Choices of a grid that the task or the algorithm's name already shows."""


@dataclass(frozen=True, slots=True)
class Request:
    """What one command asks for.

    Attributes:
        experiment: The experiment with the seeds that are asked for.
        phase: The phase whose runs are asked for.
        executor: What executes the runs.
        budget: The budget, of which the operational part counts.
        trackers: What the records are mirrored to.
        only: The id of the only run that is asked for, if there is just one.
        parts: The plug-ins of configurations, by their fingerprints, where they are built.
    """

    experiment: Experiment
    phase: Phase
    executor: Executor
    budget: Budget
    trackers: Trackers
    only: str | None = None
    parts: Mapping[str, Parts] = field(default_factory=dict)

    def specs(self) -> list[RunSpec]:
        """The runs that are asked for."""
        every = [spec for _, spec in self.experiment.specs(self.phase)]
        return [spec for spec in every if self.only in {None, spec.id}]

    @property
    def threads(self) -> int:
        """Threads of the run that has most."""
        return max(c.compute.threads for c in self.experiment.configurations)


def read_request(overrides: Sequence[str], workspace: Workspace) -> Request:
    """Turn words into an experiment; starts nothing and writes nothing.

    Raises:
        ConfigError: Something in them is unknown, mistyped, out of range or contradictory.
    """
    workspace.make_importable()
    composed = compose(overrides, workspace.folder)
    validated = [_validated(one, workspace) for one in composed]
    configurations = tuple(
        configuration_of(one, root, parts)
        for one, (root, parts) in zip(composed, validated, strict=True)
    )
    built = {c.fingerprint: parts for c, (_, parts) in zip(configurations, validated, strict=True)}
    configurations = _unique(configurations)
    _same_budget(configurations)
    root, parts = validated[0]
    experiment = Experiment(
        name="",
        configurations=configurations,
        seeds=root.seeds,
        failures=root.failures,
    )
    phase = Phase(root.phase)
    if not experiment.seeds.seeds(phase):
        raise ConfigError(f"seeds.{phase} is empty: there is nothing to run; ask for one or more")
    if root.failures == "worst":
        require_minimum(configurations)
    matrices = dict.fromkeys(one.cell.matrix if one.cell else None for one in composed)
    name = derive_name(experiment, matrices) if root.experiment is None else root.experiment
    named = replace(experiment, name=check_name(name))
    trackers = Trackers.of(composed[0].plain, parts)
    return Request(named, phase, parts.executor, root.budget, trackers, parts=built)


def _validated(one: Composed, workspace: Workspace) -> tuple[Root, Parts]:
    try:
        return validate(one.plain, workspace.allowed)
    except ConfigError as error:
        raise error.rephrased(f"{one.cell.error_prefix if one.cell else ''}{error}") from error


def derive_name(experiment: Experiment, matrices: Collection[str | None] = ()) -> str:
    """A name that says what is trained on what, and differs where the definition does.

    Args:
        experiment: The question.
        matrices: Those that its configurations are cells of; they stand for several tasks.
    """
    told = list(dict.fromkeys(_folder_word(c.task) for c in experiment.configurations))
    named = [_folder_word(matrix) for matrix in matrices if matrix is not None]
    tasks = "+".join(named if len(told) > 1 and len(named) == len(matrices) > 0 else told)
    algorithms = "+".join(
        dict.fromkeys(_folder_word(short_name(c.algorithm)) for c in experiment.configurations)
    )
    return f"{tasks}-{algorithms}"[:80] + f"-{experiment.fingerprint[:6]}"


def _folder_word(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+|[.]{2,}", "-", text).strip("._-") or "task"


def configuration_of(one: Composed, root: Root, parts: Parts) -> Configuration:
    """The configuration that a composed and validated one stands for, under its label."""
    environment = plain_part(root.environment, pinned(parts.environment), "environment")
    reference = environment.pop("reference")
    algorithm = plain_part(root.algorithm, parts.algorithm, "algorithm")
    return Configuration(
        label=_label(short_name(algorithm), one.choices),
        task=parts.environment.task,
        agent=plain_part(root.agent, parts.agent, "agent"),
        algorithm=algorithm,
        environment=environment,
        reference=reference,
        budget=root.budget,
        compute=root.compute,
    )


def plain_part(given: dict[str, Any], part: Any, group: str) -> dict[str, Any]:
    """A validated plug-in as JSON values with its name, so that `1` and `1.0` define the same run.

    Args:
        given: Its mapping in the configuration.
        part: The plug-in, built.
        group: The group that it was chosen from.

    Raises:
        ConfigError: It cannot be recorded; says why.
    """
    target = given["_target_"]
    if isinstance(part, ComposedTask):
        return {
            **plain_part(given, part.environment, group),
            "components": {
                name: plain_part(given["components"][name], component, "component")
                for name, component in part.components.items()
            },
        }
    try:
        plain = json.loads(json.dumps(asdict(part), allow_nan=False))
    except ValueError as error:
        raise ConfigError(
            f"{target} is given inf or nan, which records cannot hold; "
            "give a finite number, or null",
        ) from error
    return named_part(type(part), group, target, _with_variables(given, plain))


def _with_variables(given: Any, filled: Any) -> Any:
    """Put `${oc.env:…}` back where it stood: a variable may be a secret, and is never stored."""
    if isinstance(given, Mapping) and isinstance(filled, Mapping):
        return {k: _with_variables(given.get(k), v) for k, v in filled.items()}
    if isinstance(given, list) and isinstance(filled, list):
        return [_with_variables(g, f) for g, f in zip(given, filled, strict=True)]
    return given if has_variable(given) else filled


def _label(algorithm: str, choices: Sequence[tuple[str, str]]) -> str:
    told = [
        f"{key.rpartition('.')[2]}={value}" for key, value in choices if key not in TASK_CHOICES
    ]
    return " ".join([algorithm, *told])


def _unique(configurations: tuple[Configuration, ...]) -> tuple[Configuration, ...]:
    """Drop repeated configurations of a grid; refuse different ones with the same label."""
    unique = {c.fingerprint: c for c in configurations}
    seen: dict[tuple[str, str], Configuration] = {}
    for configuration in unique.values():
        key = (configuration.label, configuration.task)
        if key in seen:
            raise ConfigError(
                f"two configurations would both be reported as {key[0]} on {key[1]}; "
                "start one command for each, with experiment= of its own",
            )
        seen[key] = configuration
    return tuple(unique.values())


def _same_budget(configurations: Sequence[Configuration]) -> None:
    """Refuse scores that could not be compared in the end."""
    first: dict[str, Configuration] = {}
    for configuration in configurations:
        other = first.setdefault(configuration.task, configuration)
        if configuration.budget.defining() != other.budget.defining():
            raise ConfigError(
                f"{other.label} and {configuration.label} would have different budgets on "
                f"{configuration.task}; start one command for each",
            )


def require_minimum(configurations: Sequence[Configuration]) -> None:
    """Refuse tasks whose least return is not declared, where failures count as it.

    Raises:
        ConfigError: One is not; names the task.
    """
    for configuration in configurations:
        if configuration.reference.get("minimum") is None:
            raise ConfigError(
                f"failures=worst needs the least return of {configuration.task}; "
                "set environment.reference.minimum, or use failures=missing",
            )
