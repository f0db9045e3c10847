"""Turns command-line overrides into an experiment: composed, validated, labelled and named.

`read_request` builds the experiment that a command asks for; `merge_with_existing` adds the seeds
and configurations of an experiment of the same name on disk.
"""

import json
import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlexp.algorithms import BringsEnvironments
from rlexp.app.execution.checks.dataset_checks import refuse_test_seeds
from rlexp.app.execution.prior_data import SourcedTransitions, with_prior_data
from rlexp.app.execution.starting_policy import TrainedPolicy, with_policies
from rlexp.app.reading.imported import refuse_imported
from rlexp.app.reading.older_schema import refuse_older
from rlexp.app.tracking.mirror_client import ChosenTrackers
from rlexp.app.workspace import Workspace
from rlexp.config.compose import ComposedConfiguration, compose_words
from rlexp.config.option_lookup import command_that_trains
from rlexp.config.secret_check import has_variable
from rlexp.config.validate import PlugIns, ValidatedSettings, validate
from rlexp.datasets.none import NoDataset
from rlexp.environments import Environment
from rlexp.environments.composed import ComposedTask, declared_measures, pinned
from rlexp.errors import ConfigError, RecordError
from rlexp.protocol.budget import LEAN, Budget
from rlexp.protocol.experiment import Configuration, Experiment
from rlexp.protocol.identity import named_part, short_name
from rlexp.protocol.redefinition import redefinition
from rlexp.protocol.seeds import Phase, SeedPlan, Seeds
from rlexp.protocol.spec import CALLBACK, RunSpec
from rlexp.protocol.units import differing_units
from rlexp.replay.uniform import Uniform
from rlexp.store.layout import ExperimentPaths, check_name
from rlexp.store.registers.streams import is_stream
from rlexp.store.runs import read_experiment

if TYPE_CHECKING:
    from rlexp.executors import Executor

