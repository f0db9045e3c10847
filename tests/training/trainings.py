"""Small trainings in this process, and a listener that stores what it receives."""

import json
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from last_words import last_words

from rlexp.app.execution.run_process import assemble
from rlexp.config.compose import compose
from rlexp.config.validate import validate
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.records.checkpoint import Checkpoint, SavedCheckpoint
from rlexp.records.events import (
    Ending,
    Evaluated,
    Event,
    Measured,
    RunEnded,
    StopRequest,
    to_plain,
)
from rlexp.replay.uniform import Uniform
from rlexp.training.training_run import train

TINY = {
    "ppo": (
        *("algorithm=ppo", "environment=cartpole"),
        *("algorithm.n_steps=64", "algorithm.n_epochs=3"),
    ),
    "dqn": ("algorithm=dqn", "environment=cartpole", "algorithm.learning_starts=32"),
    "sac": (
        *("algorithm=sac", "environment=pendulum"),
        *("algorithm.learning_starts=32", "algorithm.train_freq=4"),
    ),
}
"""Overrides that make a training of each kind short."""
ALLOWED = ("odd_environments", "odd_callbacks")
"""Packages of these tests that configurations may name."""


class RecordingListener:
    """A listener that stores events and publishes files into a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events: list[Event] = []
        self.checkpoints: list[Checkpoint] = []
        self.began_at: list[int | None] = []
        self.beats: list[int] = []
        self.request: StopRequest | None = None
        self.request_at = 0
        self.time = 0.0

    def emit(self, event: Event) -> None:
        """Store an event."""
        self.events.append(event)

    def publish(self, name: str, write: Callable[[Path], object]) -> None:
        """Write a file."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path)

    def checkpoint(self, checkpoint: Checkpoint) -> int:
        """Store a checkpoint."""
        self.checkpoints.append(checkpoint)
        return sum(map(len, checkpoint.files.values()))

    def goes_on_from(self, step: int | None) -> None:
        """Store the step that the training continues from."""
        self.began_at.append(step)

    def saved_checkpoint(self, position: int) -> SavedCheckpoint:
        """A checkpoint as it is read from disk, with all experience up to it."""
        saved = self.checkpoints[position]
        stretches = [c.transitions for c in self.checkpoints if c.step <= saved.step]
        needed_transitions = [t for t in stretches if t is not None and t.end > saved.oldest]
        return SavedCheckpoint(
            step=saved.step,
            about={"attempt": 1},
            files=saved.files,
            transitions=lambda: iter(needed_transitions),
        )

    def beat(self, step: int) -> None:
        """Count a heartbeat."""
        self.beats.append(step)

    def stopping(self) -> StopRequest | None:
        """The stop request of the test, from its step on."""
        return self.request if self.beats and self.beats[-1] >= self.request_at else None

    def now(self) -> float:
        """A clock that the test sets."""
        return self.time

    def elapsed(self) -> float:
        """A clock that the test sets."""
        return self.time


def spec_of(*words: str, seed: int = 0, **changes: Mapping[str, Any]) -> RunSpec:
    """The run that these overrides define, as on the command line.

    Keyword arguments change values of its parts afterwards, which is faster than overrides.
    """
    composition = deepcopy(_compose_parts(tuple(last_words(*words))))
    return RunSpec(
        agent=merged(composition.parts["agent"], changes.get("agent", {})),
        algorithm=merged(composition.parts["algorithm"], changes.get("algorithm", {})),
        environment=merged(composition.parts["environment"], changes.get("environment", {})),
        budget=merged(composition.parts["budget"], changes.get("budget", {})),
        replay=composition.replay,
        compute={"threads": 1, "device": "cpu"},
        phase=Phase.TEST,
        root=composition.root,
        seed=seed,
        callback=composition.parts["callback"] or None,
    )


