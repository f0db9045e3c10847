"""Ask and tell: a sweep whose runs are trained by the program that asks for them.

`SweepStudy` hands out the runs of a sweep and takes their scores. Search, promotion, selection and
test are those of every other sweep (`rlexp/engine/sweep_source.py`). A score is an imported run on
disk before `tell` returns.
"""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path
from typing import Any

from rlexp.app.importing.store import add_run, remove_leftovers
from rlexp.app.sweeps.merging import merge_with_existing_sweep
from rlexp.app.sweeps.request import Configurer
from rlexp.app.sweeps.state import check_sweep_plug_ins, read_runs, restore_sweep
from rlexp.app.workspace import Workspace
from rlexp.engine.sweep_source import SweepSource
from rlexp.engine.trial_state import Proposal
from rlexp.errors import ConfigError, ProtocolError, RecordError
from rlexp.exchange.importers.imported_study import (
    EarlyEnd,
    EvaluationPoint,
    ImportedRun,
    ReturnKind,
)
from rlexp.exchange.importers.plan import PlannedImportRun
from rlexp.protocol.experiment import Configuration, Experiment
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import ASK_AND_TELL, Parent, RunSpec
from rlexp.records.events import Ending, Failure
from rlexp.records.run import LARGEST_SCORE, RunRecord
from rlexp.records.selection import Selection
from rlexp.store.layout import ExperimentPaths
from rlexp.store.ledger_writer import LedgerWriter
from rlexp.store.locks.lease import hold
from rlexp.store.runs import read_run, write_experiment
from rlexp.store.secrets import without_secrets
from rlexp.store.sweeps import StoredTrial, append_trial, check_untested, write_selection
from rlexp.text import join_names
from rlexp.tuners import Suggestion

