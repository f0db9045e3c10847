"""Scans an experiment's folder: every run, planned or not, intact or damaged."""

import os
import shlex
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from rlexp.app.reading.beside import beside
from rlexp.app.reading.catalogue import catalogue_of, collector_paused
from rlexp.app.reading.run_memory import FileSums, RememberedRuns
from rlexp.app.reading.summary import StoredEntry
from rlexp.errors import RecordError, RlexpError
from rlexp.protocol.budget import Budget, Compute
from rlexp.protocol.experiment import Configuration, Experiment
from rlexp.protocol.identity import short_name
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.records.run import RunRecord, State
from rlexp.store.catalogue import Catalogue
from rlexp.store.changed_records import ChangedRecords
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.run_stamps import Stamp
from rlexp.store.runs import StoredRun, read_experiment, read_measured_run, read_run
from rlexp.text import format_count, join_first_names

READ_ERRORS = (TypeError, ValueError, KeyError, AttributeError, ArithmeticError, OSError)
"""Errors raised by files that are well-formed and have senseless content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedRun:
    """A run that is planned, stored on disk, or both.

    Attributes:
        name: The run's name.
        configuration: Its configuration, or None where nothing of the run can be read.
        stored: The run on disk, or None where nothing of the run can be read.
        planned: Whether the experiment's definition includes the run.
        problem: What is wrong with the run's folder.
        damaged: Whether its records cannot be read.
    """

    name: str
    configuration: Configuration | None
    stored: StoredRun | None
    planned: bool
    problem: str | None = None
    damaged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentScan:
    """An experiment and its runs on disk.

    Attributes:
        paths: The experiment.
        experiment: Its definition, or None where it cannot be read.
        runs: Its runs.
        problem: Why the definition cannot be read.
        ledger_is_broken: Whether the ledger was found to be damaged or changed itself.
        all_entered: Whether the catalogue shows that every attempt is in the ledger.
    """

    paths: ExperimentPaths
    experiment: Experiment | None
    runs: tuple[ScannedRun, ...]
    problem: str | None = None
    ledger_is_broken: bool = False
    all_entered: bool = False

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The phases of the planned runs, in their order."""
        present = {s.record.spec.phase for f in self.runs if f.planned and (s := f.stored)}
        return tuple(phase for phase in Phase if phase in present)

    def entries(self, phase: Phase) -> list[StoredEntry]:
        """The planned runs of a phase; an unreadable run counts as never started."""
        return [
            (f.configuration, f.stored)
            for f in self.runs
            if f.planned and f.configuration and f.stored and f.stored.record.spec.phase is phase
        ]

    def entries_of(self, experiment: Experiment, phase: Phase) -> list[StoredEntry] | None:
        """The planned runs of a phase as `read_entries` reads them.

        Args:
            experiment: The definition of the caller.
            phase: The phase.

        Returns:
            None where `read_entries` could read something else: for another definition, a sweep,
            a damaged run, and runs in progress.
        """
        if self.experiment is None or experiment.sweep or self.experiment != experiment:
            return None
        if any(f.damaged or f.stored is None or is_running(f.stored) for f in self.runs):
            return None
        # Summaries find the runs of a configuration by its identity.
        pairs = zip(self.experiment.configurations, experiment.configurations, strict=True)
        of_caller = {id(scanned): configuration for scanned, configuration in pairs}
        entries = [(of_caller[id(c)], stored) for c, stored in self.entries(phase)]
        planned = sum(1 for _ in experiment.specs(phase))
        return entries if len(entries) == planned else None

    @property
    def mismatch(self) -> str | None:
        """What differs from the ledger, on one line; None where nothing does."""
        names = [f.name for f in self.runs if f.stored and f.stored.changed]
        return mismatch_text(self.paths.name, names, ledger_is_broken=self.ledger_is_broken)

    @property
    def problems(self) -> list[str]:
        """Every problem, as one line."""
        of_all = [text for text in (self.problem, self.mismatch) if text]
        return of_all + [f"{f.name}: {f.problem}" for f in self.runs if f.problem]


