"""What a sweep's folder holds besides its runs: the trials proposed, and the choice."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from rlexp.errors import ConfigError, ProtocolError, RecordError
from rlexp.protocol.experiment import Configuration, Experiment
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.records.ledger import Prefix
from rlexp.records.selection import DEFAULT, Selection
from rlexp.store.configurations import read_configuration
from rlexp.store.files import append_line, parse_json, read_file, read_json
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.ledger import publish_document
from rlexp.store.schemas import TRIALS

TUNED_LABEL = "tuned"
DEFAULT_LABEL = "default"
MOST_STEPS = 10**15
"""No run trains for longer; sums over trials stay exact as floats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTrial:
    """A trial as it was proposed.

    Attributes:
        number: From 0.
        parameters: The values that it sets.
        steps: Environment steps of each of its runs.
        configuration: What it trains; nothing where it cannot be run.
        refused: Why it cannot.
        parent: The trial whose configuration it takes up again with more steps, if any.
        seconds: What it took to suggest it.
    """

    number: int
    parameters: Mapping[str, Any]
    steps: int
    configuration: Configuration | None
    refused: str | None = None
    parent: int | None = None
    seconds: float = 0.0

    def plain(self) -> dict[str, Any]:
        """What `trials.jsonl` says of it."""
        return {
            **TRIALS.head(),
            "number": self.number,
            "parameters": dict(self.parameters),
            "steps": self.steps,
            "configuration": self.configuration.plain() if self.configuration else None,
            "refused": self.refused,
            "parent": self.parent,
            "seconds": self.seconds,
        }


def append_trial(paths: ExperimentPaths, trial: StoredTrial) -> None:
    """Write a trial down, durably, before any run of it exists.

    Raises:
        ProtocolError: The sweep has chosen its winner; what comes now could not be chosen fairly.
        OSError: The disk is full or gone.
    """
    if paths.selection.exists():
        raise ProtocolError(f"{paths.name} has chosen its winner: it takes no further trial")
    text = json.dumps(trial.plain(), separators=(",", ":"), allow_nan=False)
    append_line(paths.trials, text.encode())


def read_trials(paths: ExperimentPaths) -> list[StoredTrial]:
    """The trials proposed so far, by number; a torn last line is none.

    Raises:
        RecordError: The file is damaged.
    """
    try:
        content = read_file(paths.trials)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RecordError(f"{paths.trials} cannot be read: {error.strerror}") from error
    lines = content.split(b"\n")[:-1]
    found = [_read_trial(paths, line) for line in lines]
    if [trial.number for trial in found] != list(range(len(found))):
        raise RecordError(f"{paths.trials} is damaged: its trials are not numbered 0, 1, 2, …")
    return found


def _read_trial(paths: ExperimentPaths, line: bytes) -> StoredTrial:
    try:
        plain = parse_json(line)
        schema = TRIALS.check(plain, paths.trials)
        configuration = plain["configuration"]
        return StoredTrial(
            number=int(plain["number"]),
            parameters=dict(plain["parameters"]),
            steps=_steps(plain["steps"]),
            configuration=read_configuration(configuration, schema) if configuration else None,
            refused=plain["refused"],
            parent=plain["parent"],
            seconds=float(plain["seconds"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, ConfigError) as error:
        raise RecordError(f"{paths.trials} is damaged: {error!r}") from error


def _steps(value: object) -> int:
    """Environment steps of a trial, which are few enough to be summed up."""
    if not isinstance(value, int) or not 0 < value <= MOST_STEPS:
        raise ValueError(f"{value!r:.40} environment steps")
    return value


def write_selection(paths: ExperimentPaths, selection: Selection) -> None:
    """Freeze the choice; it is made once, and not where a test run exists.

    Raises:
        ProtocolError: It was made before.
    """
    if paths.selection.exists():
        raise ProtocolError(f"{paths.name} has chosen its winner before: a choice is made once")
    check_untested(paths, (_phase(run) for run in paths.runs()))
    publish_document(paths, paths.selection, selection.plain(), trials=_trials_now(paths))


def _trials_now(paths: ExperimentPaths) -> Prefix | None:
    """The trials that the choice is made of."""
    try:
        content = read_file(paths.trials)
    except OSError:
        return None
    return Prefix(bytes=len(content), sha256=sha256(content).hexdigest())


def read_selection(paths: ExperimentPaths) -> Selection | None:
    """The choice, once it was made.

    Raises:
        RecordError: It is damaged.
    """
    if not paths.selection.exists():
        return None
    plain = read_json(paths.selection)
    try:
        selection = Selection.from_plain(plain)
        selection.chosen  # noqa: B018
    except (KeyError, TypeError, ValueError, AttributeError, StopIteration) as error:
        raise RecordError(f"{paths.selection} is damaged: {error!r}") from error
    return selection


def check_untested(paths: ExperimentPaths, phases: Iterable[Phase | None]) -> None:
    """Refuse to search or to choose where test scores may be known.

    Args:
        paths: A sweep that has not chosen.
        phases: Of its runs.

    Raises:
        ProtocolError: There is a test run, so that a choice was made, and was lost or removed.
    """
    if Phase.TEST in phases:
        raise ProtocolError(
            f"{paths.name} has test runs and no selection.json: another choice could be made by "
            "knowing them. Restore that file, or begin a sweep of its own with experiment=… and "
            "another seeds.root"
        )


def _phase(run: RunPaths) -> Phase | None:
    """The phase of a run; nothing where its folder does not say."""
    try:
        return Phase(read_json(run.spec)["phase"])
    except (RecordError, KeyError, ValueError, TypeError):
        return None


def check_phase(paths: ExperimentPaths, spec: RunSpec) -> None:
    """Refuse a run that would let test seeds and the choice touch each other.

    Raises:
        ProtocolError: It is a test run before the choice, or one to choose by after it.
    """
    if not paths.trials.exists():
        return
    chosen = paths.selection.exists()
    if spec.phase is Phase.TEST and not chosen:
        raise ProtocolError(f"{paths.name} has not chosen its winner: there is no test run before")
    if spec.phase is not Phase.TEST and chosen:
        raise ProtocolError(
            f"{paths.name} has chosen its winner: a further {spec.phase} run could not change it"
        )


def with_trials(
    experiment: Experiment, trials: Sequence[StoredTrial], selection: Selection | None
) -> Experiment:
    """The experiment with what its sweep has found so far.

    Raises:
        RecordError: The choice names a trial that does not exist.
    """
    by_number = {t.number: t.configuration for t in trials if t.configuration is not None}
    default = replace(experiment.configurations[0], label=DEFAULT_LABEL)
    grown = replace(experiment, configurations=(default,), trials=tuple(by_number.values()))
    if selection is None:
        return grown
    wanted = [selection.winner, *(f.number for f in selection.finalists)]
    if lacking := [n for n in wanted if n not in by_number]:
        raise RecordError(f"selection.json names trial {lacking[0]}, which is not in trials.jsonl")
    tuned = replace(by_number[selection.winner], label=TUNED_LABEL)
    return replace(
        grown,
        configurations=(default,) if selection.winner == DEFAULT else (tuned, default),
        finalists=tuple(by_number[f.number] for f in selection.finalists),
    )
