"""What the behaviour suite of trackers asks of the real service behind each of them."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rlexp.trackers import MetricRow, TrackedExperiment, TrackedRun, Tracker

Point = tuple[str, int, float]
"""A metric's name, the environment step, the value."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A run as the service shows it.

    Attributes:
        points: Every point of the metrics that were pushed as rows, those that are there twice
            twice, in any order.
        score: The score it shows for the run, if it does.
        state: What it shows of `Ended.state`.
        group: What it groups the run by.
        settings: A few of the configuration's values, by dotted key.
    """

    points: Sequence[Point]
    score: float | None
    state: str
    group: str
    settings: Mapping[str, str]


class Backend(Protocol):
    """A real service, or real files, on this machine."""

    def tracker(self) -> Tracker:
        """A tracker that mirrors to it, with short timeouts."""
        ...

    def seen(self, experiment: TrackedExperiment, run: TrackedRun) -> Sequence[Seen]:
        """Every run that it has under the run's id: one, if all is well."""
        ...

    def aggregates(self, experiment: TrackedExperiment) -> Mapping[str, float]:
        """The interquartile mean that it shows for each label or group."""
        ...

    def stop(self) -> None:
        """Make it unreachable; does nothing where it is only files."""
        ...

    def start(self) -> None:
        """Make it reachable again, with all that it had."""
        ...


BackendOf = Callable[[Path], AbstractContextManager[Backend]]
"""Opens a backend that keeps what it keeps in a folder."""


def rows_of(steps: Sequence[int], **metrics: float) -> list[MetricRow]:
    """Rows at steps, with the same metrics."""
    return [MetricRow(step=s, time=1_800_000_000.0 + s, metrics=metrics) for s in steps]
