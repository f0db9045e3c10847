"""Reads and writes the proposed trials and the selection (chosen winner) of a sweep."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from itertools import chain
from typing import Any

from rlexp.errors import ConfigError, ProtocolError, RecordError
from rlexp.protocol.experiment import Configuration, Experiment
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import Parent, RunSpec
from rlexp.records.ledger import Prefix
from rlexp.records.selection import DEFAULT, Selection
from rlexp.records.trial import TrialOrigin
from rlexp.store.configurations import read_configuration
from rlexp.store.files import append_line, parse_json, publish, read_file, read_json
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.registers.ledger import publish_document
from rlexp.store.schemas import TRIALS

DEFAULT_LABEL = "default"
MOST_STEPS = 10**15
"""Most environment steps of a trial, so that sums over trials stay exact as floats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTrial:
    """A proposed trial.

    Attributes:
        number: Number of the trial, from 0.
        parameters: Values of the searched parameters.
        steps: Environment steps of each of its runs.
        configuration: The configuration of its runs; of several tasks, that on the first one. None
            where it is invalid.
        on_other_tasks: The configuration on each further task, in the order of the tasks.
        refused: Why the configuration is invalid.
        parent: The trial whose configuration it repeats with more steps, if any.
        parents: The state from which each run continues, in order of the tuning seeds, None where
            a run begins at step 0; empty where all do.
        anew: Why runs begin at step 0 although the trial repeats another one; None without such runs.
        seconds: Time in seconds that the tuner took to suggest it.
        origin: Where the configuration comes from, if not from the tuner.
    """

    number: int
    parameters: Mapping[str, Any]
    steps: int
    configuration: Configuration | None
    refused: str | None = None
    parent: int | None = None
    parents: tuple[Parent | None, ...] = ()
    anew: str | None = None
    seconds: float = 0.0
    origin: TrialOrigin | None = None
    on_other_tasks: tuple[Configuration, ...] = ()

    @property
    def configurations(self) -> tuple[Configuration, ...]:
        """The configuration on every task; empty where it is invalid."""
        return () if self.configuration is None else (self.configuration, *self.on_other_tasks)

    def plain(self) -> dict[str, Any]:
        """The JSON object of the trial in `trials.jsonl`."""
        return {
            **TRIALS.head(),
            "number": self.number,
            "parameters": dict(self.parameters),
            "steps": self.steps,
            "configuration": self.configuration.plain() if self.configuration else None,
            **self._elsewhere(),
            "refused": self.refused,
            "parent": self.parent,
            **self._beginnings(),
            **({} if self.origin is None else {"origin": str(self.origin)}),
            "seconds": self.seconds,
        }

    def _elsewhere(self) -> dict[str, Any]:
        """The configurations on further tasks; nothing in a sweep on one task."""
        configurations = [configuration.plain() for configuration in self.on_other_tasks]
        return {"on_other_tasks": configurations} if configurations else {}

    def _beginnings(self) -> dict[str, Any]:
        """How runs begin that could continue; nothing for the trials of most sweeps."""
        parents = [None if parent is None else asdict(parent) for parent in self.parents]
        anew = {} if self.anew is None else {"anew": self.anew}
        return {**({"parents": parents} if parents else {}), **anew}


def append_trial(paths: ExperimentPaths, trial: StoredTrial) -> None:
    """Append a trial to `trials.jsonl` durably.

    Raises:
        ProtocolError: The sweep has chosen its winner, so that a further trial could not win.
        OSError: The disk is full or gone.
    """
    if paths.selection.exists():
        raise ProtocolError(f"{paths.name} has chosen its winner: it takes no further trial")
    # Durable before any run of the trial exists: after a crash, its runs must belong to a trial.
    text = json.dumps(trial.plain(), separators=(",", ":"), allow_nan=False)
    append_line(paths.trials, text.encode())


