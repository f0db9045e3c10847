"""Turns a trial of a sweep into a separate experiment, for `rlexp run --from-sweep`.

Overrides may change anything but the algorithm itself. The test seeds of the sweep are used for the
trial as it is, and on other tasks. A trial that is changed on the task of the sweep gets other test
seeds: its changes may be a choice, and no choice may be made on the test seeds of a sweep.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from rlexp.app.execution.changed_budget import BUDGET_AND_COMPUTE, with_changed_budget
from rlexp.app.execution.checks.import_permission import check_imports
from rlexp.app.execution.configuration_words import ConfigurationWords, words_of
from rlexp.app.execution.request import RunRequest, derive_name, folder_word, read_request
from rlexp.app.reading.imported import is_ask_and_tell, refuse_imported
from rlexp.app.sweeps.state import ReadOnlyLedger, read_runs, restore_sweep
from rlexp.app.tracking.mirror_client import ChosenTrackers
from rlexp.app.workspace import Workspace
from rlexp.config.compose import compose
from rlexp.config.matrix import GROUP as BENCHMARK
from rlexp.config.overrides import (
    ATTEMPT_KEYS,
    EXPERIMENT_KEYS,
    SWEEP_GROUPS,
    choice_texts,
    parse_overrides,
)
from rlexp.config.study_file import is_study_file
from rlexp.config.validate import validate
from rlexp.errors import ConfigError, RecordError
from rlexp.protocol.experiment import Configuration, Experiment
from rlexp.protocol.identity import short_name
from rlexp.protocol.origin import Origin
from rlexp.protocol.schema_1 import ConfigurationSchema1
from rlexp.protocol.seeds import Phase
from rlexp.records.selection import TUNED
from rlexp.store.files import read_file
from rlexp.store.former_names import names_of
from rlexp.store.layout import ExperimentPaths, check_name
from rlexp.store.registers.streams import intact_stream, is_stream
from rlexp.store.runs import read_definition
from rlexp.store.secrets import without_secrets
from rlexp.store.sweeps import read_selection, read_trials

LONGEST_NAME = 120
"""Most characters in the name of an experiment."""


@dataclass(frozen=True, slots=True)
class SweepTrial:
    """A trial of a sweep; without a number, the winner or else the best trial so far."""

    sweep: str
    trial: int | None

    def command(self, overrides: Sequence[str]) -> tuple[str, ...]:
        """The command that trains the trial again."""
        trial = [] if self.trial is None else ["--trial", str(self.trial)]
        return ("rlexp", "run", "--from-sweep", self.sweep, *trial, *overrides)


@dataclass(frozen=True, slots=True)
class ChosenTrial:
    """A trial of a sweep that can be trained, and whether the sweep has selected a winner.

    Attributes:
        paths: The folder of the sweep.
        number: The number of the trial.
        configurations: The configuration of its runs on each task of the sweep, one or more.
        searched: The keys that the sweep searched.
        root: The root of the sweep's seeds.
        selection: The sha256 of `selection.json`; None before the winner is selected.
        is_winner: Whether the sweep has selected this trial.
    """

    paths: ExperimentPaths
    number: int
    configurations: tuple[Configuration, ...]
    searched: tuple[str, ...]
    root: int
    selection: str | None
    is_winner: bool

    @property
    def configuration(self) -> Configuration:
        """The configuration of its runs on the first task."""
        return self.configurations[0]

    @property
    def name(self) -> str:
        """The trial in error messages (`trial 5 of quick`)."""
        return f"trial {self.number} of {self.paths.name}"

    @property
    def label(self) -> str:
        """The label of its runs in another experiment."""
        return f"{TUNED} {self.number}" if self.number else "default"

    def origin(self, changes: Iterable[str] = ()) -> Origin:
        """The origin of an experiment that is made from the trial by these overrides."""
        return Origin(
            sweep=self.paths.name,
            trial=self.number,
            winner=self.is_winner,
            selection=self.selection,
            fingerprint=self.configuration.fingerprint,
            changes=without_secrets(changes),
        )

    def words(self, workspace: Workspace) -> ConfigurationWords:
        """The choices and settings that lead to the trial.

        Raises:
            ConfigError: No options lead to it.
        """
        try:
            return _words_on_all_tasks(self.configurations, workspace)
        except ConfigError as error:
            raise error.rephrased(
                f"{self.name}: {error}; train it as it is with rlexp run --from-sweep "
                f"{self.paths.name} --trial {self.number}"
            ) from error

    def is_changed_by(self, configuration: Configuration) -> bool:
        """Whether a configuration differs from the trial in more than budget and compute."""
        trial = self.configuration
        alike = replace(configuration, budget=trial.budget, compute=trial.compute)
        return all(alike.fingerprint != each.fingerprint for each in self.configurations)


def _words_on_all_tasks(
    configurations: Sequence[Configuration], workspace: Workspace
) -> ConfigurationWords:
    """The choices and settings that lead to a configuration on each of its tasks.

    Raises:
        ConfigError: No options lead to it, or settings other than the environment differ.
    """
    first, *others = [words_of(configuration, workspace) for configuration in configurations]
    names = [composition.options["environment"] for composition in (first, *others)]
    shared = {**first.options, "environment": tuple(name for each in names for name in each)}
    for composition, name in zip(others, names[1:], strict=True):
        if composition.settings != first.settings or composition.options != {
            **first.options,
            "environment": name,
        }:
            raise ConfigError("its environments have settings of their own on each task")
    return replace(first, options=shared)


def read_sweep_trial(sweep: str | None, trial: int | None) -> SweepTrial | None:
    """The trial to train again, or None if no sweep is named.

    Raises:
        ConfigError: A trial is given without its sweep.
    """
    if sweep is not None:
        return SweepTrial(sweep, trial)
    if trial is not None:
        raise ConfigError("--trial needs the sweep of the trial: add --from-sweep NAME")
    return None


def request_trial_again(
    origin: SweepTrial, overrides: Sequence[str], workspace: Workspace
) -> RunRequest:
    """Turn a trial and overrides into an experiment.

    Raises:
        RlexpError: The sweep or trial does not exist, the trial cannot run, or an override is
            wrong.
    """
    workspace.make_importable()
    keys = _check_keys(overrides)
    trial = choose_trial(origin, workspace)
    trial = as_ordinary(trial)
    check_imports(
        trial.configurations,
        workspace.allowed,
        origin.command([*overrides, *workspace.permission]),
    )
    if all(_section(key) in (*BUDGET_AND_COMPUTE, *EXPERIMENT_KEYS) for key in keys):
        return _same_trial(trial, overrides, keys, workspace)
    requested = read_request(words_from(trial, overrides, workspace), workspace)
    if not any(trial.is_changed_by(c) for c in requested.experiment.configurations):
        kept = [
            word
            for word, key in zip(overrides, keys, strict=True)
            if _section(key) in (*BUDGET_AND_COMPUTE, *EXPERIMENT_KEYS)
        ]
        tasks = {c.task for c in requested.experiment.configurations}
        return _same_trial(trial, kept, [key for _, key in _keyed(kept)], workspace, tasks)
    return _changed_trial(trial, requested, overrides, keys, workspace)


def is_change_of_code(configuration: Configuration, paths: ExperimentPaths) -> bool:
    """Whether a configuration of a stream has other code than the first champion."""
    if configuration.code is None:
        return False
    first = read_trials(paths)[0].configuration
    return first is not None and first.code != configuration.code


def as_ordinary(trial: ChosenTrial) -> ChosenTrial:
    """The trial for ordinary runs; see `without_code`."""
    ordinary = (without_code(c, trial.paths, trial.name) for c in trial.configurations)
    return replace(trial, configurations=tuple(ordinary))


def without_code(configuration: Configuration, paths: ExperimentPaths, name: str) -> Configuration:
    """A configuration of an experiment for ordinary runs, which have no field for code.

    Args:
        configuration: The configuration.
        paths: The experiment.
        name: What it is called in messages.

    Raises:
        RecordError: It is a change of code of a stream, which the present code is not.
    """
    if is_change_of_code(configuration, paths):
        raise RecordError(
            f"{name} is a change of code ({str(configuration.code)[:12]}), which "
            "its settings do not hold: take over its commit, which "
            f"'rlexp propose {paths.name} --json' names, and train it with rlexp run"
        )
    return replace(configuration, code=None)


def words_from(
    trial: ChosenTrial, overrides: Sequence[str], workspace: Workspace
) -> tuple[str, ...]:
    """The overrides that lead to a trial, changed by those of a command.

    Raises:
        ConfigError: The trial cannot be written as overrides, or the command chooses another
            algorithm.
    """
    composition = trial.words(workspace)
    for word, parsed in zip(overrides, parse_overrides(overrides), strict=True):
        if parsed.key_or_group != "algorithm":
            continue
        tuned = composition.options["algorithm"][0]
        chosen = choice_texts(word, parsed) if parsed.is_sweep_override() else [parsed.value()]
        if [str(option) for option in chosen] != [tuned]:
            raise ConfigError(
                f"{word}: the hyperparameters of {trial.name} are those of algorithm={tuned}; leave "
                f"{word} out, or train without --from-sweep: rlexp run {word}"
            )
    return composition.before(overrides, trial.searched)


def words_to_show(
    origin: SweepTrial, overrides: Sequence[str], workspace: Workspace
) -> tuple[str, ...]:
    """The overrides that lead to what `rlexp run --from-sweep` would train, with its seeds.

    Raises:
        RlexpError: The sweep or trial does not exist, or an override is wrong.
    """
    workspace.make_importable()
    keys = _check_keys(overrides)
    trial = as_ordinary(choose_trial(origin, workspace))
    arguments = words_from(trial, overrides, workspace)
    requested = read_request(arguments, workspace)
    changed, given = _is_changed(trial, requested.experiment), _given_root(requested, keys)
    root = _root(trial, requested.phase, given, changed=changed)
    return arguments if given is not None else (*arguments, f"seeds.root={root}")


def _check_keys(overrides: Sequence[str]) -> list[str]:
    """The keys of the overrides, without a leading sign.

    Raises:
        ConfigError: An override belongs to a sweep, or adds a benchmark or a study file.
    """
    if overrides and is_study_file(overrides[0]):
        raise ConfigError(
            f"{overrides[0]}: --from-sweep takes words and no study file; leave out --from-sweep, "
            "or the file"
        )
    keys = []
    for word, key in _keyed(overrides):
        section = _section(key)
        if section == BENCHMARK or section in SWEEP_GROUPS:
            raise ConfigError(
                f"{word}: --from-sweep trains one trial of a sweep, so {section} has no place here; "
                f"leave {word} out, or leave out --from-sweep"
            )
        keys.append(key)
    return keys


def _keyed(overrides: Sequence[str]) -> list[tuple[str, str]]:
    parsed = parse_overrides(overrides)
    return [(w, p.key_or_group) for w, p in zip(overrides, parsed, strict=True)]


def _section(key: str) -> str:
    return re.split(r"[./]", key)[0]


def _same_trial(
    trial: ChosenTrial,
    overrides: Sequence[str],
    keys: Sequence[str],
    workspace: Workspace,
    tasks: Collection[str] | None = None,
) -> RunRequest:
    """The trial as it is, with the overrides of seeds, budget and compute.

    Args:
        trial: The trial.
        overrides: The overrides.
        keys: The key of each override.
        workspace: The workspace.
        tasks: The tasks on which it is trained; None for all tasks of the sweep.
    """
    configurations = [c for c in trial.configurations if tasks is None or c.task in tasks]
    # The name of the experiment must hold which tasks were left out.
    left_out = len(configurations) < len(trial.configurations)
    end = "-" + folder_word("+".join(c.task for c in configurations)) if left_out else ""
    composed = compose(overrides, workspace.folder)
    if len(composed) > 1:
        raise ConfigError("a trial is one configuration: leave out comma choices")
    root, parts = validate(composed[0].plain, workspace.allowed)
    phase, requested = Phase(root.phase), root.seeds.root if "seeds.root" in keys else None
    changes = [w for w, k in zip(overrides, keys, strict=True) if _changes_runs(k)]
    labelled = [replace(c, label=trial.label) for c in configurations]
    experiment = Experiment(
        name=check_name(root.experiment or _name(trial, end, workspace)),
        configurations=tuple(with_changed_budget(c, root, overrides, keys) for c in labelled),
        seeds=replace(root.seeds, root=_root(trial, phase, requested, changed=False)),
        failures=root.failures,
        origin=trial.origin(changes),
    )
    if not experiment.seeds.seeds(phase):
        raise ConfigError(
            f"seeds.{phase} is empty: there is nothing to run; give a number of seeds, such as "
            f"seeds.{phase}=5"
        )
    trackers = ChosenTrackers.of(composed[0].plain, parts)
    return RunRequest(
        experiment, phase, parts.executor, root.budget, trackers, lean=root.compute.lean
    )


def _changed_trial(
    trial: ChosenTrial,
    requested: RunRequest,
    overrides: Sequence[str],
    keys: Sequence[str],
    workspace: Workspace,
) -> RunRequest:
    """The experiment of a trial that overrides have changed; its name holds its definition."""
    experiment = requested.experiment
    changed, given = _is_changed(trial, experiment), _given_root(requested, keys)
    root = _root(trial, requested.phase, given, changed=changed)
    algorithm = short_name(trial.configuration.algorithm)
    changes = [w for w, k in zip(overrides, keys, strict=True) if _changes_runs(k)]
    grown = replace(
        experiment,
        configurations=tuple(
            replace(c, label=trial.label + c.label.removeprefix(algorithm))
            for c in experiment.configurations
        ),
        seeds=replace(experiment.seeds, root=root),
        origin=trial.origin(changes),
    )
    name = (
        experiment.name
        if "experiment" in keys
        else _name(trial, f"-{derive_name(grown)}", workspace)
    )
    return replace(requested, experiment=replace(grown, name=check_name(name)))


def _is_changed(trial: ChosenTrial, experiment: Experiment) -> bool:
    """Whether an experiment has the trial in a changed form on a task of the sweep."""
    tasks = {configuration.task for configuration in trial.configurations}
    return any(c.task in tasks and trial.is_changed_by(c) for c in experiment.configurations)


def _given_root(requested: RunRequest, keys: Sequence[str]) -> int | None:
    """The root of the seeds that the command names; None without one."""
    return requested.experiment.seeds.root if "seeds.root" in keys else None


def _name(trial: ChosenTrial, end: str, workspace: Workspace) -> str:
    """The name of the experiment of a trial: the sweep, the trial, and what distinguishes it.

    An experiment that was made before `rlexp mv` renamed the sweep keeps its name: under another
    name, the same command would train it anew.
    """
    end = f"-trial-{trial.number}{end}"
    # The name of the sweep is cut, because the hash at the end must stay.
    present, *former = [
        f"{n[: LONGEST_NAME - len(end)]}{end}" for n in names_of(trial.paths)[::-1]
    ]
    made = (name for name in (present, *former) if _is_of_trial(name, trial, workspace))
    return next(made, present)


def _is_of_trial(name: str, trial: ChosenTrial, workspace: Workspace) -> bool:
    """Whether an experiment of this name was made from the trial."""
    try:
        origin = read_definition(workspace.layout.experiment(name)).origin
    except RecordError:
        return False
    expected = (trial.number, trial.configuration.fingerprint)
    return origin is not None and (origin.trial, origin.fingerprint) == expected


def _changes_runs(key: str) -> bool:
    """Whether an override of this key can change the configuration of a run."""
    return _section(key) not in EXPERIMENT_KEYS and key not in ATTEMPT_KEYS


def _root(trial: ChosenTrial, phase: Phase, requested: int | None, *, changed: bool) -> int:
    """The root of the seeds: the sweep's, unless its test seeds must stay unused.

    Args:
        trial: The trial.
        phase: The phase of the requested runs.
        requested: The root that the command names; None without one.
        changed: Whether the trial is changed on the task of its sweep.

    Raises:
        ConfigError: The request names the test seeds of a sweep that must stay unused.
    """
    if phase is not Phase.TEST or (trial.selection is not None and not changed):
        return trial.root if requested is None else requested
    if requested != trial.root:
        # Another root gives other test seeds, so that those of the sweep stay unused.
        return trial.root + 1 if requested is None else requested
    sweep = trial.paths.name
    reason = (
        f"{sweep} has not chosen its winner, and its test seeds must stay unused until then"
        if trial.selection is None
        else f"{trial.name} is changed on the task of the sweep, and the test seeds of {sweep} are "
        "for what it selected"
    )
    raise ConfigError(f"{reason}: choose a seeds.root other than {trial.root}")


def choose_trial(
    origin: SweepTrial, workspace: Workspace, *, to_read: bool = False
) -> ChosenTrial:
    """The named trial of a sweep; without a number, the winner or else the best trial so far.

    Args:
        origin: The sweep, and the number of the trial.
        workspace: The workspace of the sweep.
        to_read: Whether the trial is shown only, so that its runs need not be such that rlexp can
            execute.

    Raises:
        RlexpError: The sweep or trial does not exist, or the trial cannot run.
    """
    paths = workspace.experiment(origin.sweep)
    trials = read_trials(paths)
    if not trials:
        raise RecordError(f"{paths.name} has no trials: it is not a sweep, or has not started")
    if not (to_read and is_ask_and_tell(read_definition(paths))):
        refuse_imported(
            read_definition(paths),
            "; give the parameters of the trial, which 'rlexp report' lists, to 'rlexp run' as "
            "settings",
        )
    number = origin.trial if origin.trial is not None else best_trial(paths, workspace)
    if not 0 <= number < len(trials):
        raise RecordError(
            f"{paths.name} has no trial {number}: it has the trials 0 … {len(trials) - 1}"
        )
    configurations = trials[number].configurations
    if not configurations:
        raise RecordError(
            f"trial {number} of {paths.name} cannot be run: {trials[number].refused}"
        )
    experiment, selection = read_definition(paths), read_selection(paths)
    return ChosenTrial(
        paths=paths,
        number=number,
        configurations=tuple(
            c.renewed() if isinstance(c, ConfigurationSchema1) else c for c in configurations
        ),
        searched=() if experiment.sweep is None else tuple(experiment.sweep.space.keys),
        root=experiment.seeds.root,
        selection=None if selection is None else sha256(read_file(paths.selection)).hexdigest(),
        is_winner=selection is not None and selection.winner == number,
    )


def best_trial(paths: ExperimentPaths, workspace: Workspace) -> int:
    """The winner; else the best trial on all tuning seeds; else the best trial of all.

    Of a stream that takes candidates, it is the champion, whatever the means are.

    Raises:
        RlexpError: No trial has a score, or a file is damaged.
    """
    selection = read_selection(paths)
    if selection is not None:
        return selection.winner
    if is_stream(paths):
        return intact_stream(paths).champion
    sweeping = restore_sweep(
        paths, read_definition(paths), read_runs(paths), workspace, ReadOnlyLedger()
    )
    if ranked := sweeping.ranked():
        return ranked[0].number
    complete = [e.trial for e in sweeping.search.entries if e.trial is not None and e.trial.values]
    if not complete:
        raise RecordError(f"no trial of {paths.name} has a score yet; name one with --trial")
    # The negative number lets the earliest of equally good trials win.
    return max(complete, key=lambda t: (t.values[0], -t.number)).number
