"""Reads and writes experiments, runs, attempts and their records under `runs/`."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, get_args

from rlexp.errors import ConfigError, RecordError
from rlexp.protocol.experiment import Experiment, Extension, Failures
from rlexp.protocol.origin import Origin
from rlexp.protocol.schema_1 import ConfigurationSchema1, RunSpecSchema1, named_part
from rlexp.protocol.seeds import INDICES, Phase, SeedPlan
from rlexp.protocol.spec import RunSpec
from rlexp.protocol.sweep import Sweep
from rlexp.records.events import Ending, Event, RunEnded, StopRequest, from_plain, to_plain
from rlexp.records.run import RunRecord
from rlexp.store.configurations import read_configuration
from rlexp.store.file_systems import is_shared
from rlexp.store.files import publish, publish_json, read_document, read_json, refuse_link
from rlexp.store.journal import read_journal
from rlexp.store.layout import AttemptPaths, ExperimentPaths, RunPaths
from rlexp.store.locks.fencing import Fence, read_fence, superseded
from rlexp.store.locks.lease import holder, is_held
from rlexp.store.registers.ledger import publish_document
from rlexp.store.registers.scorings import with_scoring
from rlexp.store.schemas import SPEC
from rlexp.store.sweeps import check_phase, read_selection, read_trials, with_trials

SEARCHING = ("tuner", "pruner")
"""Groups of plug-ins that only a sweep has."""
CANCELLED = "cancelled by the user"
"""The reason of a stop request that `rlexp cancel` makes."""
STOP_REASON = "the run was asked to end"
"""The reason of a stop request that gives no reason, or cannot be read."""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run with its record and the numbers of its unreadable journal lines.

    Attributes:
        paths: The files of the run.
        record: The record folded from its journals.
        torn: Journals whose last line is incomplete.
        quarantined: Damaged lines before the last ones.
        changed: Files that differ from the ledger, where they were compared with it.
        provenance: The content of the last attempt's `provenance.json`; None where it was not read.
    """

    paths: RunPaths
    record: RunRecord
    torn: int = 0
    quarantined: int = 0
    changed: tuple[str, ...] = ()
    provenance: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class StoredAttempt:
    """An attempt with its events, its verdict included, and its unreadable journal lines.

    Attributes:
        paths: The files of the attempt.
        events: Its events.
        torn: 1 where the last line of the journal is incomplete.
        quarantined: Damaged lines before the last one.
        logged: Positions in `events` of the learner's own measurements.
        quarantined_logged: Damaged lines that begin as measurements do.
    """

    paths: AttemptPaths
    events: list[Event]
    torn: int
    quarantined: int
    logged: Sequence[int] = ()
    quarantined_logged: int = 0

    def without_measurements(self) -> "StoredAttempt":
        """The attempt as it reads without the learner's own measurements."""
        logged = set(self.logged)
        return replace(
            self,
            events=[event for at, event in enumerate(self.events) if at not in logged],
            quarantined=self.quarantined - self.quarantined_logged,
            logged=(),
            quarantined_logged=0,
        )


def write_experiment(paths: ExperimentPaths, experiment: Experiment) -> None:
    """Publish the definition of an experiment; a sweep's holds its defaults only.

    Raises:
        RecordError: The experiment was read from a file of an older schema.
    """
    _check_schema(experiment.schema, f"experiment {experiment.name}")
    # The trials of a sweep stand in `trials.jsonl`: a definition never changes.
    defined = experiment.configurations if experiment.sweep is None else experiment.defaults
    document: dict[str, Any] = {
        "name": experiment.name,
        "configurations": [c.plain() for c in defined],
        "failures": experiment.failures,
        "seeds": asdict(experiment.seeds),
        "allotted": dict(experiment.allotted),
    }
    if experiment.sweep is not None:
        document["sweep"] = experiment.sweep.plain()
    if experiment.imported is not None:
        document["imported"] = {key: list(seeds) for key, seeds in experiment.imported.items()}
    if experiment.origin is not None:
        document["origin"] = experiment.origin.plain()
    if experiment.extends is not None:
        document["extends"] = experiment.extends.plain()
    publish_document(paths, paths.definition, document)


