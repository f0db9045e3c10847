"""The two configurations of an ablation, from the targets and words of `rlexp ablate`."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from rlexp.app.execution.ablated_configurations import Change, Endpoints, tied_keys
from rlexp.app.execution.checks.import_permission import check_imports
from rlexp.app.execution.configuration_words import words_of
from rlexp.app.execution.request import read_configurations
from rlexp.app.reading.imported import refuse_imported
from rlexp.app.reading.older_schema import refuse_older
from rlexp.app.reporting.evidence import read_target
from rlexp.app.sweeps.evidence import read_sweep_evidence
from rlexp.app.sweeps.retrain import SweepTrial, choose_trial, without_code
from rlexp.app.sweeps.state import read_runs
from rlexp.app.workspace import Workspace
from rlexp.config.overrides import ATTEMPT_KEYS, EXPERIMENT_KEYS, choice_texts, parse_overrides
from rlexp.errors import ConfigError, RecordError
from rlexp.protocol.experiment import Configuration, Experiment, Failures
from rlexp.protocol.identity import short_name
from rlexp.records.selection import DEFAULT, TUNED, Selection
from rlexp.reports.evidence.sweeps import ImportanceByMethod
from rlexp.store.files import read_file
from rlexp.store.layout import ExperimentPaths
from rlexp.store.registers.streams import stream_command
from rlexp.store.runs import read_definition, read_experiment
from rlexp.store.sweeps import read_selection, read_trials

BASE, CHANGED = "base", "changed"
"""Labels of configurations that words describe."""
TARGETS = "name a sweep, two configurations (EXPERIMENT/LABEL), or one and its changes"
"""What `rlexp ablate` takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AblationSource:
    """The two configurations of an ablation, and what is known about their differences.

    Attributes:
        endpoints: The configurations and their changes.
        origin: Where they come from, as texts by name.
        name: The name of the experiment, where the command names none.
        root: The root of the seeds with which the configurations were trained before.
        failures: How failed runs count.
        sweep: The folder of the sweep; None without one.
    """

    endpoints: Endpoints
    origin: Mapping[str, str]
    name: str
    root: int
    failures: Failures
    sweep: ExperimentPaths | None = None

    @property
    def fingerprints(self) -> tuple[str, str]:
        """The identities of both configurations."""
        return self.endpoints.old.fingerprint, self.endpoints.new.fingerprint


@dataclass(frozen=True, slots=True)
class AblationWords:
    """The arguments of `rlexp ablate`.

    Attributes:
        targets: Experiments, or labels of them.
        changes: Overrides that change a configuration.
        settings: Overrides of the experiment: its name, seeds, executor and trackers.
        keys: The keys of `settings`.
    """

    targets: tuple[str, ...]
    changes: tuple[str, ...]
    settings: tuple[str, ...]
    keys: tuple[str, ...]


def read_words(arguments: Sequence[str], workspace: Workspace) -> AblationWords:
    """Sort the arguments of the command; a target is the name of an experiment, or has no `=`.

    Raises:
        ConfigError: An argument cannot be read.
    """
    targets = [a for a in arguments if "=" not in a or _is_recorded(a, workspace)]
    words = [a for a in arguments if a not in targets]
    keys = [parsed.key_or_group for parsed in parse_overrides(words)]
    pairs = list(zip(words, keys, strict=True))
    return AblationWords(
        targets=tuple(targets),
        changes=tuple(word for word, key in pairs if not _is_of_experiment(key)),
        settings=tuple(word for word, key in pairs if _is_of_experiment(key)),
        keys=tuple(key for _, key in pairs if _is_of_experiment(key)),
    )


def _is_recorded(argument: str, workspace: Workspace) -> bool:
    """Whether an argument with `=` is a label of an experiment (`alpha/ppo n_steps=64`)."""
    target = read_target(argument)
    if target.label is None or "=" in target.experiment:
        return False
    return workspace.layout.experiment(target.experiment).definition.exists()


def _is_of_experiment(key: str) -> bool:
    return key.partition(".")[0] in EXPERIMENT_KEYS or key in ATTEMPT_KEYS


def read_source(
    words: AblationWords, command: Sequence[str], workspace: Workspace
) -> AblationSource:
    """The two configurations that the arguments name.

    Raises:
        RlexpError: A target does not exist, names no single configuration, or its sweep has no
            winner; or nothing differs.
    """
    workspace.make_importable()
    match (len(words.targets), bool(words.changes)):
        case (1, False):
            return _of_sweep(words.targets[0], command, workspace)
        case (2, False):
            return _of_two(words.targets, command, workspace)
        case (1, True):
            return _of_changes(words.targets[0], words.changes, command, workspace)
        case (0, True):
            return _of_choices(words.changes, workspace)
    raise ConfigError(
        f"{TARGETS}; or a range of commits (--commits FIRST..LAST); it got {len(words.targets)} targets"
        f"{' and changes' if words.changes else ''}"
    )