def read_trials(paths: ExperimentPaths) -> list[StoredTrial]:
    """The trials proposed so far, in order; an incomplete last line is left out.

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
    trials = [_read_trial(paths, line) for line in lines]
    if [trial.number for trial in trials] != list(range(len(trials))):
        raise RecordError(f"{paths.trials} is damaged: its trials are not numbered 0, 1, 2, …")
    return trials


def candidate_codes(paths: ExperimentPaths) -> list[tuple[int, str | None]]:
    """The number of every trial and the digest of its code; None for the trials of other sweeps."""
    return [
        (t.number, None if t.configuration is None else t.configuration.code)
        for t in read_trials(paths)
    ]


def _read_trial(paths: ExperimentPaths, line: bytes) -> StoredTrial:
    try:
        document = parse_json(line)
        schema = TRIALS.check(document, paths.trials)
        configuration = document["configuration"]
        return StoredTrial(
            number=int(document["number"]),
            parameters=dict(document["parameters"]),
            steps=_steps(document["steps"]),
            configuration=read_configuration(configuration, schema) if configuration else None,
            on_other_tasks=tuple(
                read_configuration(other, schema) for other in document.get("on_other_tasks", ())
            ),
            refused=document["refused"],
            parent=document["parent"],
            parents=tuple(p if p is None else Parent(**p) for p in document.get("parents", ())),
            anew=document.get("anew"),
            origin=TrialOrigin(document["origin"]) if "origin" in document else None,
            seconds=float(document["seconds"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, ConfigError) as error:
        raise RecordError(f"{paths.trials} is damaged: {error!r}") from error


def _steps(value: object) -> int:
    """The environment steps of a trial; at most `MOST_STEPS`."""
    if not isinstance(value, int) or not 0 < value <= MOST_STEPS:
        raise ValueError(f"steps={value!r:.40} must be a whole number from 1 to {MOST_STEPS:,}")
    return value


def write_selection(paths: ExperimentPaths, selection: Selection) -> None:
    """Write the selection; this is possible once, and only before the first test run.

    Raises:
        ProtocolError: The sweep has a selection, or a test run.
    """
    if paths.selection.exists():
        raise ProtocolError(f"{paths.name} has chosen its winner already: a winner is chosen once")
    check_untested(paths, (_phase(run) for run in paths.runs()))
    publish_document(paths, paths.selection, selection.plain(), trials=_trials_now(paths))


def write_schedule(paths: ExperimentPaths, text: str) -> None:
    """Write the schedule that a population came to; records hold it, too.

    Raises:
        OSError: The disk is full or fails.
    """
    publish(paths.schedule, text.encode())


def _trials_now(paths: ExperimentPaths) -> Prefix | None:
    """Length and checksum of `trials.jsonl`; None where it is unreadable."""
    try:
        content = read_file(paths.trials)
    except OSError:
        return None
    return Prefix(bytes=len(content), sha256=sha256(content).hexdigest())


def read_selection(paths: ExperimentPaths) -> Selection | None:
    """The selection of a sweep; None before the winner is chosen.

    Raises:
        RecordError: The file is damaged.
    """
    if not paths.selection.exists():
        return None
    document = read_json(paths.selection)
    try:
        selection = Selection.from_plain(document)
        # Evaluated here, so that a winner that is no finalist is reported with the file's name.
        selection.chosen  # noqa: B018
    except (KeyError, TypeError, ValueError, AttributeError, StopIteration) as error:
        raise RecordError(f"{paths.selection} is damaged: {error!r}") from error
    return selection


def check_untested(paths: ExperimentPaths, phases: Iterable[Phase | None]) -> None:
    """Refuse to search or to select where test scores may be known.

    Args:
        paths: A sweep without a selection.
        phases: The phases of its runs.

    Raises:
        ProtocolError: The sweep has a test run, so that its selection was lost or removed.
    """
    if Phase.TEST in phases:
        raise ProtocolError(
            f"{paths.name} has test runs but no selection.json, so a selection made now could depend "
            "on test scores: restore selection.json, or begin another sweep with experiment=… and "
            "another seeds.root"
        )


def _phase(run: RunPaths) -> Phase | None:
    """The phase of a run; None where its spec is missing or damaged."""
    try:
        return Phase(read_json(run.spec)["phase"])
    except (RecordError, KeyError, ValueError, TypeError):
        return None


def check_phase(paths: ExperimentPaths, spec: RunSpec) -> None:
    """Refuse a test run before the selection, and a tuning or selection run after it.

    Raises:
        ProtocolError: The phase of the run is not allowed now.
    """
    if not paths.trials.exists():
        return
    chosen = paths.selection.exists()
    if spec.phase is Phase.TEST and not chosen:
        raise ProtocolError(f"{paths.name} has not chosen its winner: test runs come after that")
    if spec.phase is not Phase.TEST and chosen:
        raise ProtocolError(
            f"{paths.name} has chosen its winner: a further {spec.phase} run could not change it"
        )


def with_trials(
    experiment: Experiment, trials: Sequence[StoredTrial], selection: Selection | None
) -> Experiment:
    """The experiment with the trials and the winner of its sweep so far.

    Raises:
        RecordError: The selection names a trial that does not exist.
    """
    by_number = {t.number: t.configurations for t in trials if t.configurations}
    defaults = tuple(replace(c, label=DEFAULT_LABEL) for c in experiment.defaults)
    grown = replace(
        experiment,
        configurations=defaults,
        trials=tuple(chain.from_iterable(by_number.values())),
        continued=dict(_continued(experiment, trials)),
    )
    if selection is None:
        return grown
    tested = [number for number in selection.tested if number != DEFAULT]
    named = [selection.winner, *tested, *(f.number for f in selection.finalists)]
    if lacking := [n for n in named if n not in by_number]:
        raise RecordError(f"selection.json names trial {lacking[0]}, which is not in trials.jsonl")
    finalists = (by_number[f.number] for f in selection.finalists)
    return replace(
        grown,
        configurations=tuple(_tested(selection, by_number, defaults)),
        finalists=tuple(chain.from_iterable(finalists)),
    )


def _tested(
    selection: Selection,
    by_number: Mapping[int, tuple[Configuration, ...]],
    defaults: tuple[Configuration, ...],
) -> Iterator[Configuration]:
    """The configurations that run on test seeds, with their labels; of each trial, one on each task."""
    for number in selection.tested:
        if number == DEFAULT:
            yield from defaults
            continue
        yield from (replace(c, label=selection.label(number)) for c in by_number[number])


def _continued(
    experiment: Experiment, trials: Iterable[StoredTrial]
) -> Iterator[tuple[str, Parent]]:
    """The ids that continued runs would have without a parent, and the states they continue from."""
    if experiment.sweep is None:
        return
    seeds, plan = experiment.seeds.seeds(Phase.TUNING), experiment.sweep.plan
    for trial in trials:
        if trial.configuration is None:
            continue
        # Tuning seeds never change: the definition of a sweep holds them.
        for seed, parent in zip(seeds, trial.parents, strict=False):
            if parent is not None:
                yield trial.configuration.tuning_spec(plan, experiment.seeds, seed).id, parent
