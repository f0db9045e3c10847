"""The interface of the real service behind each tracker, for the behaviour suite of trackers."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rlexp.trackers import MetricRow, TrackedExperiment, TrackedRun, Tracker

Point = tuple[str, int, float]
"""The name of a metric, the environment step and the value."""


@dataclass(frozen=True, slots=True)
class ShownRun:
    """A run as the service shows it.

    Attributes:
        points: Every point of the pushed metrics in any order; a repeated point is repeated here.
        score: The score of the run, if the service shows one.
        state: The state of the run's end.
        group: The group of the run.
        settings: Values of the configuration, by dotted key.
    """

    points: Sequence[Point]
    score: float | None
    state: str
    group: str
    settings: Mapping[str, str]


class Backend(Protocol):
    """A real service, or real files, on this machine."""

    def tracker(self) -> Tracker:
        """A tracker that mirrors to this backend, with short timeouts."""
        ...

    def shown_runs(self, experiment: TrackedExperiment, run: TrackedRun) -> Sequence[ShownRun]:
        """Every run that the service has under the run's id; exactly one is correct."""
        ...

    def aggregates(self, experiment: TrackedExperiment) -> Mapping[str, float]:
        """The interquartile mean that the service shows for each label or group."""
        ...

    def stop(self) -> None:
        """Make the service unreachable; files stay reachable."""
        ...

    def start(self) -> None:
        """Make the service reachable again, with all its data."""
        ...


BackendOf = Callable[[Path], AbstractContextManager[Backend]]
"""Opens a backend whose files lie in a folder."""


def rows_of(steps: Sequence[int], **metrics: float) -> list[MetricRow]:
    """Rows at these steps, each with the same metrics."""
    return [MetricRow(step=s, time=1_800_000_000.0 + s, metrics=metrics) for s in steps]