PATIENCE = 10.0
"""Seconds for which a call waits for another process that asks or tells at the same time."""
LONGEST_REASON = 1000
"""Characters that are kept of the reason of a failed training."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DueRun:
    """A training that a study asks for.

    Attributes:
        trial: The number of the trial.
        seed: The seed of the training, a number of 32 bits. No two runs of a study with the same
            settings have the same one, so it also stands for the phase.
        phase: `tuning`, `selection` or `test`.
        settings: The hyperparameters, by the names of the space and of the default.
        steps: Environment steps of the training.
    """

    trial: int
    seed: int
    phase: str
    settings: Mapping[str, Any]
    steps: int


@dataclass(frozen=True, slots=True)
class StudyLedger:
    """Stores the trials and the choice of a study whose runs are trained elsewhere."""

    paths: ExperimentPaths
    configurer: Configurer

    def configure(
        self, number: int, suggestion: Suggestion
    ) -> tuple[tuple[Configuration, ...], str]:
        """See `Configurer.configure`; the configuration is that of an imported run."""
        configurations, refused = self.configurer.configure(
            number, suggestion.parameters, suggestion.steps
        )
        return tuple(map(as_imported, configurations)), refused

    def find_states(
        self, configuration: Configuration, runs: Sequence[RunRecord | None]
    ) -> tuple[tuple[Parent | None, ...], str | None]:
        """Raise a ProtocolError: no run of a study continues another one."""
        raise ProtocolError(f"{len(runs)} runs of {configuration.label} cannot be continued")

    def propose(self, proposal: Proposal, configurations: tuple[Configuration, ...]) -> None:
        """Append a trial to the file of the study, which is on one task."""
        configuration = configurations[0] if configurations else None
        trial = StoredTrial(
            number=proposal.number,
            parameters=proposal.parameters,
            steps=proposal.steps,
            configuration=configuration,
            refused=proposal.refused,
            parent=proposal.parent,
        )
        append_trial(self.paths, trial)

    def hand_over(self, spec: RunSpec) -> str | None:
        """Raise a ProtocolError: no run of a study continues another one."""
        raise ProtocolError(f"run {spec.name} of a study cannot continue another run")

    def choose(self, selection: Selection) -> None:
        """Write the choice, which nothing changes afterwards."""
        write_selection(self.paths, selection)


def as_imported(configuration: Configuration) -> Configuration:
    """The configuration of a training script as that of runs that another program has made.

    Its network, its threads and the episodes of its score are not known.
    """
    algorithm = configuration.algorithm
    source = {"kind": ASK_AND_TELL, "returns": str(ReturnKind.SCORES), "binned": False}
    named = {"name": algorithm["name"], "imported": source, "settings": algorithm["settings"]}
    unknown: dict[str, Any] = {"threads": None, "device": None}
    of_imports: dict[str, Any] = {"final_episodes": None}
    return replace(
        configuration,
        agent={},
        algorithm=named,
        budget=replace(configuration.budget, **of_imports),
        compute=replace(configuration.compute, **unknown),
    )


@dataclass(slots=True, repr=False)
class SweepStudy:
    """A sweep that is trained by the program that holds it.

    Every call reads what other processes have told since the last one. Nothing is lost when the
    program is killed: the same program again gets the same trials and makes the same choice.
    """

    _paths: ExperimentPaths
    _configurer: Configurer
    _workspace: Workspace
    _source: SweepSource | None = None
    _state: tuple[int, ...] = ()
    _runs: dict[tuple[int, int], RunSpec] = field(default_factory=dict)

    @classmethod
    def open(cls, configurer: Configurer, workspace: Workspace) -> "SweepStudy":
        """Begin a study, or go on with the one of this name.

        Args:
            configurer: Makes the configurations of the trials.
            workspace: The workspace of the study.

        Raises:
            RlexpError: An experiment of this name has another definition, or cannot be read.
        """
        requested = configurer.asked.experiment
        paths = workspace.layout.experiment(requested.name)
        study = cls(paths, configurer, workspace)
        # Before anything is written: a mistake must not leave an experiment.
        check_sweep_plug_ins(requested, None, workspace)
        configurer.check_default()
        with hold(paths.lock, f"study {paths.name}", now=time.time(), patience=PATIENCE):
            plan = configurer.asked.request.plan
            experiment = merge_with_existing_sweep(paths, study._requested, plan)
            write_experiment(paths, experiment)
            remove_leftovers(paths.folder)
            # A program that was killed may have left a run without an entry in the ledger.
            LedgerWriter(paths).enter_late()
        return study

    def __repr__(self) -> str:
        """The name of the study; its fields say nothing to a reader."""
        return f"<study {self.name}>"

    @property
    def name(self) -> str:
        """The name of the experiment that holds the records."""
        return self._paths.name

    @property
    def stage(self) -> str:
        """The stage of the next run: `search`, `promotion`, `selection`, `test` or `done`."""
        with self._current() as source:
            return str(source.stage)

    @property
    def winner(self) -> int | None:
        """The number of the chosen trial; None before the choice."""
        with self._current() as source:
            return None if source.selection is None else source.selection.winner

    def ask(self) -> DueRun | None:
        """The next training: the first one without a score; None when the study is done.

        Without `tell` in between, the same training is returned again.

        Raises:
            rlexp.errors.RlexpError: The study cannot go on, or its records cannot be used.
        """
        return next(iter(self.due()), None)

    def due(self) -> tuple[DueRun, ...]:
        """The trainings that can be made now, at the same time; empty when the study is done.

        With `sweep.lag=N`, up to N + 1 trials are due at a time.

        Raises:
            rlexp.errors.RlexpError: The study cannot go on, or its records cannot be used.
        """
        with self._current() as source:
            specs = self._proceed(source)
            return tuple(self._due_run(source, spec) for spec in specs)

    def tell(self, trial: int, seed: int, score: float) -> None:
        """Store the score of a training; it is on disk when this returns.

        The same score may be told again. NaN or infinity is a failed training, which never counts
        as a score.

        Args:
            trial: The number of the trial.
            seed: The seed that was handed out with it.
            score: The score of the final policy; greater is better.

        Raises:
            rlexp.errors.RlexpError: The study did not ask for this training, or has another result
                of it; nothing was stored.
        """
        value = _score(score)
        if isfinite(value) and abs(value) <= LARGEST_SCORE:
            self._store(trial, seed, value, None)
        else:
            self._store(trial, seed, None, (Failure.NAN, f"the score is {value}"))

    def tell_failure(self, trial: int, seed: int, reason: str = "the training failed") -> None:
        """Store that a training failed; a failed trial never wins.

        Args:
            trial: The number of the trial.
            seed: The seed that was handed out with it.
            reason: Why it failed, for the report.

        Raises:
            rlexp.errors.RlexpError: The study did not ask for this training, or has a score of it;
                nothing was stored.
        """
        text = " ".join(str(reason).split())[:LONGEST_REASON] or "the training failed"
        self._store(trial, seed, None, (Failure.USER, text))

    @property
    def _requested(self) -> Experiment:
        requested = self._configurer.asked.experiment
        return replace(requested, configurations=tuple(map(as_imported, requested.configurations)))

    @contextmanager
    def _current(self) -> Iterator[SweepSource]:
        """The state of the study, read again if another process has changed it; under its lock."""
        paths = self._paths
        with hold(paths.lock, f"study {paths.name}", now=time.time(), patience=PATIENCE):
            if self._source is None or self._state != _state_of(paths):
                self._source = self._restored()
            try:
                yield self._source
            except BaseException:
                # What was written before the error is read again by the next call.
                self._source = None
                raise
            self._state = _state_of(paths)

    def _restored(self) -> SweepSource:
        paths, request = self._paths, self._configurer.asked.request
        runs = read_runs(paths)
        # A test run before the selection would let test scores reach the choice of the winner.
        if not paths.selection.exists():
            check_untested(paths, (stored.record.spec.phase for stored in runs))
        experiment = merge_with_existing_sweep(paths, self._requested, request.plan)
        ledger = StudyLedger(paths, self._configurer)
        return restore_sweep(
            paths, experiment, runs, self._workspace, ledger, default=request.default
        )

    def _proceed(self, source: SweepSource) -> list[RunSpec]:
        """Make the decisions that can be made now; returns the runs that are due.

        Raises:
            RecordError: The study cannot go on.
        """
        while source.take() is not None:
            pass
        if source.halted is not None:
            raise RecordError(f"study {self.name} cannot go on: {source.halted}")
        return source.due_runs()

    def _due_run(self, source: SweepSource, spec: RunSpec) -> DueRun:
        return DueRun(
            trial=source.trial_of(spec),
            seed=spec.streams.policy,
            phase=str(spec.phase),
            settings=spec.algorithm["settings"],
            steps=spec.budget["steps"],
        )

    def _store(
        self, trial: int, seed: int, score: float | None, trouble: tuple[Failure, str] | None
    ) -> None:
        """Store the end of a run: its score, or how it failed."""
        with self._current() as source:
            spec = self._due_spec(source, trial, seed)
            if spec is None:
                self._check_repeated(source, trial, seed, score)
                return
            run = self._import(source, spec, score, trouble)
            add_run(self._paths, run, _script(self._workspace.folder), self._workspace.folder)
            source.ended(read_run(self._paths.run(spec.name), spec).record)

    def _due_spec(self, source: SweepSource, trial: int, seed: int) -> RunSpec | None:
        """The due run of a trial with a seed; None if it has been told.

        Raises:
            RecordError: The study has not asked for it.
        """
        trials = len(source.search.entries)
        if isinstance(trial, bool) or trial not in range(trials):
            there = f"it has the trials 0 … {trials - 1}" if trials else "ask for the first one"
            raise RecordError(f"study {self.name} has no trial {trial!r}: {there}")
        due = [spec for spec in source.due_runs() if source.trial_of(spec) == trial]
        for spec in due:
            if spec.streams.policy == seed:
                return spec
        if self._ended(source, trial, seed) is not None:
            return None
        raise RecordError(
            f"study {self.name} has not asked for trial {trial} with the seed {seed!r}: "
            f"{self._instead(source, due)}"
        )

    def _instead(self, source: SweepSource, due: Sequence[RunSpec]) -> str:
        """What can be told instead of a run that the study has not asked for."""
        if due:
            return f"tell one of its due seeds, {join_names(str(s.streams.policy) for s in due)}"
        others = sorted({source.trial_of(spec) for spec in source.due_runs()})
        if others:
            return f"no seed of this trial is due, but of trial {join_names(map(str, others))}"
        if source.selection is not None:
            return f"the choice of trial {source.selection.winner} is final, and no run is due"
        return "no run is due; ask for the next one"

    def _ended(self, source: SweepSource, trial: int, seed: int) -> RunRecord | None:
        """The record of a run of a trial with a seed; None without one."""
        for record in source.records.values():
            spec = record.spec
            if spec.streams.policy == seed and source.trial_of(spec) == trial:
                return record
        return None

    def _check_repeated(
        self, source: SweepSource, trial: int, seed: int, score: float | None
    ) -> None:
        """Refuse another result of a run.

        Raises:
            RecordError: The result differs from the recorded one, which is kept.
        """
        record = self._ended(source, trial, seed)
        recorded = None if record is None else record.score
        if recorded == score:
            return
        before, now = (
            "a failure" if value is None else f"the score {value!r}" for value in (recorded, score)
        )
        raise RecordError(
            f"trial {trial} with the seed {seed} has {before}, which is kept; {now} was not stored"
        )

    def _import(
        self,
        source: SweepSource,
        spec: RunSpec,
        score: float | None,
        trouble: tuple[Failure, str] | None,
    ) -> PlannedImportRun:
        """A run in the form in which imported runs are written."""
        trial = source.trial_of(spec)
        (configuration,), steps = source.configurations[trial], int(spec.budget["steps"])
        early = None
        if trouble is not None:
            early = EarlyEnd(step=0, ending=Ending.FAILED, failure=trouble[0], reason=trouble[1])
        final = EvaluationPoint(step=steps, returns=(score or 0.0,), final=True)
        points = () if score is None else (final,)
        run = ImportedRun(
            name=f"trial {trial}, seed {spec.streams.policy}",
            label=configuration.label,
            task=configuration.task,
            seed=spec.seed,
            points=points,
            returns=ReturnKind.SCORES,
            files=(),
            trouble=early,
        )
        return PlannedImportRun(
            source=run,
            numbered=False,
            configuration=configuration,
            points=points,
            step=steps if early is None else 0,
            trouble=early,
            cut=0,
            phase=Phase(spec.phase),
            root=spec.root,
        )


def _score(score: float) -> float:
    """A score as a float, from a number of Python, NumPy or a similar library."""
    no_number = isinstance(score, str | bytes | bool)
    with suppress(TypeError, ValueError, OverflowError):
        if not no_number:
            return float(score)
    raise ConfigError(
        f"the score {score!r} is no number: tell a number, or tell_failure for a failed training"
    )


def _state_of(paths: ExperimentPaths) -> tuple[int, ...]:
    """What changes with every trial, run and choice: the size of a file, and numbers of files."""
    size = paths.trials.stat().st_size if paths.trials.exists() else 0
    definition = paths.definition.stat().st_mtime_ns if paths.definition.exists() else 0
    return size, definition, len(paths.runs()), int(paths.selection.exists())


def _script(folder: Path) -> tuple[str, ...]:
    """The command that starts this program again; empty if it is no script in the workspace."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    path = Path(file).absolute() if file else None
    if path is None or path.suffix != ".py" or not path.is_relative_to(folder):
        return ()
    return without_secrets(("python", str(path.relative_to(folder)), *sys.argv[1:]))
