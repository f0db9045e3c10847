"""An experiment and its runs as trackers see them: read from disk, secrets masked."""

import os
from dataclasses import dataclass, field
from hashlib import sha256

from rlexp.app.feed import Feed
from rlexp.app.reading.provenance import provenance_of
from rlexp.app.reading.survey import DAMAGE
from rlexp.errors import RlexpError
from rlexp.protocol.experiment import Configuration, Experiment
from rlexp.protocol.identity import short_name
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.records.run import RunRecord
from rlexp.store.cursors import identity
from rlexp.store.file_systems import is_shared
from rlexp.store.files import read_json
from rlexp.store.layout import ExperimentPaths
from rlexp.store.runs import read_experiment
from rlexp.store.secrets import mask_all, secret_values
from rlexp.store.sweeps import read_trials
from rlexp.trackers import Ended, TrackedExperiment, TrackedRun


@dataclass(slots=True)
class Labels:
    """Under what each configuration of an experiment is reported; read again where one is new."""

    paths: ExperimentPaths
    _experiment: Experiment | None = None
    _trials: dict[str, int] = field(default_factory=dict)

    def find(self, spec: RunSpec) -> tuple[Configuration | None, int | None]:
        """The configuration of a run, and the number of the trial that it belongs to."""
        found = self._look(spec)
        if found[0] is None:
            self._read()
            found = self._look(spec)
        return found

    def _look(self, spec: RunSpec) -> tuple[Configuration | None, int | None]:
        if self._experiment is None:
            return None, None
        configurations = self._experiment.of_phase(spec.phase)
        own = [c for c in configurations if c.fingerprint == spec.fingerprint]
        tuned = spec.phase is not Phase.TEST
        return own[0] if own else None, self._trials.get(spec.fingerprint) if tuned else None

    def _read(self) -> None:
        try:
            self._experiment = read_experiment(self.paths)
            trials = read_trials(self.paths) if self._experiment.sweep else []
        except (RlexpError, *DAMAGE):
            return
        for trial in reversed(trials):
            if trial.configuration is not None:
                self._trials[trial.configuration.fingerprint] = trial.number

    @property
    def is_sweep(self) -> bool:
        """Whether a tuner proposes the configurations."""
        if self._experiment is None:
            self._read()
        return self._experiment is not None and self._experiment.sweep is not None


def tracked_experiment(paths: ExperimentPaths, labels: Labels) -> TrackedExperiment:
    """The experiment, without a folder for the tracker's own files.

    Raises:
        RecordError: Its definition or its identity is damaged.
    """
    definition = mask_all(read_json(paths.definition), secret_values(os.environ))
    return TrackedExperiment(
        id=identity(paths),
        name=paths.name,
        project=paths.folder.parent.parent,
        folder=paths.trackers,
        definition=definition,
        is_sweep=labels.is_sweep,
        shared=is_shared(paths.folder),
    )


def tracked_run(experiment: TrackedExperiment, feed: Feed, labels: Labels) -> TrackedRun:
    """A run that has begun.

    One that began anew after a failure, or with other code, is another run to a service: its
    numbers may be others.
    """
    spec, begun = feed.spec, "" if feed.begun == 1 else f"/{feed.begun}"
    secrets = secret_values(os.environ)
    configuration, trial = labels.find(spec)
    label = configuration.label if configuration else short_name(spec.algorithm)
    searched = experiment.is_sweep and spec.phase is not Phase.TEST
    return TrackedRun(
        id=sha256(f"{experiment.id}/{spec.id}{begun}".encode()).hexdigest()[:32],
        name=feed.paths.folder.name,
        group=experiment.name if searched else label,
        label=label,
        task=configuration.task if configuration else str(spec.environment.get("id", "unknown")),
        phase=str(spec.phase),
        seed=spec.seed,
        trial=trial,
        fingerprint=spec.fingerprint,
        configuration=mask_all(spec.plain(), secrets),
        provenance=mask_all(provenance_of(feed.newest), secrets),
        started=feed.started or 0.0,
    )


def ended(feed: Feed, record: RunRecord) -> Ended:
    """How a run stands that no process works at."""
    paths, newest = feed.paths, feed.newest
    places = {p.name: p for p in (paths.spec, newest.provenance, paths.model, paths.normalisation)}
    return Ended(
        state=str(record.state),
        time=record.ended or record.started or 0.0,
        step=record.step,
        seconds=record.seconds,
        attempts=record.attempts,
        score=record.score,
        score_rule=str(record.spec.budget["score"]),
        failure=str(record.failure) if record.failure else None,
        reason=mask_all(record.reason, secret_values(os.environ)),
        weights=record.weights,
        # A link could lead to any file of the user's.
        files={n: p for n, p in places.items() if p.is_file() and not p.is_symlink()},
    )
