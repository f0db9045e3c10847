"""Turns a sweep definition and overrides into an experiment, and its trials into configurations.

`read_sweep` builds the sweep that a command requests, `Configurer` makes the configuration of a trial,
and `FolderLedger` records trials and the choice.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from rlexp.app.execution.checks.callback_checks import refuse_searched
from rlexp.app.execution.checks.compatibility import EnvironmentSpaces, check_compatibility
from rlexp.app.execution.checks.dataset_checks import refuse_test_seeds
from rlexp.app.execution.checks.import_permission import check_imports
from rlexp.app.execution.extension import check_replay
from rlexp.app.execution.memory_plan import MEMORY_KEYS
from rlexp.app.execution.prior_data import KEY as PRIOR_KEY
from rlexp.app.execution.prior_data import prior_source
from rlexp.app.execution.request import (
    check_same_unit,
    derive_name,
    plug_in_settings,
    require_minimum,
)
from rlexp.app.execution.scripts.external import keep_files
from rlexp.app.sweeps.continuation import RunStates
from rlexp.app.sweeps.merging import read_earlier, with_plan
from rlexp.app.sweeps.populations import best_schedule, check_population
from rlexp.app.sweeps.suggestion_time import SuggestionTime, TimedSuggester
from rlexp.app.sweeps.tasks import RequestedTask, read_tasks, scales_of
from rlexp.app.tracking.mirror_client import ChosenTrackers
from rlexp.app.workspace import Workspace
from rlexp.config.enqueued import enqueued_parameters, guess_parameters
from rlexp.config.searched_weights import WEIGHTS, words_for_weights
from rlexp.config.study_file import LabelledWords, is_study_file, read_sweep_words
from rlexp.config.sweep import SweepRequest
from rlexp.config.sweep_checks import largest_trials
from rlexp.config.sweep_tasks import compose_tasks
from rlexp.config.validate import build
from rlexp.engine.trial_state import Proposal
from rlexp.errors import ConfigError, ProtocolError
from rlexp.executors import Executor
from rlexp.protocol.experiment import Configuration, Experiment
from rlexp.protocol.front_rule import FIRST
from rlexp.protocol.measures import RETURN
from rlexp.protocol.seeds import Phase
from rlexp.protocol.shared_experience import EXPERIENCE_KEY
from rlexp.protocol.spec import Parent, RunSpec
from rlexp.protocol.sweep import LOWEST_SCORE, OBJECTIVES, RECORDED_OBJECTIVES, Sweep, SweepPlan
from rlexp.protocol.value_schedule import EarlierValues, with_earlier
from rlexp.records.run import RunRecord
from rlexp.records.selection import Selection
from rlexp.store.checkpoints.policies import START_FROM
from rlexp.store.layout import ExperimentPaths, check_name
from rlexp.store.runs import read_experiment
from rlexp.store.sweeps import (
    StoredTrial,
    append_trial,
    read_trials,
    write_schedule,
    write_selection,
)
from rlexp.tuners import Suggester, Suggestion


@dataclass(frozen=True, slots=True)
class RequestedSweep:
    """The sweep and the settings that one command requests.

    Attributes:
        experiment: The experiment.
        words: The definition, if any, and the overrides; those of a study file are among them.
        request: The composed sweep.
        executor: The plug-in that executes the runs.
        operational: The settings of every attempt that change no number.
        trackers: The trackers that receive the records.
        tasks: The sweep on each of its tasks, one or more; `request` is that on the first one.
    """

    experiment: Experiment
    words: tuple[str, ...]
    request: SweepRequest
    executor: Executor
    operational: Mapping[str, Any]
    trackers: ChosenTrackers
    tasks: tuple[RequestedTask, ...]

    @property
    def sweep(self) -> Sweep:
        """The part of the definition that says how configurations are proposed."""
        assert self.experiment.sweep is not None
        return self.experiment.sweep


@dataclass(slots=True)
class Configurer:
    """Makes configurations from parameters, or gives the reason why one cannot run.

    Attributes:
        asked: The sweep that the command asks for.
        workspace: The workspace.
        spaces: Spaces of environments that were examined.
    """

    asked: RequestedSweep
    workspace: Workspace
    spaces: dict[str, EnvironmentSpaces]

    def check_default(self) -> None:
        """Check that the default configuration of a sweep can run.

        Raises:
            ConfigError: The default configuration cannot run.
        """
        defaults = self.asked.experiment.defaults
        check_same_unit(defaults)
        built = {
            default.fingerprint: task.parts
            for default, task in zip(defaults, self.asked.tasks, strict=True)
        }
        objectives = self.asked.sweep.plan.objectives
        check_compatibility(defaults, self.workspace, self.spaces, built, objectives)
        if self.asked.request.tuner.get("shared_replay"):
            # Runs of other environments keep no state, and therefore no transitions to share.
            root = self.asked.experiment.seeds.root
            seeds = [d.spec(Phase.TUNING, root, 0).streams.training(0) for d in defaults]
            remedy = "leave out tuner.shared_replay=true"
            check_replay(defaults, seeds, self.workspace, remedy)

    def check_code(self, experiment: Experiment, command: Sequence[str]) -> None:
        """Check that every configuration of a sweep names code that may be imported.

        Args:
            experiment: The sweep as it is stored, with trials that come from the disk.
            command: The command as the user typed it.

        Raises:
            RlexpError: A configuration names other code.
        """
        check_imports(
            (*experiment.trials, *experiment.configurations),
            self.workspace.allowed,
            (*command, *self.workspace.permission),
            # The default comes from what the user typed.
            trusted=self.asked.experiment.defaults,
            chosen=self.asked.request.space.choices(),
        )

    def configure(
        self,
        number: int,
        parameters: Mapping[str, Any],
        steps: int | None,
        earlier: EarlierValues = (),
        further: Mapping[str, Any] | None = None,
    ) -> tuple[tuple[Configuration, ...], str]:
        """The configuration of a trial on each task; or none and the reason why it cannot run."""
        label = f"trial {number}"
        if number == 0:
            return tuple(replace(d, label=label) for d in self.asked.experiment.defaults), ""
        values, configurations = {**with_earlier(parameters, earlier), **(further or {})}, []
        for task in self.asked.tasks:
            try:
                configuration = self._checked(task, values, steps, files=keep_files)
            except (ConfigError, ProtocolError) as error:
                several = len(self.asked.tasks) > 1
                return (), f"{task.configuration.task}: {error}" if several else str(error)
            configurations.append(replace(configuration, label=label))
        return tuple(configurations), ""

    def _checked(
        self,
        task: RequestedTask,
        parameters: Mapping[str, Any],
        steps: int | None = None,
        *,
        files: Callable[[dict[str, Any], dict[str, Any], Configuration], None],
    ) -> Configuration:
        """The configuration of a trial on a task, whose environment was examined.

        Raises:
            ConfigError: It is invalid.
            ProtocolError: It is invalid.
        """
        configuration, parts = task.configure(parameters, steps, self.workspace, files=files)
        built = {configuration.fingerprint: parts}
        check_compatibility([configuration], self.workspace, self.spaces, built)
        return configuration

    def largest_specs(self) -> list[RunSpec]:
        """Runs of trials with the largest searched values that count for the memory.

        The environments of these runs are examined, and added to `spaces`.
        """
        root = self.asked.experiment.seeds.root
        specs: dict[str, RunSpec] = {}
        for task in self.asked.tasks:
            for parameters in largest_trials(task.request, MEMORY_KEYS):
                # What cannot run takes no memory. A rollout above the budget is refused after its
                # environment was examined, and counts up to the budget.
                with suppress(ConfigError, ProtocolError):
                    configuration, parts = task.configure(
                        parameters, None, self.workspace, files=lambda *_: None
                    )
                    spec = configuration.spec(Phase.TUNING, root, 0)
                    specs[spec.fingerprint] = spec
                    built = {configuration.fingerprint: parts}
                    check_compatibility([configuration], self.workspace, self.spaces, built)
        return list(specs.values())


@dataclass(slots=True)
class FolderLedger:
    """Records trials and the choice of a winner in the sweep's folder."""

    paths: ExperimentPaths
    configurer: Configurer
    states: RunStates
    thinking: list[TimedSuggester] = field(default_factory=list)
    disk_error: OSError | None = None
    note: Callable[[str], None] = lambda _: None
    """Shows why a trial does not continue the runs that it repeats; each reason once."""
    _noted: set[str] = field(default_factory=set)

    def around(self, suggester: Suggester) -> Suggester:
        """Wrap a tuner so that its time is measured."""
        self.thinking.append(TimedSuggester(suggester))
        return self.thinking[-1]

    def configure(
        self, number: int, suggestion: Suggestion
    ) -> tuple[tuple[Configuration, ...], str]:
        """See `Configurer.configure`."""
        return self.configurer.configure(
            number,
            suggestion.parameters,
            suggestion.steps,
            suggestion.earlier,
            self._experience(suggestion),
        )

    def _experience(self, suggestion: Suggestion) -> dict[str, Any]:
        """The setting for transitions of other members, which are kept from now on; or none."""
        shared = suggestion.experience
        if shared is None:
            return {}
        digest, left_out = self.states.share(shared.runs)
        for name in left_out:
            self._note_once(
                f"the transitions of run {name} are not shared: it keeps no state, because it ended "
                "early, had a single rollout, or could not be copied, as its log then says"
            )
        if digest is None:
            return {} if shared.before is None else {EXPERIENCE_KEY: shared.before}
        return {EXPERIENCE_KEY: shared.schedule(digest)}

    def _note_once(self, text: str) -> None:
        if text not in self._noted:
            self._noted.add(text)
            self.note(text)

    def find_states(
        self, configuration: Configuration, runs: Sequence[RunRecord | None]
    ) -> tuple[tuple[Parent | None, ...], str | None]:
        """See `RunStates.find`."""
        return self.states.find(configuration, runs)

    def hand_over(self, spec: RunSpec) -> str | None:
        """See `RunStates.hand_over`."""
        return self.states.hand_over(spec)

    def propose(self, proposal: Proposal, configurations: tuple[Configuration, ...]) -> None:
        """Append a trial to the sweep's file."""
        trial = StoredTrial(
            number=proposal.number,
            parameters=proposal.parameters,
            steps=proposal.steps,
            configuration=configurations[0] if configurations else None,
            on_other_tasks=configurations[1:],
            refused=proposal.refused,
            parent=proposal.parent,
            parents=proposal.parents,
            anew=proposal.anew,
            origin=proposal.origin,
            seconds=self.thinking[-1].last if self.thinking and proposal.number else 0.0,
        )
        append_trial(self.paths, trial)
        if proposal.anew is not None and proposal.anew not in self._noted:
            self._noted.add(proposal.anew)
            self.note(f"trial {proposal.number} trains from step 0: {proposal.anew}")

    def choose(self, selection: Selection) -> None:
        """Write the choice, which nothing changes afterwards, and the best schedule of a population."""
        text = best_schedule(selection, read_trials(self.paths))
        if text is not None:
            # Before the choice: a crash in between only means that both are written again.
            write_schedule(self.paths, text)
        write_selection(self.paths, selection)

    def suggestion_time(self, trained: float) -> SuggestionTime:
        """The time that the tuner took, beside the seconds that all tuning runs trained."""
        thinking = self.thinking[-1] if self.thinking else None
        total = thinking.total if thinking else 0.0
        return SuggestionTime(
            suggestions=thinking.suggestions if thinking else 0,
            seconds=total,
            longest=thinking.longest if thinking else 0.0,
            share=total / trained if trained else 0.0,
        )


