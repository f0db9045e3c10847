"""The trials of a sweep that continue the runs of other trials with more environment steps."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rlexp.app.execution.checks.callback_checks import length_obstacle
from rlexp.app.execution.checks.replay_checks import length_keys
from rlexp.app.execution.extension import check_replay, why_nothing_is_kept
from rlexp.app.execution.software_versions import collect_versions, describe_changes
from rlexp.app.workspace import Workspace
from rlexp.config.validate import build
from rlexp.engine.sweep_source import SweepSource, SweepStage
from rlexp.errors import ConfigError, RecordError
from rlexp.protocol.experiment import Configuration, Experiment
from rlexp.protocol.identity import canonical
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import Parent, RunSpec
from rlexp.protocol.value_schedule import up_to
from rlexp.records.run import RunRecord, State
from rlexp.store.checkpoints.checkpoint_files import clear_replay
from rlexp.store.checkpoints.inheritance import find_copy, inherit, verify_copy
from rlexp.store.checkpoints.shared_experience import keep_experience
from rlexp.store.layout import ExperimentPaths


@dataclass(slots=True)
class RunStates:
    """Finds and hands over the states from which runs of a sweep continue.

    Attributes:
        paths: The sweep's folder.
        workspace: The workspace of the sweep.
        allow_drift: Whether states of other versions of packages or code may be continued.
    """

    paths: ExperimentPaths
    workspace: Workspace
    allow_drift: bool = False
    _obstacles: dict[str, str | None] = field(default_factory=dict)
    """Why environments cannot be restored, by their canonical settings."""

    def find(
        self, configuration: Configuration, runs: Sequence[RunRecord | None]
    ) -> tuple[tuple[Parent | None, ...], str | None]:
        """The states from which the runs of a trial continue; and why others begin at step 0.

        Args:
            configuration: The configuration of the trial.
            runs: The run with fewer steps on each tuning seed; None on seeds without such a run.
        """
        states = [run if run is None else self._find(configuration, run) for run in runs]
        reasons = dict.fromkeys(reason for reason in states if isinstance(reason, str))
        parents = tuple(each if isinstance(each, Parent) else None for each in states)
        return (parents if any(parents) else ()), "; ".join(reasons) or None

    def _find(self, configuration: Configuration, run: RunRecord) -> Parent | str:
        """The state from which a longer run continues; or why it begins at step 0."""
        if (reason := obstacle(configuration, self.workspace)) is not None:
            return reason
        try:
            return self._checked_state(configuration, run)
        except (ConfigError, RecordError) as error:
            return str(error)

    def _checked_state(self, configuration: Configuration, run: RunRecord) -> Parent:
        """The state that a run keeps.

        Raises:
            RecordError: A longer run cannot continue from it, or there is none.
        """
        name, steps = run.spec.name, configuration.budget.steps
        if run.state is not State.COMPLETED:
            raise RecordError(f"run {name} is {run.state}")
        if steps <= run.step:
            raise RecordError(f"the last rollout of run {name} ended at step {run.step:,}")
        longer, until = configuration.spec(Phase.TUNING, 0, 0), run.spec.budget["steps"]
        if _without_length(longer, until) != _without_length(run.spec, until):
            raise RecordError(
                f"more than budget.steps differs from run {name}: a setting refers to budget.steps"
            )
        copy = find_copy(self.paths.run(name), run.spec.id)
        if copy is None:
            raise RecordError(f"run {name} keeps no state: {why_nothing_is_kept(run.spec)}")
        verify_copy(copy)
        change = describe_changes(copy.manifest.about.get("versions"), collect_versions(run.spec))
        if change is not None and not self.allow_drift:
            raise RecordError(f"run {name} was trained with other versions: {change}")
        if (reason := self._replay_obstacle(configuration, run.spec)) is not None:
            raise RecordError(reason)
        return copy.parent

    def _replay_obstacle(self, configuration: Configuration, spec: RunSpec) -> str | None:
        """Why the state of the environment cannot be restored, or None; examined once."""
        key = canonical(configuration.environment)
        if key not in self._obstacles:
            try:
                seeds = [spec.streams.training(0)]
                check_replay([configuration], seeds, self.workspace, "its runs begin at step 0")
                self._obstacles[key] = None
            except ConfigError as error:
                self._obstacles[key] = str(error)
        return self._obstacles[key]

    def share(self, runs: Sequence[RunSpec]) -> tuple[str | None, tuple[str, ...]]:
        """Keep the transitions that runs have made, for those that receive them.

        Returns:
            The digest of the transitions, or None if no run keeps any; and the names of the runs that
            keep none, such as those that a callback ended before their state was kept.

        Raises:
            OSError: The disk is full or fails.
            RecordError: A copy is damaged.
        """
        kept = {spec.name: find_copy(self.paths.run(spec.name), spec.id) for spec in runs}
        copies = [copy for copy in kept.values() if copy and copy.manifest.transitions]
        left_out = tuple(n for n, copy in kept.items() if not (copy and copy.manifest.transitions))
        return (keep_experience(self.paths, copies) if copies else None), left_out

    def hand_over(self, spec: RunSpec) -> str | None:
        """Give a run the state that it continues from; returns why this is impossible, or None.

        Raises:
            OSError: The disk is full or fails.
        """
        run = self.paths.run(spec.name)
        if run.attempts():
            return None
        try:
            inherit(run, spec, self.paths)
        except RecordError as error:
            return (
                f"run {spec.name} continues another run, whose state was there when its trial was "
                f"proposed: {error}; put it back, or begin another sweep with experiment=…"
            )
        # The command writes the attempt into the ledger when the run's next attempt has ended.
        return None


def _without_length(spec: RunSpec, until: int) -> str:
    """The settings that must be equal for a run to continue another one of that length, as text."""
    # The final evaluation comes after the training, and leaves its state as it is.
    left_out = ("steps", "final_episodes")
    budget = {key: value for key, value in spec.budget.items() if key not in left_out}
    # Values that begin where the shorter run ends had no part in it.
    agent, algorithm = (up_to(part, until) for part in (spec.agent, spec.algorithm))
    parts = [agent, algorithm, spec.environment, spec.compute, budget, spec.replay]
    return canonical([*parts, spec.callback] if spec.callback else parts)


def obstacle(configuration: Configuration, workspace: Workspace) -> str | None:
    """Why no longer run of a configuration can continue a run of it, or None.

    Args:
        configuration: The configuration.
        workspace: The workspace, with the packages that may be imported.
    """
    algorithm = build(configuration.algorithm, "algorithm", workspace.allowed)
    name_settings = getattr(algorithm, "length_settings", None)
    if name_settings is None:
        return (
            f"{type(algorithm).__name__} has no method 'length_settings', which names the settings "
            "that depend on the length of training"
        )
    settings = length_keys(name_settings(), configuration, workspace)
    if settings:
        words = " and ".join(settings)
        return f"{words} {'depends' if len(settings) == 1 else 'depend'} on the length of training"
    if (reason := length_obstacle(configuration, workspace)) is not None:
        return reason
    if configuration.budget.keep_last is False:
        return "budget.keep_last=false keeps no states"
    return None


def describe_continuation(experiment: Experiment, workspace: Workspace) -> str | None:
    """How runs with more steps begin, for the plan; None in a sweep that does not continue runs.

    It is that of the default configuration. The runs of a trial with other values may differ.
    """
    sweep = experiment.sweep
    if sweep is None or not sweep.plan.continuation:
        return None
    reason = obstacle(experiment.default, workspace)
    if reason is not None:
        return f"runs with more steps begin at step 0: {reason}"
    built = build(sweep.tuner, "tuner", workspace.allowed)
    if hasattr(built, "members"):
        population = built.members(experiment.default.budget.steps)
        fixed = ", and the first members unchanged to the end" if population.fixed else ""
        return (
            f"{population.size} members in {population.generations} generations of "
            f"{population.interval:,} steps, each from the state of its parent{fixed}"
        )
    return "a run with more steps continues the run with fewer steps from its state"


def release_buffers(paths: ExperimentPaths, sweeping: SweepSource) -> None:
    """Remove the replay buffers that runs kept for longer runs, once no trial follows.

    Args:
        paths: The sweep's folder.
        sweeping: The sweep.
    """
    if sweeping.stage is not SweepStage.SEARCH:
        for spec in _shorter_runs(sweeping):
            clear_replay(paths.run(spec.name))


def _shorter_runs(sweeping: SweepSource) -> Iterator[RunSpec]:
    """The completed runs of trials with less than the full budget."""
    full = sweeping.search.question.steps
    for record in sweeping.records.values():
        tuning = record.spec.phase is Phase.TUNING
        if tuning and record.spec.budget["steps"] < full and record.state is State.COMPLETED:
            yield record.spec