def is_running(stored: StoredRun) -> bool:
    """Whether a process executes a run."""
    return stored.record.state is State.RUNNING


Planned = Mapping[str, tuple[Configuration, RunSpec]]
_ReadAhead = tuple[Stamp | None, StoredRun, bool]
"""A run with its stamp from before the reading, and whether it has its planned specification."""
WORTH_FORKING = 500
"""Runs to read from their files from which on two processes read them."""


@dataclass(slots=True)
class ScanMemory:
    """What a process has read of an experiment, for its next scan.

    Attributes:
        runs: The ended runs with their curves.
        sums: The sums of their files.
        lasting: Whether there is a next scan; otherwise, only the sums are kept.
    """

    runs: RememberedRuns[StoredRun] = field(default_factory=RememberedRuns)
    sums: FileSums = field(default_factory=FileSums)
    lasting: bool = True
    _definition: tuple[Experiment, Planned] | None = None

    def definition(self, experiment: Experiment) -> tuple[Experiment, Planned]:
        """An experiment and its planned runs; equal experiments are one object."""
        if self._definition is None or self._definition[0] != experiment:
            self._definition = experiment, _planned(experiment)
        return self._definition


def mismatch_text(experiment: str, runs: Sequence[str], *, ledger_is_broken: bool) -> str | None:
    """What differs from the ledger of an experiment, on one line; None where nothing does."""
    verb = "differs" if len(runs) == 1 else "differ"
    number = format_count(len(runs), "run")
    parts = [f"{number} {verb} from the ledger ({join_first_names(runs, 3)})"] if runs else []
    parts += ["the ledger itself was changed"] if ledger_is_broken else []
    command = shlex.join(["rlexp", "verify", experiment])
    return f"{' and '.join(parts)}; '{command}' says what" if parts else None


def run_mismatch(run: RunPaths) -> str | None:
    """What of a run differs from the ledger of its experiment, on one line."""
    experiment = ExperimentPaths(run.folder.parent)
    records = ChangedRecords(experiment)
    names = [run.folder.name] if records.of(run) else []
    return mismatch_text(experiment.name, names, ledger_is_broken=records.broken)


@collector_paused()
def survey(
    paths: ExperimentPaths,
    *,
    brief: bool = False,
    catalogued: bool = False,
    in_place: bool = True,
    memory: ScanMemory | None = None,
    measured: Callable[[Configuration, RunSpec], bool] | None = None,
) -> ExperimentScan:
    """Read an experiment's folder; unreadable files are reported as problems, never raised.

    Planned runs are those of the phases that have a run on disk, or of the test phase where none
    has.

    Args:
        paths: The experiment.
        brief: Whether records without curves suffice, which come from the catalogue. For a sweep
            they do not: its trials are judged by their curves.
        catalogued: Whether records with curves may come from the catalogue too. Without this, and
            without `brief`, every journal is read.
        in_place: Whether the catalogue may be written into the folder of the experiment.
        memory: What this process read of the experiment before; it is used for full records
            without measurements.
        measured: Whether what the learner of a planned run logged is read too, which is most of a
            journal; None for no run. Records in brief hold none of it.
    """
    experiment, planned, problem = _read_definition(paths, memory)
    catalogue = catalogue_of(paths, in_place=in_place)
    in_brief = brief and (experiment is None or experiment.sweep is None)
    from_catalogue = brief or catalogued
    if memory:
        catalogue.records.sum_of = memory.sums.of
    logged = {name for name, pair in planned.items() if measured is not None and measured(*pair)}
    read = _reader(
        catalogue, logged, memory, brief=in_brief, catalogued=from_catalogue and not in_brief
    )
    try:
        on_disk = paths.runs(catalogue.holds)
        begun = _ReadingBeside(catalogue, planned, logged, memory.sums if memory else FileSums())
        # A process with a memory that lasts has threads, and reads new runs only.
        forked = from_catalogue and not (in_brief or (memory and memory.lasting))
        runs = {
            run.folder.name: _look(run, planned, experiment, read)
            for run in begun.in_order(on_disk, forked=forked)
        }
    except RecordError as error:
        runs, problem = {}, _describe_error(error, paths.folder)
    # A process with a memory that lasts looks again and again, and has read the rest.
    if in_brief or (from_catalogue and not (memory and memory.lasting)):
        catalogue.save(complete=True)
    entered = from_catalogue and all(map(catalogue.has_entered, runs))
    runs |= _unstarted(paths, experiment, planned, runs)
    return ExperimentScan(
        paths=paths,
        experiment=experiment,
        runs=_as_planned(runs.values(), planned),
        problem=problem,
        ledger_is_broken=catalogue.records.broken,
        all_entered=entered,
    )


