"""Small trainings in this process, and a listener that stores what it receives."""

import json
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rlexp.app.execution.run_process import assemble
from rlexp.config.compose import compose
from rlexp.config.validate import validate
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.records.checkpoint import Checkpoint, SavedCheckpoint
from rlexp.records.events import Event, Measured, RunEnded, StopRequest, to_plain
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
"""Words that make a training of each kind short."""


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

    def saved(self, position: int) -> SavedCheckpoint:
        """A checkpoint as if read back, with all experience up to it."""
        chosen = self.checkpoints[position]
        stretches = [c.transitions for c in self.checkpoints if c.step <= chosen.step]
        needed = [t for t in stretches if t is not None and t.end > chosen.oldest]
        return SavedCheckpoint(
            step=chosen.step,
            about={"attempt": 1},
            files=chosen.files,
            transitions=lambda: iter(needed),
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
    """The run that words lead to, as the command line would define it.

    Keyword arguments change values of its parts afterwards, which takes less time than words do.
    """
    composed = deepcopy(_composed(words))
    return RunSpec(
        agent=merged(composed.parts["agent"], changes.get("agent", {})),
        algorithm=merged(composed.parts["algorithm"], changes.get("algorithm", {})),
        environment=merged(composed.parts["environment"], changes.get("environment", {})),
        budget=merged(composed.parts["budget"], changes.get("budget", {})),
        compute={"threads": 1, "device": "cpu"},
        phase=Phase.TEST,
        root=composed.root,
        seed=seed,
    )


def merged(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Values with changes, also within nested mappings."""
    both = dict(values)
    for key, value in changes.items():
        inside = isinstance(value, Mapping) and isinstance(both.get(key), Mapping)
        both[key] = merged(both[key], value) if inside else value
    return both


@dataclass(frozen=True, slots=True)
class Composed:
    """The parts of a run, and the root of its seeds."""

    parts: Mapping[str, Mapping[str, Any]]
    root: int


@cache
def _composed(words: tuple[str, ...]) -> Composed:
    plain = compose(words, Path("nowhere"))[0].plain
    settings, _ = validate(plain, ("odd_environments",))
    environment = {k: v for k, v in plain["environment"].items() if k != "reference"}
    parts = {
        "agent": plain["agent"],
        "algorithm": plain["algorithm"],
        "environment": environment,
        "budget": settings.budget.defining(),
    }
    return Composed(parts, settings.seeds.root)


def trained(
    folder: Path,
    *words: str,
    seed: int = 0,
    listener: RecordingListener | None = None,
    checkpoints: Sequence[SavedCheckpoint] = (),
    changes: Mapping[str, Mapping[str, Any]] | None = None,
    **operational: Any,
) -> tuple[RecordingListener, RunEnded]:
    """Train what words lead to; returns what the listener was told and how it ended.

    Args:
        folder: Where files go.
        words: The configuration.
        seed: Of the run.
        listener: A new one, where there is none.
        checkpoints: To go on from.
        changes: Of values of the parts, by the name of the part.
        **operational: Settings of the budget that are no part of the run's identity.
    """
    folder.mkdir(parents=True, exist_ok=True)
    memory = listener or RecordingListener(folder)
    spec = spec_of(*words, seed=seed, **(changes or {}))
    training = assemble(spec, operational=operational)
    return memory, train(training, memory, folder, checkpoints)


@cache
def shared(*words: str, **operational: Any) -> tuple[RecordingListener, RunEnded]:
    """The result of `trained`, shared by the tests of a process; its files are removed."""
    with TemporaryDirectory(prefix="shared-training-") as folder:
        return trained(Path(folder), *words, **operational)


def without_times(events: list[Event]) -> list[Mapping[str, Any]]:
    """Events as plain values, without times."""
    plain = []
    for event in events:
        values = to_plain(event)
        if isinstance(event, Measured):
            metrics = values["metrics"]
            values["metrics"] = {k: v for k, v in metrics.items() if not k.startswith("time/")}
        plain.append({k: v for k, v in values.items() if k not in {"time", "seconds", "pid"}})
    return json.loads(json.dumps(plain))  # type: ignore[no-any-return]
