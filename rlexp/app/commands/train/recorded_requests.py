"""Requests that continue an experiment as its recorded command has executed it, with new overrides."""

import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rlexp.app.execution.checks.import_permission import check_imports
from rlexp.app.execution.request import RunRequest
from rlexp.app.reading.experiment_scan import ExperimentScan
from rlexp.app.reading.imported import refuse_imported
from rlexp.app.reading.older_schema import refuse_older
from rlexp.app.reading.provenance import LastCommand
from rlexp.app.sweeps.request import RequestedSweep, read_sweep, split_definition
from rlexp.app.tracking.mirror_client import ChosenTrackers
from rlexp.app.workspace import Workspace
from rlexp.config.compose import compose
from rlexp.config.overrides import ATTEMPT_KEYS, parse_overrides, split_override
from rlexp.config.validate import build, build_named, validate_settings
from rlexp.errors import ConfigError, RecordError
from rlexp.executors import Executor
from rlexp.protocol.budget import LEAN, OPERATIONAL, Budget
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.store.former_names import names_of
from rlexp.store.secrets import MASK

OF_THE_MACHINE = ("executor", "tracker")
"""Configuration groups that change no number."""
MIRROR = "sweep.storage"
"""The setting of the Optuna storage to which a sweep is copied; it changes no number either."""


def check_overrides(
    overrides: Sequence[str], *more: str, command: str = "rlexp resume"
) -> list[str]:
    """Check that overrides change no number, and return their keys.

    Args:
        overrides: Overrides in Hydra's grammar.
        more: Further allowed keys.
        command: The command that takes the overrides, for errors.

    Raises:
        ConfigError: An override could change a number.
    """
    keys = [parsed.key_or_group for parsed in parse_overrides(overrides)]
    for word, key in zip(overrides, keys, strict=True):
        if not _changes_no_number(key) and key not in more:
            allowed = ", ".join(
                ("executor", "executor.…", "tracker", "tracker.…", *ATTEMPT_KEYS, *more)
            )
            raise ConfigError(
                f"{word}: '{command}' does not change the configuration of runs and takes only "
                f"{allowed}; for other runs, use 'rlexp run' or 'rlexp sweep'"
            )
    return keys


def _changes_no_number(key: str) -> bool:
    return key.split(".", maxsplit=1)[0] in OF_THE_MACHINE or key in ATTEMPT_KEYS


def phase_requests(
    scanned: ExperimentScan,
    recorded: LastCommand,
    overrides: Sequence[str],
    workspace: Workspace,
    command: Sequence[str],
    only: RunSpec | None = None,
) -> Iterator[RunRequest]:
    """The requests that the records of an experiment define, one for each phase with runs.

    Args:
        scanned: The experiment.
        recorded: The settings of its last command.
        overrides: Overrides of executor, trackers and checkpoints.
        workspace: The workspace, whose configuration chooses executor and trackers.
        command: The command as the user typed it.
        only: The only run to continue; None continues all.

    Raises:
        RlexpError: An override could change a number, or the records name code that is not
            allowed.
    """
    experiment = readable_experiment(scanned)
    refuse_imported(experiment)
    refuse_older(experiment)
    check_imports(experiment.configurations, workspace.allowed, command)
    settings = execution_settings(experiment, recorded, overrides, workspace)
    if only is not None:
        _check_requested(experiment, only)
    phases = scanned.phases or (Phase.TEST,)
    for phase in phases if only is None else (only.phase,):
        yield settings.request(experiment, phase, only.id if only else None)


def readable_experiment(scanned: ExperimentScan) -> Experiment:
    """The definition of an experiment.

    Raises:
        RecordError: The definition cannot be read.
    """
    if scanned.experiment is None:
        raise RecordError(f"{scanned.problem}; 'rlexp ls {scanned.paths.name}' lists its runs")
    return scanned.experiment


def _check_requested(experiment: Experiment, only: RunSpec) -> None:
    if only.id not in {spec.id for _, spec in experiment.specs(only.phase)}:
        raise RecordError(
            f"run {only.name} is not part of the present definition of experiment "
            f"{experiment.name}: repeat the command that defined this run"
        )


@dataclass(frozen=True, slots=True)
class ExecutionSettings:
    """How runs are executed that continue: nothing of it changes their numbers.

    Attributes:
        executor: The plug-in that executes the runs.
        budget: The budget; only its operational fields are used.
        trackers: The trackers that receive the records.
        lean: Whether runs use shortcuts.
    """

    executor: Executor
    budget: Budget
    trackers: ChosenTrackers
    lean: bool

    def request(self, experiment: Experiment, phase: Phase, only: str | None = None) -> RunRequest:
        """The request of the runs of a phase, or of the single run with the id `only`."""
        return RunRequest(
            experiment, phase, self.executor, self.budget, self.trackers, only, lean=self.lean
        )