def _read_definition(
    paths: ExperimentPaths, memory: ScanMemory | None
) -> tuple[Experiment | None, Planned, str | None]:
    """The experiment and its planned runs, or why its definition cannot be read."""
    try:
        experiment = read_experiment(paths)
        pair = memory.definition(experiment) if memory else (experiment, _planned(experiment))
    except (RlexpError, *READ_ERRORS) as error:
        return None, {}, _describe_error(error, paths.folder)
    return *pair, None


def _as_planned(runs: Iterable[ScannedRun], planned: Planned) -> tuple[ScannedRun, ...]:
    """Runs in the order of the plan; those that are not planned come last, by name."""
    order = {name: position for position, name in enumerate(planned)}
    return tuple(sorted(runs, key=lambda f: (order.get(f.name, len(order)), f.name)))


def _unstarted(
    paths: ExperimentPaths,
    experiment: Experiment | None,
    planned: Planned,
    runs: Mapping[str, ScannedRun],
) -> dict[str, ScannedRun]:
    """The planned runs without a folder, of the phases that have a run on disk, or of the test phase."""
    phases = {s.record.spec.phase for f in runs.values() if f.planned and (s := f.stored)}
    return {
        name: ScannedRun(
            name=name,
            configuration=configuration,
            stored=StoredRun(paths.run(name), RunRecord(spec=spec)),
            planned=True,
        )
        for name, (configuration, spec) in planned.items()
        if name not in runs
        and not _is_open(spec.phase, experiment)
        and spec.phase in (phases or {Phase.TEST})
    }


def _reader(
    catalogue: Catalogue,
    measured: Container[str],
    memory: ScanMemory | None,
    *,
    brief: bool,
    catalogued: bool,
) -> Callable[[RunPaths, RunSpec | None], StoredRun]:
    """How a run is read: in brief from the catalogue, or with its curves.

    Args:
        catalogue: The catalogue of the experiment.
        measured: The runs of which measurements are read too; of a run in brief, none are.
        memory: What this process read before.
        brief: Whether records without curves suffice.
        catalogued: Whether curves may come from the catalogue.
    """
    if brief:
        return lambda run, spec: catalogue.look(run, read_intact, spec)

    def in_full(run: RunPaths, spec: RunSpec | None) -> StoredRun:
        logged = run.folder.name in measured
        if not catalogued:
            return catalogue.compare(_from_files(run, spec, logged=logged))
        read = partial(_from_files, spec=spec, logged=logged)
        return catalogue.look_in_full(run, read, spec, logged=logged)

    def remembered(run: RunPaths, spec: RunSpec | None) -> StoredRun:
        if memory is None or not memory.lasting or run.folder.name in measured:
            return in_full(run, spec)
        return catalogue.compare(_remembered(run, spec, memory, in_full))

    return remembered


def _from_files(run: RunPaths, spec: RunSpec | None, *, logged: bool) -> StoredRun:
    return _sharing(read_intact(run, measurements=logged), spec)