def _of_sweep(text: str, command: Sequence[str], workspace: Workspace) -> AblationSource:
    paths, experiment, selection = _finished_sweep(text, workspace)
    trial = choose_trial(SweepTrial(paths.name, None), workspace)
    winner = without_code(trial.configuration, paths, trial.name)
    default = without_code(experiment.default, paths, f"the default of {paths.name}")
    check_imports([winner, default], workspace.allowed, command)
    trials = read_trials(paths)
    assert experiment.sweep is not None
    tied = tied_keys(
        experiment.sweep.space,
        trials[DEFAULT].parameters,
        trials[selection.winner].parameters,
    )
    return AblationSource(
        endpoints=Endpoints.of(
            replace(default, label="default"),
            replace(winner, label=TUNED),
            workspace,
            tied,
        ),
        origin={
            "sweep": paths.name,
            "trial": str(selection.winner),
            "selection": sha256(read_file(paths.selection)).hexdigest(),
        },
        name=f"{paths.name[:100]}-ablation",
        root=experiment.seeds.root,
        failures=experiment.failures,
        sweep=paths,
    )


def _finished_sweep(
    text: str, workspace: Workspace
) -> tuple[ExperimentPaths, Experiment, Selection]:
    """The sweep that a target names, on one task and with a winner that is not the default.

    Raises:
        RecordError: It is another experiment, or has no such winner.
    """
    target = read_target(text)
    paths = workspace.experiment(target.experiment)
    if target.label is not None or not paths.trials.exists():
        raise RecordError(
            f"{text} is not a sweep, and a single configuration has nothing to compare: {TARGETS}",
            key=text,
        )
    experiment = read_definition(paths)
    refuse_imported(experiment)
    refuse_older(experiment)
    if experiment.tasks > 1:
        raise RecordError(
            f"{paths.name} has {experiment.tasks} tasks, and an ablation is on one: train two "
            "configurations on one task, and give both to rlexp ablate",
            key=paths.name,
        )
    selection = read_selection(paths)
    if selection is None:
        command_of = stream_command(paths)
        finish = shlex.join(
            (*command_of, "--final") if command_of else ("rlexp", "resume", paths.name)
        )
        raise RecordError(
            f"{paths.name} has not selected a winner yet, so there is nothing to ablate: finish the "
            f"{'stream' if command_of else 'sweep'} with {finish}",
            command=finish,
            key=paths.name,
        )
    if selection.winner == DEFAULT:
        raise RecordError(
            f"the default configuration won {paths.name}: nothing differs, so there is nothing to "
            "ablate",
            key=paths.name,
        )
    return paths, experiment, selection


def _of_two(
    targets: Sequence[str], command: Sequence[str], workspace: Workspace
) -> AblationSource:
    recorded = [_recorded(text, command, workspace) for text in targets]
    (first, old), (second, new) = recorded
    if old.label == new.label:
        old = replace(old, label=f"{old.label} ({first.name})")
        new = replace(new, label=f"{new.label} ({second.name})")
    return AblationSource(
        endpoints=Endpoints.of(old, new, workspace),
        origin={"first": targets[0], "second": targets[1]},
        name=ablation_name(old, new),
        root=first.seeds.root,
        failures=first.failures,
    )


def _of_changes(
    target: str, changes: Sequence[str], command: Sequence[str], workspace: Workspace
) -> AblationSource:
    experiment, old = _recorded(target, command, workspace)
    words = words_of(old, workspace).before(changes, ())
    new = _single(words, CHANGED, workspace)
    new = replace(new, budget=replace(old.budget, **_budget_changes(old, new)))
    return AblationSource(
        endpoints=Endpoints.of(old, new, workspace),
        origin={"first": target, "changes": " ".join(changes)},
        name=ablation_name(old, new),
        root=experiment.seeds.root,
        failures=experiment.failures,
    )


def _budget_changes(old: Configuration, new: Configuration) -> dict[str, Any]:
    """The defining settings of the new budget; its operational ones stay as recorded."""
    return {k: v for k, v in new.budget.defining().items() if hasattr(old.budget, k)}