def execution_settings(
    experiment: Experiment, recorded: LastCommand, overrides: Sequence[str], workspace: Workspace
) -> ExecutionSettings:
    """The executor, trackers and settings of checkpoints and shortcuts of continued runs.

    Overrides come first, then the recorded settings, then the configuration of the workspace.

    Args:
        experiment: The experiment of the runs.
        recorded: The settings of its last command.
        overrides: Overrides of executor, trackers and checkpoints.
        workspace: The workspace, whose configuration chooses executor and trackers.

    Raises:
        ConfigError: An override could change a number, or is wrong.
    """
    # Executor and trackers never come from records, which may come from another person: runs
    # would be executed, and credentials sent, where that person chose.
    given = check_overrides(overrides)
    configuration = compose(overrides, workspace.folder)[0].plain
    executor: Executor = build(configuration["executor"], "executor", workspace.allowed)
    mirrors = configuration["tracker"]
    trackers = ChosenTrackers(build_named(mirrors, "tracker", workspace.allowed), mirrors)
    before = {
        key: recorded.settings[key]
        for key in OPERATIONAL
        if key in recorded.settings and f"budget.{key}" not in given
    }
    configured = {key: configuration["budget"].get(key) for key in OPERATIONAL}
    lean = configuration["compute"].get(LEAN) is not False
    if f"compute.{LEAN}" not in given:
        lean = recorded.settings.get(LEAN, lean) is not False
    try:
        budget = _budget(experiment, {**configured, **before})
    except ConfigError:
        # A damaged record of the checkpoint settings must not prevent the runs from continuing.
        budget = _budget(experiment, configured)
    return ExecutionSettings(executor, budget, trackers, lean)


def _budget(experiment: Experiment, operational: dict[str, Any]) -> Budget:
    defining = experiment.default.budget.defining()
    return validate_settings(Budget, {**defining, **operational}, "budget.")


def recorded_sweep(
    scanned: ExperimentScan,
    recorded: LastCommand,
    overrides: Sequence[str],
    workspace: Workspace,
    command: Sequence[str],
) -> tuple[RequestedSweep, tuple[str, ...], list[str]]:
    """The request of the recorded command of a sweep, with further overrides.

    Args:
        scanned: The sweep.
        recorded: The settings of its last command.
        overrides: Overrides of executor, trackers, checkpoints and `sweep.storage`.
        workspace: The workspace with the definition of the sweep.
        command: The command as the user typed it.

    Returns:
        The request, the command that makes it, and the recorded overrides that were left out,
        because records do not choose how this machine is used.

    Raises:
        RlexpError: The recorded command is not complete, now defines another sweep, or the records
            name code that is not allowed.
    """
    experiment = readable_experiment(scanned)
    refuse_older(experiment)
    given = check_overrides(overrides, MIRROR)
    check_imports(
        (*experiment.trials, *experiment.finalists, *experiment.configurations),
        workspace.allowed,
        command,
    )
    typed = _typed(recorded, scanned.paths.name)
    definition, before = split_definition(typed)
    kept, left_out = _repeatable(before, given)
    try:
        request = read_sweep(definition, [*kept, *overrides], workspace)
    except ConfigError as error:
        location = f" (it was typed in {recorded.folder})" if _moved(recorded, workspace) else ""
        recorded_command = shlex.join(["rlexp", "sweep", *typed])
        raise ConfigError(
            f"'{recorded_command}' is not valid any more{location}: {error}"
        ) from error
    if request.experiment.name in names_of(scanned.paths)[:-1]:
        # The command was recorded before `rlexp mv` renamed the sweep.
        kept = _renamed(kept, scanned.paths.name)
        request = read_sweep(definition, [*kept, *overrides], workspace)
    _check_name(request, typed, scanned.paths.name)
    again = ("rlexp", "sweep", *([definition] if definition else []), *kept, *overrides)
    return request, again, left_out


def _repeatable(recorded: Sequence[str], given: Collection[str]) -> tuple[list[str], list[str]]:
    """The recorded overrides without the keys that are given now: those to repeat, and those not.

    Not repeated are those that choose how a machine is used.
    """
    # Records of earlier versions may hold several values of a key, of which the last one counts.
    keys = (parsed.key_or_group for parsed in parse_overrides(recorded))
    last = {key: word for word, key in zip(recorded, keys, strict=True)}
    words = [(key, word) for key, word in last.items() if key not in given]
    kept = [word for key, word in words if not _of_machine(key)]
    return kept, [word for key, word in words if _of_machine(key)]


def _renamed(words: Iterable[str], name: str) -> list[str]:
    """The words of a command with another name of the experiment."""
    return [*(w for w in words if not w.startswith("experiment=")), f"experiment={name}"]


def _check_name(request: RequestedSweep, typed: Sequence[str], name: str) -> None:
    """Refuse a recorded command that defines another sweep now.

    Raises:
        RecordError: It does; the message has the command that defines the sweep of this name.
    """
    if request.experiment.name != name:
        command = shlex.join(["rlexp", "sweep", *_renamed(typed, name)])
        raise RecordError(
            f"the recorded command of sweep {name} now defines {request.experiment.name}; repeat "
            f"the command with experiment={name}: {command}"
        )


def _of_machine(key: str) -> bool:
    return key.split(".", maxsplit=1)[0] in OF_THE_MACHINE or key == MIRROR


def _moved(recorded: LastCommand, workspace: Workspace) -> bool:
    return bool(recorded.folder) and recorded.folder != str(workspace.folder)


def _typed(recorded: LastCommand, name: str) -> tuple[str, ...]:
    """The recorded arguments of `rlexp sweep`.

    Raises:
        RecordError: They are not recorded, or contain a masked secret.
    """
    if recorded.command[:2] != ("rlexp", "sweep"):
        raise RecordError(
            f"the command of sweep {name} is not recorded, because none of its runs was started: "
            "repeat the command 'rlexp sweep …'"
        )
    overrides = recorded.command[2:]
    if any(MASK in split_override(word)[1] for word in overrides):
        raise RecordError(
            f"the command of sweep {name} contains a secret, whose value is not recorded: repeat "
            f"the command with the value: {shlex.join(recorded.command)}"
        )
    return overrides