def split_definition(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """The definition's name, if the first argument is one, and the overrides after it."""
    overrides = list(arguments)
    is_name = bool(overrides) and "=" not in overrides[0] and overrides[0][:1] not in "~+"
    return (overrides.pop(0) if is_name else None), overrides


def read_sweep(name: str | None, overrides: Sequence[str], workspace: Workspace) -> RequestedSweep:
    """Turn a definition and overrides into a sweep, without starting or writing anything.

    Args:
        name: The name of a definition, or a study file; None for a sweep of overrides only.
        overrides: Overrides in Hydra's grammar, which win over the file.
        workspace: The workspace.

    Raises:
        ConfigError: An override is unknown, mistyped, out of range or contradicts another.
    """
    workspace.make_importable()
    if name is None or not is_study_file(name):
        return _requested(name, LabelledWords(None, tuple(overrides)), workspace)
    definition, words = read_sweep_words(name, overrides, workspace.folder)
    try:
        return _requested(definition, words, workspace)
    except ConfigError as error:
        raise words.located(error) from error


def _requested(name: str | None, words: LabelledWords, workspace: Workspace) -> RequestedSweep:
    """The sweep of a definition and overrides."""
    requests = compose_tasks(name, words.overrides, workspace.folder)
    if WEIGHTS in requests[0].space.keys:
        # An error of the words as they are concerns an older sweep alone, and there is none with it.
        with suppress(ConfigError):
            older = _sweep_of(name, words, requests, workspace)
            if _began_as_written(older.experiment, workspace):
                return older
        further = words_for_weights(requests[0], words.overrides, workspace.folder)
        requests = compose_tasks(name, [*words.overrides, *further], workspace.folder)
    return _sweep_of(name, words, requests, workspace)


def _began_as_written(requested: Experiment, workspace: Workspace) -> bool:
    """Whether a sweep over weights exists that began with the task and the score as they are written.

    Newer sweeps over weights begin with `words_for_weights`. An older one goes on as it began.
    """
    paths = workspace.layout.experiment(requested.name)
    if not paths.definition.exists():
        return False
    existing = read_experiment(paths)
    if existing.sweep is None or WEIGHTS not in existing.sweep.space.keys:
        return False
    before, now = existing.default, requested.default
    return (before.task, before.budget.score) == (now.task, now.budget.score)


def _sweep_of(
    name: str | None,
    words: LabelledWords,
    requests: Sequence[SweepRequest],
    workspace: Workspace,
) -> RequestedSweep:
    """The sweep of a definition and overrides that are composed on each task."""
    tasks = read_tasks(requests, workspace)
    first = tasks[0]
    request, root, parts = first.request, first.settings, first.parts
    _refuse_prior_data(request, first.configuration)
    _refuse_datasets(request, parts.dataset)
    configurations = tuple(task.configuration for task in tasks)
    _refuse_policies(request, first.configuration)
    population = check_population(tasks, workspace)
    keys = [parameter.key for parameter in request.space.parameters]
    refuse_searched(keys, first.configuration, workspace, population=population is not None)
    if root.failures == "worst":
        require_minimum(configurations)
    plan = _plan_on(first, workspace)
    experiment = Experiment(
        name="",
        configurations=configurations,
        seeds=root.seeds,
        failures=root.failures,
        sweep=Sweep(
            name=name or "",
            space=request.space,
            tuner=_recorded_plug_in("tuner", request.tuner, workspace),
            pruner=_recorded_plug_in("pruner", request.pruner, workspace),
            plan=plan,
            guess=guess_parameters(request, workspace.allowed),
            tasks=scales_of(tasks, plan),
        ),
    )
    experiment_name = root.experiment or name or derive_name(experiment)
    # No sweep on several tasks continues runs: `compose_tasks` refuses that it is asked for.
    continuation = _continuation(request, workspace) if len(tasks) == 1 else None
    continued = replace(plan, continuation=continuation)
    named = replace(with_plan(experiment, continued), name=check_name(experiment_name))
    check_directions(named, workspace)
    named = _from_earlier(named, request, workspace)
    trackers = ChosenTrackers.of(request.plain, parts)
    return RequestedSweep(
        experiment=named,
        words=(*([name] if name else []), *words.overrides),
        request=request,
        executor=parts.executor,
        operational={**root.budget.operational(), **root.compute.operational()},
        trackers=trackers,
        tasks=tasks,
    )


def _plan_on(task: RequestedTask, workspace: Workspace) -> SweepPlan:
    """The plan of a new sweep, with the lag and the rule of choice that it leaves open."""
    plan, compute = task.request.plan, task.settings.compute
    # Trial n is suggested from the trials up to n - 1 - lag, so that the result does not depend on
    # timing. This lag is large enough that no worker waits for another, and no lane is empty.
    workers = task.parts.executor.workers_for(compute.threads) * compute.batch
    return replace(
        plan,
        lag=2 * workers - 1 if plan.lag is None else plan.lag,
        continuation=None,
        enqueue=enqueued_parameters(task.request, workspace.allowed),
        choose=plan.choose or (FIRST if len(plan.objectives) > 1 else None),
    )


def _from_earlier(named: Experiment, request: SweepRequest, workspace: Workspace) -> Experiment:
    """The sweep with what it takes over from earlier ones.

    A sweep that has begun holds that already: the earlier ones may be gone or have grown since.

    Raises:
        ConfigError: An earlier sweep does not fit.
    """
    if workspace.layout.experiment(named.name).definition.exists():
        return named
    assert named.sweep is not None
    earlier = read_earlier(request, named.name, workspace)
    return replace(named, sweep=replace(named.sweep, earlier=earlier))


def _continuation(request: SweepRequest, workspace: Workspace) -> bool | None:
    """Whether trials of a new sweep continue the runs of others; None if each begins at step 0.

    Raises:
        ConfigError: The setting is given, and the tuner repeats no configuration with more steps.
    """
    setting = request.plan.continuation
    tuner = build(request.tuner, "tuner", workspace.allowed)
    lengthens: bool = getattr(tuner, "lengthens", False)
    if setting and not lengthens:
        raise ConfigError(
            "sweep.continuation=true is for a tuner that repeats configurations with more steps, "
            "which this tuner does not: leave it out, or choose tuner=dehb",
            key="sweep.continuation",
        )
    # Older sweeps do not have the setting: False is stored like in them.
    return True if lengthens and setting is not False else None


def _refuse_policies(request: SweepRequest, configuration: Configuration) -> None:
    """Refuse a sweep whose trainings begin with a trained policy.

    The policy may come from test seeds, which must not influence the choice of a trial.

    Raises:
        ConfigError: A training begins with a policy.
    """
    key = f"algorithm.{START_FROM}"
    searched = any(parameter.key == key for parameter in request.space.parameters)
    if searched or configuration.algorithm.get(START_FROM) is not None:
        raise ConfigError(
            f"{key} does not fit a sweep, because a policy could bring test seeds into the choice: "
            "leave it out, and start from a policy with 'rlexp run'",
            key=key,
        )


def _refuse_prior_data(request: SweepRequest, configuration: Configuration) -> None:
    """Refuse a sweep whose trainings begin with prior data, for the same reason as policies.

    Raises:
        ConfigError: A training begins with prior data.
    """
    searched = any(parameter.key == PRIOR_KEY for parameter in request.space.parameters)
    if searched or prior_source(configuration.replay) is not None:
        raise ConfigError(
            "replay=prior_data does not fit a sweep, because prior data could bring test seeds into the "
            "choice: choose another replay, and use prior data with 'rlexp run'",
            key="replay",
        )


def _refuse_datasets(request: SweepRequest, dataset: Any) -> None:
    """Refuse a dataset that policies of test seeds have recorded, and a search among datasets.

    Raises:
        ConfigError: A dataset is searched, or comes from test seeds.
    """
    places = {f"dataset.{name}" for name in ("id", "root", "digest")}
    if searched := [p.key for p in request.space.parameters if p.key in places]:
        raise ConfigError(
            f"{searched[0]} cannot be searched: choose one dataset for the sweep, and compare datasets with "
            "'rlexp run dataset.id=FIRST,SECOND'",
            key=searched[0],
        )
    refuse_test_seeds(dataset, Phase.TUNING)


def _recorded_plug_in(group: str, given: dict[str, Any], workspace: Workspace) -> dict[str, Any]:
    """The tuner or pruner of a sweep, as the definition records it."""
    return plug_in_settings(given, build(given, group, workspace.allowed), group)


def check_directions(requested: Experiment, workspace: Workspace) -> None:
    """Refuse a new sweep with an objective of which it is not said which direction is better.

    That is a measure without a declaration beside other objectives, and the score that is minimised by the
    name of its objective. An older sweep goes on as it began.

    Raises:
        ConfigError: The direction is to be declared with the measure.
    """
    plan = None if requested.sweep is None else requested.sweep.plan
    if plan is None or workspace.layout.experiment(requested.name).definition.exists():
        return
    _check_declared(plan.objectives, requested.default)
    if LOWEST_SCORE not in plan.objectives:
        return
    budget = requested.default.budget
    declare, reach = "environment.measures.{}.direction=minimise", "sweep.objective={}"
    words = (
        f"report what is minimised as a measure and write {declare.format('NAME')} "
        f"{reach.format('NAME')}"
        if budget.quantity == RETURN
        else f"write {declare.format(budget.score)} {reach.format('score')}"
    )
    raise ConfigError(
        f"sweep.objective={LOWEST_SCORE} is of older versions: a direction is declared with a "
        f"measure, so that comparisons have it, too; {words}",
        code="unknown_value",
        key="sweep.objective",
        allowed=OBJECTIVES,
    )


def _check_declared(objectives: Sequence[str], default: Configuration) -> None:
    """Refuse several objectives of which one is an undeclared measure.

    Raises:
        ConfigError: Nothing says whether lower values of a measure are better.
    """
    for name in objectives if len(objectives) > 1 else ():
        if name not in RECORDED_OBJECTIVES and name not in default.measures:
            raise ConfigError(
                f"sweep.objective={name}: nothing says whether lower values are better, and a front needs "
                f"it: write 'environment.measures={{{name}: {{direction: minimise}}}}', or maximise",
                key="sweep.objective",
            )
