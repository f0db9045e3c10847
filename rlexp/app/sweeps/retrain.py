"""Turns a trial of a sweep into a separate experiment, for `rlexp run --from-sweep`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from rlexp.app.execution.import_permission import check_imports
from rlexp.app.execution.request import RunRequest
from rlexp.app.sweeps.state import ReadOnlyLedger, read_runs, restore_sweep
from rlexp.app.tracking.mirror_client import ChosenTrackers
from rlexp.app.workspace import Workspace
from rlexp.config.compose import compose
from rlexp.config.overrides import parse_overrides
from rlexp.config.study_file import is_study_file
from rlexp.config.validate import ValidatedSettings, validate
from rlexp.errors import ConfigError, RecordError
from rlexp.protocol.budget import TENTH, evaluation_interval
from rlexp.protocol.experiment import Configuration, Experiment
from rlexp.protocol.schema_1 import ConfigurationSchema1
from rlexp.protocol.seeds import Phase
from rlexp.store.layout import ExperimentPaths, check_name
from rlexp.store.runs import read_definition
from rlexp.store.sweeps import TUNED_LABEL, read_selection, read_trials

FIXED_BY_TRIAL = ("agent", "algorithm", "environment", "benchmark", "sweeps", "sweep")
"""Keys and groups that the trial fixes, so that overrides cannot change them."""


@dataclass(frozen=True, slots=True)
class SweepTrial:
    """A trial of a sweep; without a number, the winner or else the best trial so far."""

    sweep: str
    trial: int | None

    def command(self, overrides: Sequence[str]) -> tuple[str, ...]:
        """The command that trains the trial again."""
        trial = [] if self.trial is None else ["--trial", str(self.trial)]
        return ("rlexp", "run", "--from-sweep", self.sweep, *trial, *overrides)


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
    """Turn a trial and overrides of seeds, budget and compute into an experiment.

    Raises:
        RlexpError: The sweep or trial does not exist, the trial cannot run, or an override would
            change the trial.
    """
    workspace.make_importable()
    if overrides and is_study_file(overrides[0]):
        raise ConfigError(
            f"{overrides[0]}: --from-sweep takes words and no study file; leave out --from-sweep, "
            "or the file"
        )
    keys = [parsed.key_or_group for parsed in parse_overrides(overrides)]
    for word, key in zip(overrides, keys, strict=True):
        if key.split(".")[0] in FIXED_BY_TRIAL:
            raise ConfigError(
                f"{word}: the trial fixes {key.split('.')[0]}; choose another trial with --trial, "
                "or leave out --from-sweep",
            )
    paths = workspace.experiment(origin.sweep)
    number, configuration = _trial(origin, paths, workspace)
    check_imports(
        [configuration], workspace.allowed, origin.command([*overrides, *workspace.permission])
    )
    existing = read_definition(paths)
    composed = compose(overrides, workspace.folder)
    if len(composed) > 1:
        raise ConfigError("a trial is one configuration: leave out comma choices")
    root, parts = validate(composed[0].plain, workspace.allowed)
    phase, requested = Phase(root.phase), root.seeds.root if "seeds.root" in keys else None
    seeds = replace(root.seeds, root=_root(existing, paths, phase, requested))
    experiment = Experiment(
        name=check_name(root.experiment or f"{paths.name}-trial-{number}"),
        configurations=(_changed(configuration, root, overrides, keys),),
        seeds=seeds,
        failures=root.failures,
    )
    if not experiment.seeds.seeds(phase):
        raise ConfigError(
            f"seeds.{phase} is empty: there is nothing to run; give a number of seeds, such as "
            f"seeds.{phase}=5"
        )
    trackers = ChosenTrackers.of(composed[0].plain, parts)
    return RunRequest(experiment, phase, parts.executor, root.budget, trackers)


def _root(
    existing: Experiment, paths: ExperimentPaths, phase: Phase, requested: int | None
) -> int:
    """The root of the seeds: the sweep's, unless that would reveal its test seeds too early.

    Raises:
        ConfigError: The request names the test seeds of a sweep that has not chosen its winner.
    """
    sweep_root = existing.seeds.root
    if phase is not Phase.TEST or read_selection(paths) is not None:
        return sweep_root if requested is None else requested
    if requested == sweep_root:
        raise ConfigError(
            f"{paths.name} has not chosen its winner, and its test seeds must stay unused until then: choose "
            f"a seeds.root other than {sweep_root}",
        )
    # Another root gives other test seeds, so that those of the sweep stay unused.
    return sweep_root + 1 if requested is None else requested


def _changed(
    configuration: Configuration,
    root: ValidatedSettings,
    overrides: Sequence[str],
    keys: Sequence[str],
) -> Configuration:
    """The configuration with the overridden fields of its budget and its compute."""
    parts: dict[str, Any] = {}
    for name in ("budget", "compute"):
        overridden = [key.partition(".")[2] for key in keys if key.startswith(f"{name}.")]
        changes = {key: getattr(getattr(root, name), key) for key in overridden}
        if name == "budget" and f"budget.evaluation_every={TENTH}" in overrides:
            # The override was resolved with the budget of the defaults, which the trial need not
            # have.
            steps = changes.get("steps", configuration.budget.steps)
            changes["evaluation_every"] = evaluation_interval(TENTH, steps)
        parts[name] = replace(getattr(configuration, name), **changes)
    return replace(configuration, **parts)


def _trial(
    origin: SweepTrial, paths: ExperimentPaths, workspace: Workspace
) -> tuple[int, Configuration]:
    trials = read_trials(paths)
    if not trials:
        raise RecordError(f"{paths.name} has no trials: it is not a sweep, or has not started")
    number = origin.trial if origin.trial is not None else _best(paths, workspace)
    if not 0 <= number < len(trials):
        raise RecordError(
            f"{paths.name} has no trial {number}: it has the trials 0 … {len(trials) - 1}"
        )
    configuration = trials[number].configuration
    if configuration is None:
        raise RecordError(
            f"trial {number} of {paths.name} cannot be run: {trials[number].refused}"
        )
    if isinstance(configuration, ConfigurationSchema1):
        configuration = configuration.renewed()
    return number, replace(configuration, label=f"{TUNED_LABEL} {number}" if number else "default")


def _best(paths: ExperimentPaths, workspace: Workspace) -> int:
    """The winner; else the best trial on all tuning seeds; else the best trial of all."""
    selection = read_selection(paths)
    if selection is not None:
        return selection.winner
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