def merged(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Values with changes, also within nested mappings."""
    merged_values = dict(values)
    for key, value in changes.items():
        is_nested = isinstance(value, Mapping) and isinstance(merged_values.get(key), Mapping)
        merged_values[key] = merged(merged_values[key], value) if is_nested else value
    return merged_values


@dataclass(frozen=True, slots=True)
class Composed:
    """The parts of a run, and the root of its seeds."""

    parts: Mapping[str, Mapping[str, Any]]
    root: int
    replay: Mapping[str, Any] | None = None


@cache
def _compose_parts(words: tuple[str, ...]) -> Composed:
    values = compose(words, Path("nowhere"))[0].plain
    settings, built = validate(values, ALLOWED)
    environment = {k: v for k, v in values["environment"].items() if k != "reference"}
    parts = {
        "agent": values["agent"],
        "algorithm": values["algorithm"],
        "environment": environment,
        "budget": settings.budget.defining(),
        "callback": values["callback"],
    }
    uniform = isinstance(built.replay, Uniform)
    return Composed(parts, settings.seeds.root, None if uniform else values["replay"])


def run_training(
    folder: Path,
    *words: str,
    seed: int = 0,
    listener: RecordingListener | None = None,
    checkpoints: Sequence[SavedCheckpoint] = (),
    changes: Mapping[str, Mapping[str, Any]] | None = None,
    lean: bool = True,
    **operational: Any,
) -> tuple[RecordingListener, RunEnded]:
    """Train the run of these overrides; return its listener and its end.

    Args:
        folder: The folder for files.
        words: The overrides.
        seed: The seed of the run.
        listener: The listener; a new one by default.
        checkpoints: Checkpoints to continue from.
        changes: Changes to values, by the name of the part.
        lean: Whether the training uses shortcuts.
        **operational: Settings of the budget that are no part of the run's identity.
    """
    folder.mkdir(parents=True, exist_ok=True)
    recorder = listener or RecordingListener(folder)
    spec = spec_of(*words, seed=seed, **(changes or {}))
    training = assemble(spec, operational=operational, allowed=ALLOWED, lean=lean)
    return recorder, train(training, recorder, folder, checkpoints)


@cache
def shared_training(*words: str, **operational: Any) -> tuple[RecordingListener, RunEnded]:
    """The result of `trained`, shared by the tests of a process; its files are removed."""
    with TemporaryDirectory(prefix="shared-training-") as folder:
        return run_training(Path(folder), *words, **operational)


def results(listener: RecordingListener, after: int = 0, until: int = 10**9) -> list[Any]:
    """Evaluations and end in a range of steps, without times."""
    events: list[Event] = [e for e in listener.events if isinstance(e, Evaluated | RunEnded)]
    return [v for v in without_times(events) if after < v["step"] <= until]


def interrupted(
    folder: Path, stop: int, *words: str, checkpoint_every: int = 32
) -> RecordingListener:
    """The listener of a training that was stopped at a step, with its checkpoints."""
    stopped = RecordingListener(folder)
    stopped.request, stopped.request_at = StopRequest(Ending.INTERRUPTED, "enough"), stop
    run_training(folder, *words, listener=stopped, checkpoint_every=checkpoint_every)
    return stopped


def check_continuation(
    folder: Path, words: tuple[str, ...], stops: Sequence[int], *, checkpoint_every: int = 32
) -> None:
    """Stop a training at several steps, and compare its rest with the training that nothing stopped."""
    control, expected = shared_training(*words)
    assert expected.ending is Ending.COMPLETED, expected.reason
    for stop in stops:
        stopped = interrupted(folder / str(stop), stop, *words, checkpoint_every=checkpoint_every)
        checkpoint = stopped.saved_checkpoint(-1)
        rest, end = run_training(folder / f"rest-{stop}", *words, checkpoints=[checkpoint])
        assert [checkpoint.step] == rest.began_at
        assert expected.weights == end.weights
        assert results(control, checkpoint.step) == results(rest)


def without_times(events: list[Event]) -> list[Mapping[str, Any]]:
    """Events as plain values, without times."""
    plain_events = []
    for event in events:
        values = to_plain(event)
        if isinstance(event, Measured):
            metrics = values["metrics"]
            values["metrics"] = {k: v for k, v in metrics.items() if not k.startswith("time/")}
        plain_events.append(
            # The times in a checkpoint change its size.
            {k: v for k, v in values.items() if k not in {"time", "seconds", "pid", "bytes"}}
        )
    return json.loads(json.dumps(plain_events))  # type: ignore[no-any-return]
