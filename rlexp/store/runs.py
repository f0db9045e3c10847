"""What `runs/` holds: experiments, runs, attempts and their records."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, get_args

from rlexp.errors import ConfigError, RecordError
from rlexp.protocol.experiment import Experiment, Failures
from rlexp.protocol.schema_1 import FirstConfiguration, FirstRunSpec, named_part
from rlexp.protocol.seeds import INDICES, Phase, SeedPlan
from rlexp.protocol.spec import RunSpec
from rlexp.protocol.sweep import Sweep
from rlexp.records.events import Ending, Event, RunEnded, StopRequest, from_plain, to_plain
from rlexp.records.run import RunRecord
from rlexp.store.configurations import read_configuration
from rlexp.store.fences import Fence, read_fence, superseded
from rlexp.store.files import publish, publish_json, read_document, read_json, refuse_link
from rlexp.store.journal import read_journal
from rlexp.store.layout import AttemptPaths, ExperimentPaths, RunPaths
from rlexp.store.lease import is_held
from rlexp.store.ledger import publish_document
from rlexp.store.schemas import SPEC
from rlexp.store.sweeps import check_phase, read_selection, read_trials, with_trials

SEARCHING = ("tuner", "pruner")
"""Plug-ins of a sweep."""
ASKED_TO_END = "the run was asked to end"
"""Why a run ends that nobody gave a better reason."""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run in its folder, and what reading it met."""

    paths: RunPaths
    record: RunRecord
    torn: int = 0
    quarantined: int = 0


@dataclass(frozen=True, slots=True)
class StoredAttempt:
    """An attempt in its folder: its events with its verdict, and the lines that are unreadable."""

    paths: AttemptPaths
    events: list[Event]
    torn: int
    quarantined: int


def write_experiment(paths: ExperimentPaths, experiment: Experiment) -> None:
    """Publish the question. Of a sweep's configurations, the default is part of it.

    Raises:
        RecordError: It was read from a file of an older schema.
    """
    _check_schema(experiment.schema, f"experiment {experiment.name}")
    asked = experiment.configurations if experiment.sweep is None else (experiment.default,)
    plain: dict[str, Any] = {
        "name": experiment.name,
        "configurations": [c.plain() for c in asked],
        "failures": experiment.failures,
        "seeds": asdict(experiment.seeds),
        "allotted": dict(experiment.allotted),
    }
    if experiment.sweep is not None:
        plain["sweep"] = experiment.sweep.plain()
    if experiment.imported is not None:
        plain["imported"] = {key: list(seeds) for key, seeds in experiment.imported.items()}
    publish_document(paths, paths.definition, plain)


def read_experiment(paths: ExperimentPaths) -> Experiment:
    """Read the question, and of a sweep the trials and the winner that were found.

    Raises:
        RecordError: There is none, or it is damaged.
    """
    experiment = read_definition(paths)
    if experiment.sweep is None:
        return experiment
    return with_trials(experiment, read_trials(paths), read_selection(paths))


def read_definition(paths: ExperimentPaths) -> Experiment:
    """Read the question as it was written.

    Raises:
        RecordError: There is none, or it is damaged.
    """
    schema, plain = read_document(paths.definition)
    try:
        return Experiment(
            name=paths.name,
            configurations=tuple(read_configuration(c, schema) for c in plain["configurations"]),
            seeds=_seed_plan(plain["seeds"]),
            failures=_failures(plain["failures"]),
            allotted={str(k): int(n) for k, n in plain.get("allotted", {}).items()},
            sweep=_sweep(plain["sweep"], schema) if plain.get("sweep") else None,
            imported=_imported(plain.get("imported")),
        )
    except (KeyError, TypeError, ValueError, AttributeError, ConfigError) as error:
        raise RecordError(f"{paths.definition} is damaged: {error!r}") from error


def _sweep(plain: Mapping[str, Any], schema: int) -> Sweep:
    if schema == FirstConfiguration.schema:
        plain = {**plain, **{group: named_part(plain[group], group) for group in SEARCHING}}
    return Sweep.from_plain(plain)


def _seed_plan(plain: Mapping[str, Any]) -> SeedPlan:
    """Seeds as written: they become names of folders, so that nothing but numbers may be there."""
    lists = {phase: plain[phase] for phase in Phase}
    for value in (plain["root"], *lists.values()):
        for seed in value if isinstance(value, list) else (value,):
            if type(seed) is not int or seed < 0:
                raise ValueError(f"seed {seed!r} is no whole number from 0 on")
    if any(seeds > INDICES for seeds in lists.values() if isinstance(seeds, int)):
        raise ValueError(f"a phase has at most {INDICES:,} seeds")
    tuples = {p: tuple(s) if isinstance(s, list) else s for p, s in lists.items()}
    return SeedPlan(root=plain["root"], **tuples)


def _imported(plain: Mapping[str, Any] | None) -> dict[str, tuple[int, ...]] | None:
    if plain is None:
        return None
    return {str(key): tuple(int(seed) for seed in seeds) for key, seeds in plain.items()}


def _failures(word: Any) -> Failures:
    if word not in get_args(Failures):
        raise ValueError(f"failures={word!r}")
    rule: Failures = word
    return rule