@dataclass(frozen=True, slots=True)
class _ReadingBeside:
    """Reads half of the runs in a fork of this process, where most are read from their files.

    Attributes:
        catalogue: The catalogue, which the fork reads and this process fills.
        planned: The planned runs by name.
        measured: The runs of which measurements are read too.
        sums: The sums of files, to which those of the fork are added.
    """

    catalogue: Catalogue
    planned: Planned
    measured: Container[str]
    sums: FileSums

    def in_order(self, runs: Sequence[RunPaths], *, forked: bool) -> Iterator[RunPaths]:
        """The runs in their order; before the second half, what the fork has read is in place."""
        logged = any(run.folder.name in self.measured for run in runs)
        few = not forked or self.catalogue.lacks(len(runs), logged=logged) < WORTH_FORKING
        if few:
            yield from runs
            return
        self.catalogue.records.read_ahead()
        middle = len(runs) // 2
        with beside(lambda: self._read(runs[middle:])) as fork:
            yield from runs[:middle]
            ahead, sums = fork.result()
            self.sums.add(sums)
            for name, (before, stored, as_planned) in ahead.items():
                spec = self.planned[name][1] if as_planned else stored.record.spec
                record = replace(stored.record, spec=spec)
                self.catalogue.ahead[name] = before, replace(stored, record=record)
            yield from runs[middle:]

    def _read(self, runs: Sequence[RunPaths]) -> tuple[dict[str, _ReadAhead], FileSums]:
        """What is read of some runs, by name; those that cannot be read are left out."""
        ahead: dict[str, _ReadAhead] = {}
        first: RunSpec | None = None
        for run in runs:
            name = run.folder.name
            _, spec = self.planned.get(name, (None, None))
            logged = name in self.measured
            with suppress(RlexpError, *READ_ERRORS):
                read = partial(_from_files, spec=spec, logged=logged)
                from_files = self.catalogue.read_ahead(run, read, spec, logged=logged)
                if from_files is not None:
                    before, stored = from_files
                    as_planned = stored.record.spec is spec
                    first = first or stored.record.spec
                    if as_planned:
                        # One specification for all: it is sent once, and replaced on arrival.
                        stored = replace(stored, record=replace(stored.record, spec=first))
                    ahead[name] = before, stored, as_planned
        return ahead, self.sums


def configuration_of(paths: RunPaths, spec: RunSpec) -> Configuration:
    """The configuration of a run from its experiment, or one made from its specification."""
    try:
        configurations = read_experiment(ExperimentPaths(paths.folder.parent)).configurations
        matches = [c for c in configurations if c.fingerprint == spec.fingerprint]
    except (RlexpError, *READ_ERRORS):
        matches = []
    return matches[0] if matches else _unlabelled(spec)


def _planned(experiment: Experiment) -> Planned:
    """Every run that is planned or may be, by name; of trials that share a run, the first one's."""
    pairs = [pair for phase in Phase for pair in experiment.specs(phase)]
    if _is_open(Phase.SELECTION, experiment):
        pairs += replace(experiment, finalists=experiment.trials).specs(Phase.SELECTION)
    planned: dict[str, tuple[Configuration, RunSpec]] = {}
    for configuration, spec in pairs:
        planned.setdefault(spec.name, (configuration, spec))
    return planned


def _is_open(phase: Phase, experiment: Experiment | None) -> bool:
    """Whether a sweep decides only during its search which runs a phase has."""
    if experiment is None or experiment.sweep is None:
        return False
    return phase is Phase.TUNING or (phase is Phase.SELECTION and not experiment.finalists)


def _look(
    paths: RunPaths,
    planned: Planned,
    experiment: Experiment | None,
    read: Callable[[RunPaths, RunSpec | None], StoredRun],
) -> ScannedRun:
    name = paths.folder.name
    configuration, spec = planned.get(name, (None, None))
    try:
        stored = _sharing(read(paths, spec), spec)
        configuration = configuration or _unlabelled(stored.record.spec)
    except (RlexpError, *READ_ERRORS) as error:
        return ScannedRun(
            name=name,
            configuration=configuration,
            stored=StoredRun(paths, RunRecord(spec=spec)) if spec else None,
            planned=spec is not None,
            problem=_describe_error(error, paths.folder),
            damaged=True,
        )
    return ScannedRun(
        name=name,
        configuration=configuration,
        stored=stored,
        planned=spec is not None,
        problem=_problem(stored, foreign=experiment is not None and spec is None),
    )


