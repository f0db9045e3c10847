"""The label, task and trial of each run, and the start of each group, as far as they are on disk now.

A sweep decides during its search which configurations it runs. A tracker may therefore hear of a
run before the disk tells the label of the run. `RunLabels` reads the folder again for each run
that it does not know, and gives each description a digest. The digest is stored with the position
of the run, so that a later push finds the runs that were described otherwise. A group has started
when the first of its runs has.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from rlexp.app.reading.experiment_scan import READ_ERRORS
from rlexp.errors import RlexpError
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.identity import digest, short_name
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.records.events import RunStarted
from rlexp.store.annotations import Annotations, read_readable_annotations
from rlexp.store.files import open_file
from rlexp.store.journal import events_of
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.runs import read_experiment, read_spec
from rlexp.store.sweeps import read_trials

DIGITS = 16
"""Hexadecimal digits of a digest."""


class RunDescription(NamedTuple):
    """What a tracker shows of a run that the specification of the run does not hold.

    Attributes:
        label: The name under which it is reported; the name of its algorithm while that is unknown.
        task: The environment on which it is scored.
        trial: Number of the sweep's trial that it belongs to, if any.
        tags: The tags that users gave the experiment or the run.
    """

    label: str
    task: str
    trial: int | None
    tags: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Changes whenever the description does."""
        return digest(list(self))[:DIGITS]


@dataclass(slots=True)
class RunLabels:
    """Describes the runs of one experiment; reads the folder again for an unknown run.

    Attributes:
        paths: The experiment.
        is_sweep: Whether a tuner proposes the configurations.
        digest: Changes whenever the description of any run may change.
    """

    paths: ExperimentPaths
    is_sweep: bool = False
    digest: str = ""
    _known: dict[tuple[Phase, str], tuple[str, str]] = field(default_factory=dict)
    _trials: dict[str, int] = field(default_factory=dict)
    _annotations: Annotations = field(default_factory=Annotations)

    def __post_init__(self) -> None:
        """Read the folder."""
        self.refresh()

    def describe(self, spec: RunSpec) -> RunDescription:
        """Describe a run as the folder does now."""
        key = (spec.phase, spec.fingerprint)
        if key not in self._known:
            self.refresh()
        unlabelled = short_name(spec.algorithm), str(spec.environment.get("id", "unknown"))
        label, task = self._known.get(key, unlabelled)
        trial = self._trials.get(spec.fingerprint) if spec.phase is not Phase.TEST else None
        tags = (*self._annotations.experiment.tags, *self._annotations.of(spec.name).tags)
        return RunDescription(label, task, trial, tuple(dict.fromkeys(tags)))

    def refresh(self) -> None:
        """Read the folder again; what cannot be read stays as it was."""
        try:
            experiment = read_experiment(self.paths)
            self.is_sweep = experiment.sweep is not None
            trials = read_trials(self.paths) if self.is_sweep else []
        except (RlexpError, *READ_ERRORS):
            return
        self._known = _labels(experiment)
        # In reverse, so that of trials with equal configurations the first one stays.
        for trial in reversed(trials):
            if trial.configuration is not None:
                for fingerprint in experiment.fingerprints(trial.configuration, Phase.TUNING):
                    self._trials[fingerprint] = trial.number
        self._annotations = read_readable_annotations(self.paths)[0]
        tags = {name: list(a.tags) for name, a in self._annotations.runs.items()}
        labels = [[*key, *label] for key, label in self._known.items()]
        shared = list(self._annotations.experiment.tags)
        self.digest = digest([labels, self._trials, tags, shared])[:DIGITS]


def _labels(experiment: Experiment) -> dict[tuple[Phase, str], tuple[str, str]]:
    """The label and the task of each configuration, by phase and fingerprint."""
    labels: dict[tuple[Phase, str], tuple[str, str]] = {}
    for phase in Phase:
        # Selection runs begin before the finalists are on disk, but their trials are there.
        searched = experiment.sweep is not None and phase is not Phase.TEST
        for configuration in experiment.trials if searched else experiment.of_phase(phase):
            label = configuration.label, configuration.task
            for fingerprint in experiment.fingerprints(configuration, phase):
                labels.setdefault((phase, fingerprint), label)
    return labels


@dataclass(slots=True)
class GroupStarts:
    """Finds the first start of a group's runs; reads the folder again for a new group only.

    Attributes:
        paths: The experiment.
        group_of: The group of a run.
    """

    paths: ExperimentPaths
    group_of: Callable[[RunSpec], str]
    _starts: dict[str, float] = field(default_factory=dict)

    def of(self, group: str, started: float) -> float:
        """The start of a group's first run, in seconds since 1970.

        Args:
            group: The group.
            started: The start of one of its runs; it is the answer if no run is earlier.
        """
        if group not in self._starts:
            self._read()
        return self._starts.setdefault(group, started)

    def _read(self) -> None:
        for run in self.paths.runs():
            try:
                start = _first_start(run)
                group = None if start is None else self.group_of(read_spec(run))
            except (RlexpError, *READ_ERRORS):
                continue
            if start is not None and group is not None:
                self._starts[group] = min(start, self._starts.get(group, start))


def _first_start(run: RunPaths) -> float | None:
    """The start of a run's first attempt, without reading the rest of its journal."""
    attempts = run.attempts()
    if not attempts:
        return None
    with open_file(attempts[0].journal) as file:
        first = list(events_of([file.readline()]))
    return first[0].time if first and isinstance(first[0], RunStarted) else None