def write_run(paths: RunPaths, spec: RunSpec) -> None:
    """Publish what defines the run; a run that is there already stays as it is.

    What is there and cannot be read, or is that of another run, is put right. So is a run without
    an attempt that is to be built from another place: a class was moved since it was planned.

    Raises:
        ProtocolError: It would be a test run of a sweep that has not chosen yet, or a tuning run
            of one that has.
        RecordError: What is there is a link, or the run is of an older schema.
    """
    for path in (paths.folder, paths.folder / "attempts", paths.checkpoints, paths.replay):
        refuse_link(path)
    if not _holds(paths, spec):
        _check_schema(spec.schema, f"run {spec.name}")
        check_phase(ExperimentPaths(paths.folder.parent), spec)
        publish_json(paths.spec, {"id": spec.id, **spec.plain()})


def _check_schema(schema: int, what: str) -> None:
    if schema != SPEC.version:
        raise RecordError(f"{what} is of schema {schema}, in which nothing is written any more")


def _holds(paths: RunPaths, spec: RunSpec) -> bool:
    try:
        if not paths.spec.exists():
            return False
        there = read_spec(paths)
        return there.id == spec.id and (there.plain() == spec.plain() or bool(paths.attempts()))
    except RecordError:
        return False


def read_spec(paths: RunPaths) -> RunSpec:
    """Read what defines the run.

    Raises:
        RecordError: It is missing, damaged, or not what its id says.
    """
    schema, plain = read_document(paths.spec)
    kind = FirstRunSpec if schema == FirstRunSpec.schema else RunSpec
    try:
        spec = kind.from_plain(plain)
        changed = spec.id != plain.get("id")
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
    """Fold the journals of a run's attempts.

    Raises:
        RecordError: The run's spec is missing or damaged, or its events make no sense.
    """
    spec = spec or read_spec(paths)
    attempts = read_attempts(paths, measurements=measurements)
    unended = bool(attempts) and not _ended(attempts[-1].events)
    alive = unended and is_held(paths.lease)
    try:
        record = RunRecord.fold(spec, [attempt.events for attempt in attempts], alive=alive)
    except (TypeError, ValueError, ArithmeticError) as error:
        # A line can be an event in form, and hold a value that no event has.
        raise RecordError(f"the records of run {spec.name} are damaged: {error!r}") from error
    torn = sum(attempt.torn for attempt in attempts)
    return StoredRun(paths, record, torn, sum(attempt.quarantined for attempt in attempts))


def read_attempts(paths: RunPaths, *, measurements: bool = False) -> list[StoredAttempt]:
    """Read the journals of a run's attempts, lowest number first.

    Of an attempt, what was written once the next one was made does not count.

    Raises:
        RecordError: A journal cannot be read.
    """
    read, attempts = [], paths.attempts()
    for attempt, following in zip_longest(attempts, attempts[1:]):
        fence = read_fence(attempt, following)
        most = fence.bytes if fence else None
        journal = read_journal(attempt.journal, measurements=measurements, most=most)
        judged = fence is None or fence.judged
        events = _with_verdict(journal.events, attempt) if judged else journal.events
        read.append(StoredAttempt(attempt, events, journal.torn, journal.quarantined))
    return read


def new_attempt(
    paths: RunPaths,
    settings: Mapping[str, Any],
    provenance: Mapping[str, Any],
    patch: str,
) -> AttemptPaths:
    """Make the folder of the next attempt; its number is granted once.

    Nothing that the attempt before it writes from now on counts any more. A request to stop that an
    earlier attempt did not live to see is taken back.

    Args:
        paths: The run.
        settings: What the attempt is asked for besides the run.
        provenance: Where its numbers come from.
        patch: Uncommitted changes to the code, or nothing.
    """
    earlier = paths.attempts()
    attempt = paths.attempt(earlier[-1].number + 1 if earlier else 1)
    paths.stop.unlink(missing_ok=True)
    attempt.folder.mkdir(parents=True)
    # Behind the folder: whoever does not see that has written what counts before.
    before = Fence.of(earlier[-1]).plain() if earlier else {}
    publish_json(attempt.settings, {**settings, **before})
    publish_json(attempt.provenance, provenance)
    if patch:
        publish(attempt.patch, patch.encode())
    return attempt


def write_verdict(attempt: AttemptPaths, event: RunEnded) -> None:
    """Say how an attempt ended whose process is gone without a word; of a later one, too late."""
    if superseded(attempt) is None:
        publish_json(attempt.verdict, to_plain(event))


def request_stop(paths: RunPaths, request: StopRequest) -> None:
    """Ask a run to end at its next step."""
    rung = {} if request.rung is None else {"rung": request.rung}
    publish_json(paths.stop, {"ending": str(request.ending), "reason": request.reason, **rung})


def read_stop(paths: RunPaths) -> StopRequest:
    """Read what a run is asked; what cannot be read asks it to end."""
    try:
        plain = read_json(paths.stop)
        rung = plain.get("rung")
        return StopRequest(
            Ending(plain["ending"]), str(plain["reason"]), None if rung is None else int(rung)
        )
    except (RecordError, KeyError, ValueError, TypeError):
        return StopRequest(Ending.INTERRUPTED, ASKED_TO_END)


def _with_verdict(events: list[Event], attempt: AttemptPaths) -> list[Event]:
    if _ended(events) or not attempt.verdict.exists():
        return events
    try:
        return [*events, from_plain(read_json(attempt.verdict))]
    except RecordError:
        return events


def _ended(events: list[Event]) -> bool:
    return bool(events) and isinstance(events[-1], RunEnded)


def folder_size(folder: Path) -> int:
    """Bytes in the files below `folder`."""
    return sum(p.lstat().st_size for p in folder.rglob("*") if not p.is_dir())