def read_experiment(paths: ExperimentPaths) -> Experiment:
    """Read the definition of an experiment, with the trials and the winner of a sweep.

    Raises:
        RecordError: The definition is missing or damaged.
    """
    experiment = read_definition(paths)
    if experiment.sweep is None:
        return experiment
    return with_trials(experiment, read_trials(paths), read_selection(paths))


def read_definition(paths: ExperimentPaths) -> Experiment:
    """Read the definition of an experiment, without the trials of a sweep.

    Raises:
        RecordError: The definition is missing or damaged.
    """
    schema, document = read_document(paths.definition)
    try:
        return Experiment(
            name=paths.name,
            configurations=tuple(
                read_configuration(c, schema) for c in document["configurations"]
            ),
            seeds=_seed_plan(document["seeds"]),
            failures=_failures(document["failures"]),
            allotted={str(k): int(n) for k, n in document.get("allotted", {}).items()},
            sweep=_sweep(document["sweep"], schema) if document.get("sweep") else None,
            imported=_imported(document.get("imported")),
            origin=Origin.from_plain(document["origin"]) if document.get("origin") else None,
            extends=Extension.from_plain(document["extends"]) if document.get("extends") else None,
        )
    except (KeyError, TypeError, ValueError, AttributeError, ConfigError) as error:
        raise RecordError(f"{paths.definition} is damaged: {error!r}") from error


def _sweep(document: Mapping[str, Any], schema: int) -> Sweep:
    if schema == ConfigurationSchema1.schema:
        document = {
            **document,
            **{group: named_part(document[group], group) for group in SEARCHING},
        }
    return Sweep.from_plain(document)


def _seed_plan(document: Mapping[str, Any]) -> SeedPlan:
    """The seeds of a definition; only whole numbers, because seeds become names of folders."""
    lists = {phase: document[phase] for phase in Phase}
    for value in (document["root"], *lists.values()):
        for seed in value if isinstance(value, list) else (value,):
            if type(seed) is not int or seed < 0:
                raise ValueError(f"seed {seed!r} must be a whole number, 0 or more")
    if any(seeds > INDICES for seeds in lists.values() if isinstance(seeds, int)):
        raise ValueError(f"a phase has at most {INDICES:,} seeds")
    tuples = {p: tuple(s) if isinstance(s, list) else s for p, s in lists.items()}
    return SeedPlan(root=document["root"], **tuples)


def _imported(document: Mapping[str, Any] | None) -> dict[str, tuple[int, ...]] | None:
    if document is None:
        return None
    return {str(key): tuple(int(seed) for seed in seeds) for key, seeds in document.items()}


def _failures(value: Any) -> Failures:
    if value not in get_args(Failures):
        raise ValueError(f"failures={value!r} must be one of {', '.join(get_args(Failures))}")
    rule: Failures = value
    return rule


def write_run(paths: RunPaths, spec: RunSpec) -> None:
    """Publish the definition of a run; an existing definition of the same run stays as it is.

    A definition that is unreadable or belongs to another run is replaced. So is that of a run
    without an attempt whose classes have moved to other modules since it was planned.

    Raises:
        ProtocolError: The run is a test run of a sweep without a winner, or a tuning run of a
            sweep that has chosen its winner.
        RecordError: A folder of the run is a link, or the run is of an older schema.
    """
    for path in (paths.folder, paths.folder / "attempts", paths.checkpoints, paths.replay):
        refuse_link(path)
    if not _holds(paths, spec):
        _check_schema(spec.schema, f"run {spec.name}")
        check_phase(ExperimentPaths(paths.folder.parent), spec)
        publish_json(paths.spec, {"id": spec.id, **spec.plain()})


def _check_schema(schema: int, what: str) -> None:
    if schema != SPEC.version:
        raise RecordError(f"{what} is of schema {schema}, which this version of rlexp only reads")


def _holds(paths: RunPaths, spec: RunSpec) -> bool:
    try:
        if not paths.spec.exists():
            return False
        existing = read_spec(paths)
        # Equal ids with other content: only Python paths differ. After an attempt they stay.
        return existing.id == spec.id and (
            existing.plain() == spec.plain() or bool(paths.attempts())
        )
    except RecordError:
        return False