def _of_choices(words: Sequence[str], workspace: Workspace) -> AblationSource:
    sides: tuple[list[str], list[str]] = ([], [])
    for word, parsed in zip(words, parse_overrides(words), strict=True):
        if not parsed.is_sweep_override():
            for side in sides:
                side.append(word)
            continue
        values = choice_texts(word, parsed)
        if len(values) != 2:
            raise ConfigError(
                f"{word} has {len(values)} values: give two, that of the first configuration and "
                "that of the second",
                key=parsed.key_or_group,
            )
        key = word.partition("=")[0]
        for side, value in zip(sides, values, strict=True):
            side.append(f"{key}={value}")
    if sides[0] == sides[1]:
        raise ConfigError(
            "no word has two values: write KEY=OLD,NEW for each change, or name a sweep or two "
            "configurations"
        )
    old, new = (
        _single(side, label, workspace) for side, label in zip(sides, (BASE, CHANGED), strict=True)
    )
    return AblationSource(
        endpoints=Endpoints.of(old, new, workspace),
        origin={"words": " ".join(words)},
        name=ablation_name(old, new),
        root=0,
        failures="missing",
    )


def _single(changes: Sequence[str], label: str, workspace: Workspace) -> Configuration:
    planned = read_configurations(changes, workspace)
    if len(planned) > 1:
        raise ConfigError(
            f"an ablation is about two configurations, and the words lead to {len(planned)}: leave "
            "out benchmarks and further choices"
        )
    return replace(planned[0].configuration, label=label)


def _recorded(
    text: str, command: Sequence[str], workspace: Workspace
) -> tuple[Experiment, Configuration]:
    """An experiment and the configuration of it that a target names.

    Raises:
        RecordError: The label does not exist, or the target names several configurations.
    """
    target = read_target(text)
    paths = workspace.experiment(target.experiment)
    experiment = read_experiment(paths)
    refuse_imported(experiment)
    refuse_older(experiment)
    labels = list(dict.fromkeys(c.label for c in experiment.configurations))
    if target.label is not None and target.label not in labels:
        raise RecordError.unknown(
            f"{paths.name} has no label {target.label!r}", target.label, labels, key=paths.name
        )
    chosen = [c for c in experiment.configurations if target.label in {None, c.label}]
    if len(chosen) > 1:
        names = " or ".join(f"{paths.name}/{label}" for label in labels[:3])
        what = "tasks" if target.label is not None else "configurations"
        raise RecordError(
            f"{text} has {len(chosen)} {what}, and an ablation compares two single configurations"
            + (f": name one of them, such as {names}" if target.label is None else ""),
            key=text,
        )
    check_imports(chosen, workspace.allowed, command)
    return experiment, without_code(chosen[0], paths, f"{paths.name}/{chosen[0].label}")


def ablation_name(old: Configuration, new: Configuration) -> str:
    """A name made of the task, the algorithm and the identities of both configurations."""
    identity = sha256(f"{old.fingerprint} {new.fingerprint}".encode()).hexdigest()[:6]
    stem = "".join(
        c if c.isalnum() or c in "._-" else "-" for c in f"{old.task}-{short_name(new.algorithm)}"
    )
    return f"{stem.strip('.-')[:80]}-ablation-{identity}"


@dataclass(frozen=True, slots=True)
class OrderedChanges:
    """The changes by their importance in the tuning trials of a sweep.

    Attributes:
        changes: The most important change first.
        importance: The share of each change.
        text: How the order was found, as a sentence.
    """

    changes: tuple[Change, ...]
    importance: Mapping[Change, float] = field(default_factory=dict)
    text: str = ""


def importance_order(source: AblationSource, workspace: Workspace) -> OrderedChanges | str:
    """The changes by importance; or, as a sentence, why no importance is known.

    Importance is computed from tuning trials only, so that no test score orders a path.
    """
    if source.sweep is None:
        return "the order of a path comes from the importance of a sweep's parameters"
    experiment = read_definition(source.sweep)
    evidence = read_sweep_evidence(
        source.sweep, experiment, read_runs(source.sweep), workspace, with_importance=True
    )
    usable = [i for i in evidence.importances if i.shares]
    if not usable:
        reasons = [f"{i.method}: {i.reason}" for i in evidence.importances if i.reason]
        return f"the sweep has no importance of its parameters ({'; '.join(reasons)})"
    first = usable[0]
    changes = source.endpoints.changes
    shares = {change: _share(change, first) for change in changes}
    ordered = sorted(changes, key=lambda c: (-shares[c], c.name))
    return OrderedChanges(
        tuple(ordered),
        shares,
        f"The order was fixed by {first.method} of the tuning trials of {source.sweep.name}.",
    )


def _share(change: Change, importance: ImportanceByMethod) -> float:
    return sum(i.estimate for key, i in importance.shares.items() if change.covers(key))
