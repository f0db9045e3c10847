"""TensorBoard for the behaviour suite: its own loader reads the event files."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends import Point, Seen

from rlexp.trackers import TrackedExperiment, TrackedRun, Tracker
from rlexp.trackers.tensorboard import TensorBoard


@dataclass(frozen=True, slots=True)
class TensorBoardBackend:
    """A folder of event files."""

    folder: Path

    def tracker(self) -> Tracker:
        return TensorBoard(folder=str(self.folder))

    def seen(self, experiment: TrackedExperiment, run: TrackedRun) -> Sequence[Seen]:
        files = sorted((self._of(experiment) / run.name).glob("*tfevents*"))
        return [_seen(path) for path in files]

    def aggregates(self, experiment: TrackedExperiment) -> Mapping[str, float]:
        folder = self._of(experiment) / "summary"
        found = {}
        for path in sorted(folder.glob("*/*tfevents*")):
            label = path.parent.name.split(" ", maxsplit=1)[0]
            (found[label],) = [v for k, _, v in _points(path) if k == "aggregate/iqm"]
        return found

    def _of(self, experiment: TrackedExperiment) -> Path:
        """The folder that says that it belongs to the experiment."""
        (owner,) = [p for p in self.folder.glob("*/.experiment") if p.read_text() == experiment.id]
        return owner.parent

    def stop(self) -> None:
        """Files are always there."""

    def start(self) -> None:
        """Files are always there."""


@contextmanager
def tensorboard_backend(folder: Path) -> Iterator[TensorBoardBackend]:
    """Event files in a folder."""
    yield TensorBoardBackend(folder / "tensorboard")


def _seen(path: Path) -> Seen:
    points = _points(path)
    settings = _hyperparameters(path)
    scores = [v for k, _, v in points if k == "score"]
    return Seen(
        points=[p for p in points if p[0] != "score"],
        score=scores[-1] if scores else None,
        state=settings.pop("state"),
        group=settings["label"],
        settings=settings,
    )


def _points(path: Path) -> list[Point]:
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    from tensorboard.util.tensor_util import make_ndarray

    return [
        (value.tag, event.step, float(make_ndarray(value.tensor)))
        for event in EventFileLoader(str(path)).Load()
        for value in event.summary.value
        if not value.tag.startswith("_hparams_") and value.tag != "aggregate/in words"
    ]


def _hyperparameters(path: Path) -> dict[str, str]:
    """What its hyperparameter plug-in reads, and how the session ended."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    from tensorboard.plugins.hparams import metadata

    found: dict[str, Any] = {}
    for event in EventFileLoader(str(path)).Load():
        for value in event.summary.value:
            content = value.metadata.plugin_data.content
            if value.tag == metadata.SESSION_START_INFO_TAG:
                start = metadata.parse_session_start_info_plugin_data(content)
                for key, one in start.hparams.items():
                    kind = one.WhichOneof("kind")
                    number = getattr(one, kind)
                    found[key] = number if kind == "string_value" else json.dumps(number)
            if value.tag == metadata.SESSION_END_INFO_TAG:
                end = metadata.parse_session_end_info_plugin_data(content)
                found["state"] = {1: "completed", 2: "failed"}.get(end.status, "unknown")
    return found