def read_spec(paths: RunPaths) -> RunSpec:
    """Read the definition of a run.

    Raises:
        RecordError: The file is missing or damaged, or its content does not match its id.
    """
    schema, document = read_document(paths.spec)
    kind = RunSpecSchema1 if schema == RunSpecSchema1.schema else RunSpec
    try:
        spec = kind.from_plain(document)
        changed = spec.id != document.get("id")
    except (KeyError, ValueError, TypeError) as error:
        raise RecordError(f"{paths.spec} is damaged: {error!r}") from error
    if changed:
        raise RecordError(f"{paths.spec} was changed: its content no longer has its id")
    return spec


def read_run(
    paths: RunPaths,
    spec: RunSpec | None = None,
    *,
    measurements: bool = False,
) -> StoredRun:
    """Read a run and fold the journals of its attempts into its record.

    Args:
        paths: The files of the run.
        spec: The definition of the run, if the caller has read it already.
        measurements: Whether to read the learner's own measurements.

    Raises:
        RecordError: The run's spec is missing or damaged, or its events contradict each other.
    """
    spec = spec or read_spec(paths)
    attempts, alive = _read_with_holder(paths, measurements=measurements)
    return _folded(paths, spec, attempts, alive=alive)


def read_measured_run(paths: RunPaths) -> StoredRun:
    """The run as `read_run` reads it, and what its learner logged; journals are read once.

    Measurements change nothing else of the record. They are left out where they cannot be read.

    Raises:
        RecordError: As of `read_run`.
    """
    spec = read_spec(paths)
    try:
        attempts, alive = _read_with_holder(paths, measurements=True)
        measured = _folded(paths, spec, attempts, alive=alive).record.measurements
    except RecordError:
        return read_run(paths, spec)
    others = [attempt.without_measurements() for attempt in attempts]
    if any(sum(isinstance(e, RunEnded) for e in attempt.events) > 1 for attempt in others):
        # A measurement behind the end of a journal lets the verdict count, which it must not.
        stored = read_run(paths, spec)
    else:
        stored = _folded(paths, spec, others, alive=alive)
    return replace(stored, record=replace(stored.record, measurements=measured))


def _folded(
    paths: RunPaths, spec: RunSpec, attempts: Sequence[StoredAttempt], *, alive: bool
) -> StoredRun:
    events = [attempt.events for attempt in attempts]
    if spec.is_of_candidate:
        # The code of a candidate has trained the run: what it says of its own score never counts.
        events = [with_scoring(paths, each) for each in events]
    try:
        record = RunRecord.fold(spec, events, alive=alive)
    except (TypeError, ValueError, ArithmeticError) as error:
        # A line can have the form of an event and hold an impossible value, such as a negative step.
        raise RecordError(f"the records of run {spec.name} are damaged: {error!r}") from error
    torn = sum(attempt.torn for attempt in attempts)
    return StoredRun(paths, record, torn, sum(attempt.quarantined for attempt in attempts))


def is_taken(paths: RunPaths) -> bool:
    """Whether a process executes a run, or is about to begin an attempt at it."""
    # An attempt has a claim before it has a lease: its process imports packages first.
    return is_held(paths.lease) or is_held(paths.claim)


def _read_with_holder(paths: RunPaths, *, measurements: bool) -> tuple[list[StoredAttempt], bool]:
    """The attempts of a run, and whether a process executes the last one."""
    attempts = read_attempts(paths, measurements=measurements)
    # The journals are read first, because most runs have ended and then need no look at leases.
    while attempts and not _ended(attempts[-1].events):
        if is_taken(paths):
            return attempts, True
        # Read again: the attempt may have ended between the reading and the look at the leases.
        again = read_attempts(paths, measurements=measurements)
        # Journals only grow. Their events are not compared: a NaN among them equals nothing.
        if list(map(_length, again)) == list(map(_length, attempts)):
            break
        attempts = again
    return attempts, False