TASK_CHOICES = ("environment", "environment.id", "algorithm")
"""Grid choices that a label leaves out, because the task or the algorithm's name shows them."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """The experiment and the settings that one command requests.

    Attributes:
        experiment: The experiment with the requested seeds.
        phase: The phase of the requested runs.
        executor: The plug-in that executes the runs.
        budget: The budget; only its operational fields are used, the others belong to the runs.
        trackers: The trackers that receive the records.
        only: The id of the single requested run, or None for all runs.
        parts: Plug-ins that are already built, by the fingerprint of their configuration.
        labelled: Whether the command names its configurations, as the variants of a study file.
        policies: The policies that trainings begin with.
        lean: Whether runs use shortcuts that change no number.
    """

    experiment: Experiment
    phase: Phase
    executor: "Executor"
    budget: Budget
    trackers: ChosenTrackers
    only: str | None = None
    parts: Mapping[str, PlugIns] = field(default_factory=dict)
    labelled: bool = False
    policies: tuple[TrainedPolicy, ...] = ()
    sourced: tuple[SourcedTransitions, ...] = ()
    lean: bool = True
    _specs: list[RunSpec] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def operational(self) -> dict[str, Any]:
        """The settings of every attempt that change no number."""
        return {**self.budget.operational(), LEAN: self.lean}

    def specs(self) -> list[RunSpec]:
        """The requested runs."""
        # A command asks for them several times, and there may be ten thousand.
        if not self._specs:
            every = (spec for _, spec in self.experiment.specs(self.phase))
            self._specs.extend(s for s in every if self.only is None or self.only == s.id)
        return [*self._specs]

    @property
    def threads(self) -> int:
        """The largest number of threads of any run."""
        return max(c.compute.threads for c in self.experiment.configurations)


def read_request(overrides: Sequence[str], workspace: Workspace) -> RunRequest:
    """Turn overrides into an experiment, without starting or writing anything.

    Args:
        overrides: Overrides in Hydra's grammar; the first word may be a study file.
        workspace: The workspace.

    Raises:
        ConfigError: An override is unknown, mistyped, out of range or contradicts another.
    """
    planned = read_configurations(overrides, workspace)
    composed = [item.composed for item in planned]
    root, parts = planned[0].settings, planned[0].parts
    phase = Phase(root.phase)
    configurations, policies = with_policies(
        tuple(item.configuration for item in planned), phase, workspace
    )
    for item in planned:
        refuse_test_seeds(item.parts.dataset, phase)
    configurations, sourced = with_prior_data(configurations, phase, workspace)
    built = {c.fingerprint: item.parts for c, item in zip(configurations, planned, strict=True)}
    if any(composition.variant is not None for composition in composed):
        _check_variants(configurations)
    configurations = _unique(configurations)
    _same_budget(configurations)
    check_same_unit(configurations)
    experiment = Experiment(
        name="",
        configurations=configurations,
        seeds=root.seeds,
        failures=root.failures,
    )
    if not experiment.seeds.seeds(phase):
        raise ConfigError(
            f"seeds.{phase} is empty: there is nothing to run; give a number of seeds, such as "
            f"seeds.{phase}=5"
        )
    if root.failures == "worst":
        require_minimum(configurations)
    matrices = dict.fromkeys(
        composition.cell.matrix if composition.cell else None for composition in composed
    )
    name = derive_name(experiment, matrices) if root.experiment is None else root.experiment
    named = replace(experiment, name=check_name(name))
    trackers = ChosenTrackers.of(composed[0].plain, parts)
    return RunRequest(
        experiment=named,
        phase=phase,
        executor=parts.executor,
        budget=root.budget,
        trackers=trackers,
        labelled=any(composition.variant is not None for composition in composed),
        parts=built,
        policies=policies,
        sourced=sourced,
        lean=root.compute.lean,
    )


@dataclass(frozen=True, slots=True)
class PlannedConfiguration:
    """A configuration of a command, and what it was made of."""

    composed: ComposedConfiguration
    settings: ValidatedSettings
    parts: PlugIns
    configuration: Configuration


def read_configurations(
    overrides: Sequence[str], workspace: Workspace
) -> list[PlannedConfiguration]:
    """Every configuration that overrides ask for, with its label; equal ones are not joined.

    Raises:
        ConfigError: An override is unknown, mistyped or out of range.
    """
    workspace.make_importable()
    planned = []
    for composed in compose_words(overrides, workspace.folder):
        settings, parts = _validated(composed, workspace)
        try:
            configuration = configuration_of(composed, settings, parts)
        except ConfigError as error:
            raise _with_training_of_guide(error, parts.environment, workspace.folder) from error
        planned.append(PlannedConfiguration(composed, settings, parts, configuration))
    return planned


def _with_training_of_guide(
    error: ConfigError, environment: Environment, folder: Path
) -> ConfigError:
    """The error with the command that trains the guide it is about; any other error as it is."""
    for name, component in getattr(environment, "components", {}).items():
        guide = getattr(component, "guide", None)
        # A guide that is switched off may be absent too, and is not what the error is about.
        about = str(error).startswith(f"environment.components.{name}.guide=")
        if not guide or not about or Path(guide).exists():
            continue
        if command := command_that_trains(Path(guide).name, folder):
            what = str(error).partition(":")[0]
            return error.rephrased(f"{what}: to train it, type {command}")
    return error


def _validated(
    composition: ComposedConfiguration, workspace: Workspace
) -> tuple[ValidatedSettings, PlugIns]:
    try:
        return validate(composition.plain, workspace.allowed)
    except ConfigError as error:
        located = composition.located(error)
        prefix = composition.cell.error_prefix if composition.cell else ""
        raise located.rephrased(f"{prefix}{located}") from error


def derive_name(experiment: Experiment, matrices: Collection[str | None] = ()) -> str:
    """A name for an experiment, made of its tasks, its algorithms and a hash of its definition.

    Args:
        experiment: The experiment without its name.
        matrices: Names of the matrices that the configurations come from; each stands for several
            tasks.
    """
    task_names = list(dict.fromkeys(folder_word(c.task) for c in experiment.configurations))
    matrix_names = [folder_word(matrix) for matrix in matrices if matrix is not None]
    tasks = "+".join(
        matrix_names
        if len(task_names) > 1 and len(matrix_names) == len(matrices) > 0
        else task_names
    )
    algorithms = "+".join(
        dict.fromkeys(folder_word(short_name(c.algorithm)) for c in experiment.configurations)
    )
    # Cut before the hash is added: file systems allow 255 bytes for a name.
    return f"{tasks}-{algorithms}"[:80] + f"-{experiment.fingerprint[:6]}"


def folder_word(text: str) -> str:
    """A text as part of the name of a folder."""
    # Without `..` and leading dots, the word can neither leave the folder nor be hidden in it.
    return re.sub(r"[^A-Za-z0-9._-]+|[.]{2,}", "-", text).strip("._-") or "task"


def configuration_of(
    composition: ComposedConfiguration, root: ValidatedSettings, parts: PlugIns
) -> Configuration:
    """The configuration, with its label, of a composed and validated mapping."""
    environment = plug_in_settings(root.environment, pinned(parts.environment), "environment")
    reference = environment.pop("reference")
    environment.pop("measures", None)
    measures = declared_measures(parts.environment)
    learner = parts.algorithm
    if isinstance(learner, BringsEnvironments):
        learner = learner.pinned(parts.environment)
    algorithm = plug_in_settings(root.algorithm, learner, "algorithm")
    return Configuration(
        label=_label(short_name(algorithm), composition),
        task=parts.environment.task,
        agent=plug_in_settings(root.agent, parts.agent, "agent"),
        algorithm=algorithm,
        environment=environment,
        reference=reference,
        budget=root.budget,
        compute=root.compute,
        measures={name: measures[name].plain() for name in sorted(measures)},
        callback=_callbacks(root.callback, parts.callbacks),
        replay=_recorded_replay(root, parts),
        dataset=_recorded_dataset(root, parts),
    )


def _callbacks(given: Any, parts: Mapping[str, Any]) -> dict[str, Any] | None:
    """The callbacks by name, in the order of their calls; None without any."""
    named = {name: plug_in_settings(given[name], part, CALLBACK) for name, part in parts.items()}
    return named or None


def _recorded_replay(root: ValidatedSettings, parts: PlugIns) -> dict[str, Any] | None:
    """The replay as JSON values; None for uniform replay, so that earlier runs keep their identity."""
    # A class that derives from uniform replay may draw otherwise.
    if root.replay is None or type(parts.replay) is Uniform:
        return None
    return plug_in_settings(root.replay, parts.replay, "replay")


def _recorded_dataset(root: ValidatedSettings, parts: PlugIns) -> dict[str, Any] | None:
    """The dataset as JSON values; None without one, so that earlier runs keep their identity."""
    if root.dataset is None or isinstance(parts.dataset, NoDataset):
        return None
    return plug_in_settings(root.dataset, parts.dataset, "dataset")


def plug_in_settings(given: dict[str, Any], part: Any, group: str) -> dict[str, Any]:
    """A validated plug-in as JSON values with its identity, so that `1` and `1.0` give the same run.

    Args:
        given: The plug-in's mapping in the configuration.
        part: The plug-in that was built from it.
        group: The plug-in's configuration group.

    Raises:
        ConfigError: A setting is infinite or NaN, which JSON cannot hold.
    """
    target = given["_target_"]
    if isinstance(part, ComposedTask):
        return {
            **plug_in_settings(given, part.environment, group),
            "components": {
                name: plug_in_settings(given["components"][name], component, "component")
                for name, component in part.components.items()
            },
        }
    try:
        settings = json.loads(json.dumps(asdict(part), allow_nan=False))
    except ValueError as error:
        raise ConfigError(
            f"a setting of {target} is inf or nan, which records cannot hold; "
            "use a finite number or null",
        ) from error
    return named_part(type(part), group, target, _with_variables(given, settings))


def _with_variables(given: object, filled: Any) -> Any:
    """Restore `${oc.env:…}` where it was used: a variable may hold a secret and is never stored."""
    if isinstance(given, Mapping) and isinstance(filled, Mapping):
        return {k: _with_variables(given.get(k), v) for k, v in filled.items()}
    if isinstance(given, list) and isinstance(filled, list):
        return [_with_variables(g, f) for g, f in zip(given, filled, strict=True)]
    return given if has_variable(given) else filled


def _label(algorithm: str, composition: ComposedConfiguration) -> str:
    variant = composition.variant
    # The label of a variant need not name the algorithm, so a chosen one is shown.
    hidden = TASK_CHOICES if variant is None else TASK_CHOICES[:-1]
    choices_shown = [
        f"{key.rpartition('.')[2]}={value}"
        for key, value in composition.choices
        if key not in hidden
    ]
    return " ".join([algorithm if variant is None else variant, *choices_shown])


def _unique(configurations: tuple[Configuration, ...]) -> tuple[Configuration, ...]:
    """Drop repeated configurations of a grid; different ones with the same label are an error."""
    unique = {c.fingerprint: c for c in configurations}
    seen: dict[tuple[str, str], Configuration] = {}
    for configuration in unique.values():
        # Reports know a configuration only by its label and its task.
        key = (configuration.label, configuration.task)
        if key in seen:
            raise ConfigError(
                f"two configurations would both be reported as {key[0]} on {key[1]}; "
                "start one command for each, with a different experiment=",
            )
        seen[key] = configuration
    return tuple(unique.values())


def _check_variants(configurations: Sequence[Configuration]) -> None:
    """Refuse variants that are the same configuration: one of them would lose its runs."""
    first: dict[str, Configuration] = {}
    for configuration in configurations:
        other = first.setdefault(configuration.fingerprint, configuration)
        if other.label != configuration.label:
            raise ConfigError(
                f"the variants {other.label} and {configuration.label} are the same configuration: "
                "change the words of one of them, or remove it",
            )


def _same_budget(configurations: Sequence[Configuration]) -> None:
    """Raise a ConfigError where two configurations on one task have different budgets."""
    first: dict[str, Configuration] = {}
    for configuration in configurations:
        other = first.setdefault(configuration.task, configuration)
        if configuration.budget.defining() != other.budget.defining():
            raise ConfigError(
                f"{other.label} and {configuration.label} would have different budgets on "
                f"{configuration.task}; start one command for each",
            )


def check_same_unit(configurations: Iterable[Configuration]) -> None:
    """Refuse configurations of one experiment whose steps have different units.

    Raises:
        ConfigError: Names two of them with their units.
    """
    if words := differing_units((f"{c.label} on {c.task}", c.unit) for c in configurations):
        raise ConfigError(
            f"budgets would be {words}, and units are never mixed: start one command for each "
            "environment.unit, with a different experiment=",
            key="environment.unit",
        )


def require_minimum(configurations: Sequence[Configuration]) -> None:
    """Require the worst score of every task, which is the score of a failed run.

    Raises:
        ConfigError: A task does not declare its worst score.
    """
    for configuration in configurations:
        if configuration.worst_score is None:
            end = "largest" if configuration.lower_is_better else "minimum"
            raise ConfigError(
                f"failures=worst needs the {end} {configuration.budget.quantity} of "
                f"{configuration.task}; set {configuration.worst_key}, or use failures=missing",
            )


def merge_with_existing(paths: ExperimentPaths, requested: Experiment) -> Experiment:
    """The experiment on disk, extended by the requested seeds; the request where none exists.

    Raises:
        RecordError: An experiment of this name has another definition; lists the differences.
    """
    if not paths.definition.exists():
        return requested
    existing = read_experiment(paths)
    refuse_imported(existing, f"; choose another name, for example {other_name(paths)}")
    refuse_older(existing)
    if is_stream(paths):
        command = shlex.join(["rlexp", "propose", requested.name])
        raise RecordError(
            f"experiment {requested.name} is a stream of candidates: continue it with '{command}', "
            f"or choose another name, for example {other_name(paths)}",
            code="other_definition",
            key="experiment",
            command=command,
        )
    if existing.sweep is not None:
        raise RecordError(
            f"experiment {requested.name} is a sweep: continue it with 'rlexp sweep', "
            f"or choose another name, for example {other_name(paths)}",
            code="other_definition",
            key="experiment",
            command=f"rlexp sweep {requested.name}",
        )
    if existing.extends is not None and requested.extends is None:
        raise RecordError(
            f"experiment {requested.name} extends {existing.extends.experiment}: continue it with "
            f"'rlexp resume {requested.name}', or choose another name, for example "
            f"{other_name(paths)}",
            code="other_definition",
            key="experiment",
            command=f"rlexp resume {requested.name}",
        )
    # The sets of seeds are not part of the fingerprint, so that a command can add some.
    if existing.fingerprint != requested.fingerprint:
        differences = "\n".join(f"  {line}" for line in redefinition(existing, requested))
        raise RecordError(
            f"experiment {requested.name} exists with another definition; "
            f"choose another name, for example {other_name(paths)}\n{differences}",
            code="other_definition",
            key="experiment",
        )
    seeds = SeedPlan(
        root=existing.seeds.root,
        **{p: union(getattr(existing.seeds, p), getattr(requested.seeds, p)) for p in Phase},
    )
    configurations = with_current_parts(existing.configurations, requested.configurations)
    allotted = _allotted(existing, requested, seeds)
    return replace(
        existing,
        configurations=configurations,
        seeds=seeds,
        allotted=allotted,
        extends=requested.extends,
    )


def check_labels(existing: Experiment, requested: Experiment) -> None:
    """Refuse another label for a recorded configuration: its runs keep the recorded label.

    Raises:
        RecordError: A configuration is recorded under another label.
    """
    recorded = {c.fingerprint: c.label for c in existing.configurations}
    for configuration in requested.configurations:
        label = recorded.get(configuration.fingerprint, configuration.label)
        if label != configuration.label:
            raise RecordError(
                f"the variant {configuration.label!r} is recorded in {existing.name} under the "
                f"label {label!r}, which its runs keep: write that label, or choose another name",
                code="other_definition",
                key="variants",
            )


def other_name(paths: ExperimentPaths) -> str:
    """The setting of a name that no experiment has yet, as typed in a shell."""
    names = (f"{paths.name}-{number}" for number in count(2))
    free = next(n for n in names if not (paths.folder.parent / n).exists())
    return shlex.quote(f"experiment={free}")


def with_current_parts(
    existing: Sequence[Configuration], requested: Sequence[Configuration]
) -> tuple[Configuration, ...]:
    """Recorded configurations with the requested plug-ins, whose classes may have moved since.

    Args:
        existing: The recorded configurations.
        requested: The configurations of a command, with the same fingerprints.
    """
    # A fingerprint holds the declared identity of a class, not its module, so it survives a move.
    requested_by_fingerprint = {c.fingerprint: c for c in requested}
    return tuple(
        replace(
            c,
            agent=current.agent,
            algorithm=current.algorithm,
            environment=current.environment,
            callback=current.callback,
            replay=current.replay,
            dataset=current.dataset,
        )
        for c in existing
        for current in (requested_by_fingerprint.get(c.fingerprint, c),)
    )


def _allotted(existing: Experiment, requested: Experiment, seeds: SeedPlan) -> dict[str, int]:
    """Configurations that get fewer test seeds than planned, raised to the requested number."""
    requested_seeds, planned_seeds = (
        len(requested.seeds.seeds(Phase.TEST)),
        len(seeds.seeds(Phase.TEST)),
    )
    raised = {f: max(count, requested_seeds) for f, count in existing.allotted.items()}
    return {f: count for f, count in raised.items() if count < planned_seeds}


def union(first: Seeds, second: Seeds) -> Seeds:
    """The union of two seed sets; two counts give the larger count."""
    if isinstance(first, int) and isinstance(second, int):
        return max(first, second)
    # A count n stands for the seeds 0 … n - 1. Existing seeds come first and keep their order.
    seed_lists = [tuple(range(s)) if isinstance(s, int) else s for s in (first, second)]
    return tuple(dict.fromkeys((*seed_lists[0], *seed_lists[1])))
