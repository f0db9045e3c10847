"""What `runs/` holds: experiments, runs, attempts and their records."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import Any, get_args

from rlexp.errors import RecordError
from rlexp.protocol.budget import Budget, Compute
from rlexp.protocol.experiment import Configuration, Experiment, Failures
from rlexp.protocol.seeds import Phase, SeedPlan
from rlexp.protocol.spec import RunSpec
from rlexp.records.events import Event, RunEnded, from_plain, to_plain
from rlexp.records.run import RunRecord
from rlexp.store.files import publish, publish_json, read_json
from rlexp.store.journal import read_journal
from rlexp.store.layout import AttemptPaths, ExperimentPaths, RunPaths
from rlexp.store.lease import is_held


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
    """Publish the question."""
    seeds = asdict(experiment.seeds)
    plain = {
        "name": experiment.name,
        "configurations": [c.plain() for c in experiment.configurations],
        "failures": experiment.failures,
        "seeds": seeds,
        "allotted": dict(experiment.allotted),
    }
    publish_json(paths.definition, plain)


def read_experiment(paths: ExperimentPaths) -> Experiment:
    """Read the question.

    Raises:
        RecordError: There is none, or it is damaged.
    """
    plain = read_json(paths.definition)
    try:
        seeds = plain["seeds"]
        return Experiment(
            name=paths.name,
            configurations=tuple(_configuration(c) for c in plain["configurations"]),
            seeds=SeedPlan(
                root=seeds["root"],
                **{p: tuple(s) if isinstance(s := seeds[p], list) else s for p in Phase},
            ),
            failures=_failures(plain["failures"]),
            allotted={str(k): int(n) for k, n in plain.get("allotted", {}).items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RecordError(f"{paths.definition} is damaged: {error!r}") from error


def _configuration(plain: Mapping[str, Any]) -> Configuration:
    _check_words(plain["label"], plain["task"])
    _check_reference(plain["reference"])
    return Configuration(
        label=plain["label"],
        task=plain["task"],
        agent=plain["agent"],
        algorithm=plain["algorithm"],
        environment=plain["environment"],
        reference=plain["reference"],
        budget=Budget(**plain["budget"], checkpoint_every=None, timeout=None),
        compute=Compute(**plain["compute"]),
    )


def _failures(word: Any) -> Failures:
    if word not in get_args(Failures):
        raise ValueError(f"failures={word!r}")
    rule: Failures = word
    return rule


def _check_words(*words: Any) -> None:
    for word in words:
        if not isinstance(word, str) or not word.strip() or not word.isprintable():
            raise ValueError(f"{word!r} is no name")


def _check_reference(reference: Any) -> None:
    if not isinstance(reference, Mapping):
        raise TypeError(f"reference={reference!r} holds no known scores")
    for key, value in reference.items():
        number = isinstance(value, int | float) and isfinite(value)
        if key != "source" and value is not None and not number:
            raise ValueError(f"reference.{key}={value!r} is no number")


def write_run(paths: RunPaths, spec: RunSpec) -> None:
    """Publish what defines the run; a run that is there already stays as it is."""
    if not paths.spec.exists():
        publish_json(paths.spec, {"id": spec.id, **spec.plain()})


def read_spec(paths: RunPaths) -> RunSpec:
    """Read what defines the run.

    Raises:
        RecordError: It is missing, damaged, or not what its id says.
    """
    plain = read_json(paths.spec)
    try:
        spec = RunSpec.from_plain(plain)
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
        RecordError: The run's spec is missing or damaged.
    """
    spec = spec or read_spec(paths)
    attempts = read_attempts(paths, measurements=measurements)
    unended = bool(attempts) and not _ended(attempts[-1].events)
    record = RunRecord.fold(
        spec,
        [attempt.events for attempt in attempts],
        alive=unended and is_held(paths.lease),
    )
    torn = sum(attempt.torn for attempt in attempts)
    return StoredRun(paths, record, torn, sum(attempt.quarantined for attempt in attempts))


def read_attempts(paths: RunPaths, *, measurements: bool = False) -> list[StoredAttempt]:
    """Read the journals of a run's attempts, lowest number first.

    Raises:
        RecordError: A journal cannot be read.
    """
    read = []
    for attempt in paths.attempts():
        journal = read_journal(attempt.journal, measurements=measurements)
        events = _with_verdict(journal.events, attempt)
        read.append(StoredAttempt(attempt, events, journal.torn, journal.quarantined))
    return read


def new_attempt(
    paths: RunPaths,
    settings: Mapping[str, Any],
    provenance: Mapping[str, Any],
    patch: str,
) -> AttemptPaths:
    """Make the folder of the next attempt; its number is granted once.

    A request to stop that an earlier attempt did not live to see is taken back.

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
    publish_json(attempt.settings, settings)
    publish_json(attempt.provenance, provenance)
    if patch:
        publish(attempt.patch, patch.encode())
    return attempt


def write_verdict(attempt: AttemptPaths, event: RunEnded) -> None:
    """Say how an attempt ended whose process is gone without a word."""
    publish_json(attempt.verdict, to_plain(event))


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
