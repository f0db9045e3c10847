"""Sweeps on disk with made-up runs instead of training."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from last_words import last_words
from quick_parts import quick_parts
from stored_runs import PROVENANCE, STARTED, completed, failed

from rlexp.app.sweeps.continuation import RunStates
from rlexp.app.sweeps.merging import merge_with_existing_sweep
from rlexp.app.sweeps.request import (
    Configurer,
    FolderLedger,
    read_sweep,
)
from rlexp.app.sweeps.state import read_runs, restore_sweep
from rlexp.app.workspace import Workspace
from rlexp.engine.sweep_source import SweepSource, SweepStage
from rlexp.protocol.spec import RunSpec
from rlexp.records.events import Evaluated, Event, RunStarted
from rlexp.store.journal import JournalWriter
from rlexp.store.layout import ExperimentPaths, Layout, RunPaths
from rlexp.store.runs import new_attempt, read_run, write_experiment, write_run

# Imported here, because forks that look at an environment would each import it again.
assert gymnasium
WORDS = (
    "algorithm=ppo",
    "environment=cartpole",
    "algorithm.learning_rate=tag(log, interval(1e-5, 1e-1))",
    "algorithm.n_epochs=int(interval(1, 20))",
    "algorithm.n_steps=64",
    "budget.steps=100",
    "budget.evaluation_every=50",
    "budget.final_episodes=2",
    "tuner=random",
    "sweep.trials=8",
    "sweep.promoted=0.25",
    "sweep.lag=1",
    "seeds.tuning=3",
    "seeds.selection=2",
    "seeds.test=3",
    "experiment=made_up",
)
Score = Callable[[RunSpec], float | None]


def by_epochs(spec: RunSpec) -> float:
    """A score that rises with the epochs and varies slightly by seed."""
    epochs: int = spec.algorithm["n_epochs"]
    return 10.0 * epochs + spec.seed


@dataclass(slots=True)
class StoredSweep:
    """A sweep whose runs end at once with a score, or as failed without one.

    With a `cost`, the negated score is a measure of this name, and every return is 0. `measured` gives
    each run measures beside its returns.
    """

    study: Workspace
    words: Sequence[str] = WORDS
    score: Score = by_epochs
    cost: str | None = None
    measured: Callable[[RunSpec], Mapping[str, float]] | None = None
    made: list[RunSpec] = field(default_factory=list)
    provenance: Mapping[str, Any] = field(default_factory=lambda: PROVENANCE)

    @property
    def paths(self) -> ExperimentPaths:
        """The folder of the sweep."""
        return self.study.layout.experiment("made_up")

    def go_on(self, until: SweepStage = SweepStage.TEST, runs: int | None = None) -> SweepSource:
        """Make runs until the stage ends or this number of runs exists."""
        requested = read_sweep(None, self.words, self.study)
        plan = requested.request.plan
        experiment = merge_with_existing_sweep(self.paths, requested.experiment, plan)
        write_experiment(self.paths, experiment)
        ledger = FolderLedger(
            self.paths,
            Configurer(requested, self.study, {}),
            RunStates(self.paths, self.study),
        )
        source = restore_sweep(
            self.paths,
            experiment,
            read_runs(self.paths),
            self.study,
            ledger,
            until=until,
            default=requested.request.default,
        )
        while (runs is None or len(self.made) < runs) and (spec := source.take()) is not None:
            self.made.append(spec)
            source.ended(read_run(self.store(spec), spec).record)
        return source

    def copied_to(self, folder: Path) -> "StoredSweep":
        """The same sweep with a copy of its files in another folder."""
        shutil.copytree(self.study.folder, folder, dirs_exist_ok=True)
        study = Workspace(folder, Layout(folder / "runs"))
        return replace(self, study=study, made=list(self.made))

    def store(self, spec: RunSpec) -> RunPaths:
        """Write a run that has ended."""
        paths = self.paths.run(spec.name)
        write_run(paths, spec)
        attempt = new_attempt(paths, {"allowed": []}, self.provenance, "")
        attempt.log.write_text("Traceback: it broke\n")
        score = self.score(spec)
        events: list[Event] = [RunStarted(time=STARTED, attempt=1, pid=1, host="here")]
        events += failed() if score is None else self._completed(spec, score)
        with closing(JournalWriter(attempt.journal)) as journal:
            for event in events:
                journal.append(event)
        return paths

    def _completed(self, spec: RunSpec, score: float) -> list[Event]:
        if self.measured is not None:
            means = self.measured(spec)
            return [
                replace(
                    event,
                    measures={name: (mean,) * len(event.returns) for name, mean in means.items()},
                )
                if isinstance(event, Evaluated)
                else event
                for event in completed(score)
            ]
        return [
            replace(
                event,
                returns=(0.0,) * len(event.returns),
                measures={self.cost: tuple(-value for value in event.returns)},
            )
            if self.cost is not None and isinstance(event, Evaluated)
            else event
            for event in completed(score)
        ]


@cache
def _finished_at(folder: Path) -> StoredSweep:
    with pytest.MonkeyPatch.context() as monkeypatch:
        quick_parts(monkeypatch)
        sweep = stored_sweep(folder)
        sweep.go_on()
    return sweep


def finished_sweep(folder: Path, factory: pytest.TempPathFactory) -> StoredSweep:
    """A completed sweep in a separate folder; the sweep is run once and copied."""
    return _finished_at(factory.getbasetemp() / "finished sweep").copied_to(folder)


def stored_sweep(folder: Path, *words: str, score: Score = by_epochs) -> StoredSweep:
    """A sweep that has not started, with these overrides."""
    return StoredSweep(
        Workspace(folder, Layout(folder / "runs")), last_words(*WORDS, *words), score
    )