def _remembered(
    paths: RunPaths,
    spec: RunSpec | None,
    memory: ScanMemory,
    read: Callable[[RunPaths, RunSpec | None], StoredRun],
) -> StoredRun:
    """A run from the memory if it holds it; what differs from the ledger is not remembered."""
    return memory.runs.recall(
        paths, spec, lambda: replace(read(paths, spec), changed=()), lambda s: s.record.is_over
    )


def _sharing(stored: StoredRun, spec: RunSpec | None) -> StoredRun:
    """The run; equal specifications are shared, to save memory where there are thousands of runs."""
    present = stored.record.spec
    if spec is None or present is spec or repr(present) != repr(spec):
        return stored
    return replace(stored, record=replace(stored.record, spec=spec))


def read_now(paths: RunPaths, *, measurements: bool = False) -> StoredRun:
    """Read a run; a running one gets its current step instead of that of its last event.

    Args:
        paths: The files of the run.
        measurements: Whether to read what its learner logged too.

    Raises:
        RecordError: The run is damaged.
    """
    stored = read_measured_run(paths) if measurements else read_run(paths)
    if stored.record.state is not State.RUNNING:
        return stored
    from rlexp.engine.run_in_flight import read_progress

    step, _ = read_progress(paths.attempts()[-1].progress)
    record = replace(stored.record, step=max(step, stored.record.step))
    return replace(stored, record=record)


def with_measurements(stored: StoredRun) -> RunRecord:
    """The record of a run with what its learner logged; unchanged where that cannot be read.

    Nothing else of the record changes. Other commands leave measurements out, because there are
    many, and a number must be the same for all of them.
    """
    try:
        read = read_run(stored.paths, stored.record.spec, measurements=True)
    except (RlexpError, *READ_ERRORS):
        return stored.record
    return replace(stored.record, measurements=read.record.measurements)


def read_intact(paths: RunPaths, *, measurements: bool = False) -> StoredRun:
    """Read a run and check that its content makes sense.

    Args:
        paths: The files of the run.
        measurements: Whether to read what its learner logged too.

    Raises:
        RecordError: The content is damaged; the errors in `READ_ERRORS` may be raised as well.
    """
    stored = read_now(paths, measurements=measurements)
    name = stored.record.spec.name
    if name != paths.folder.name:
        raise RecordError(f"the folder holds run {name}: it was copied or renamed")
    _ = stored.record.score  # a score that cannot be computed is damage too
    return stored


def _problem(stored: StoredRun, *, foreign: bool) -> str | None:
    running = stored.record.state is State.RUNNING
    # A running process may be about to complete its last line.
    unreadable = stored.quarantined + (0 if running else stored.torn)
    problems = []
    if unreadable:
        lines = "line" if unreadable == 1 else "lines"
        problems.append(f"{unreadable} {lines} of its journal cannot be read")
    if foreign:
        problems.append("the experiment's definition does not include it")
    return "; ".join(problems) or None


def _unlabelled(spec: RunSpec) -> Configuration:
    return Configuration(
        label=short_name(spec.algorithm),
        task=str(spec.environment.get("id", "unknown")),
        agent=spec.agent,
        algorithm=spec.algorithm,
        environment=spec.environment,
        reference={},
        budget=Budget(**spec.budget),
        compute=Compute(**spec.compute),
        code=spec.code,
        callback=spec.callback,
        replay=spec.replay,
        dataset=spec.dataset,
    )


def _describe_error(error: Exception, folder: Path) -> str:
    """The error as text, with the paths of files relative to the folder."""
    text = str(error) if isinstance(error, RlexpError) else f"its records are damaged: {error!r}"
    return text.replace(f"{folder}{os.sep}", "")