def _length(attempt: StoredAttempt) -> tuple[int, int]:
    return attempt.paths.number, len(attempt.events)


def read_attempts(paths: RunPaths, *, measurements: bool = False) -> list[StoredAttempt]:
    """Read the journals of a run's attempts, lowest number first.

    Whatever an attempt wrote after the next attempt was made is left out (see `fences`).

    Raises:
        RecordError: A journal cannot be read.
    """
    stored, attempts = [], paths.attempts()
    for attempt, following in zip_longest(attempts, attempts[1:]):
        fence = read_fence(attempt, following)
        most = fence.bytes if fence else None
        journal = read_journal(attempt.journal, measurements=measurements, most=most)
        # A verdict that came after the next attempt began is as late as a late journal line.
        judged = fence is None or fence.judged
        events = _with_verdict(journal.events, attempt) if judged else journal.events
        stored.append(
            StoredAttempt(
                attempt,
                events,
                journal.torn,
                journal.quarantined,
                journal.logged,
                journal.quarantined_logged,
            )
        )
    return stored


def new_attempt(
    paths: RunPaths,
    settings: Mapping[str, Any],
    provenance: Mapping[str, Any],
    patch: str,
) -> AttemptPaths:
    """Create the folder of the next attempt; every number is given once.

    From now on, nothing that the previous attempt writes counts any more. A stop request that no
    earlier attempt has read is removed.

    Args:
        paths: The run.
        settings: Settings of the attempt besides the run.
        provenance: Code, command, packages and machine of the attempt.
        patch: Uncommitted changes to the code, or an empty text.
    """
    earlier = paths.attempts()
    attempt = paths.attempt(earlier[-1].number + 1 if earlier else 1)
    paths.stop.unlink(missing_ok=True)
    # `mkdir` fails where the folder exists: of two processes, only one gets the number.
    attempt.folder.mkdir(parents=True)
    # The fence is measured after the folder exists: a process of the previous attempt checks for
    # the folder before it writes, so that a line written before that check still counts.
    before = Fence.of(earlier[-1]).plain() if earlier else {}
    publish_json(attempt.settings, {**settings, **before})
    publish_json(attempt.provenance, provenance)
    if patch:
        publish(attempt.patch, patch.encode())
    return attempt


def write_verdict(attempt: AttemptPaths, event: RunEnded) -> None:
    """Record how an attempt ended whose process died; does nothing for a superseded attempt."""
    if superseded(attempt) is None:
        publish_json(attempt.verdict, to_plain(event))


def other_user(paths: RunPaths) -> str | None:
    """The process that executes a run and keeps its lease, as text; None without such a process.

    In a shared folder there is none: a new attempt takes the lease over.
    """
    if is_shared(paths.lease) or not is_held(paths.lease):
        return None
    return holder(paths.lease)


def request_stop(paths: RunPaths, request: StopRequest) -> None:
    """Ask a run to end at its next step."""
    rung = {} if request.rung is None else {"rung": request.rung}
    publish_json(paths.stop, {"ending": str(request.ending), "reason": request.reason, **rung})


def read_stop(paths: RunPaths) -> StopRequest:
    """The stop request of a run; an unreadable file counts as a request to end."""
    try:
        document = read_json(paths.stop)
        rung = document.get("rung")
        return StopRequest(
            Ending(document["ending"]),
            str(document["reason"]),
            None if rung is None else int(rung),
        )
    except (RecordError, KeyError, ValueError, TypeError):
        return StopRequest(Ending.INTERRUPTED, STOP_REASON)


def _with_verdict(events: list[Event], attempt: AttemptPaths) -> list[Event]:
    # The journal has priority: the process knew better how it ended than the one that watched it.
    if _ended(events) or not attempt.verdict.exists():
        return events
    try:
        return [*events, from_plain(read_json(attempt.verdict))]
    except RecordError:
        return events


def _ended(events: list[Event]) -> bool:
    return bool(events) and isinstance(events[-1], RunEnded)


def folder_size(folder: Path) -> int:
    """Total size in bytes of the files below `folder`."""
    return sum(p.lstat().st_size for p in folder.rglob("*") if not p.is_dir())
