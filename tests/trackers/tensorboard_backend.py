"""TensorBoard for the behaviour suite of trackers; its own loader reads the event files."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends import Point, ShownRun

from rlexp.trackers import TrackedExperiment, TrackedRun, Tracker
from rlexp.trackers.tensorboard import TensorBoard


@dataclass(frozen=True, slots=True)
class TensorBoardBackend:
    """A folder of event files."""

    folder: Path

    def tracker(self) -> Tracker:
        return TensorBoard(folder=str(self.folder))

    def shown_runs(self, experiment: TrackedExperiment, run: TrackedRun) -> Sequence[ShownRun]:
        owners = [o for o in self._of(experiment).glob("*/.run") if o.read_text() == run.name]
        files = sorted(path for owner in owners for path in owner.parent.glob("*tfevents*"))
        return [_shown_run(path) for path in files]

    def aggregates(self, experiment: TrackedExperiment) -> Mapping[str, float]:
        folder = self._of(experiment) / "~ aggregates"
        iqms = {}
        for path in sorted(folder.glob("*/*tfevents*")):
            label = path.parent.name.split(" ", maxsplit=1)[0]
            (iqms[label],) = [v for k, _, v in _points(path) if k == "~ aggregate/iqm"]
        return iqms

    def _of(self, experiment: TrackedExperiment) -> Path:
        """The folder whose owner file names the experiment."""
        (owner,) = [p for p in self.folder.glob("*/.experiment") if p.read_text() == experiment.id]
        return owner.parent

    def stop(self) -> None:
        """Files cannot be stopped."""

    def start(self) -> None:
        """Files need no start."""


@contextmanager
def tensorboard_backend(folder: Path) -> Iterator[TensorBoardBackend]:
    """Event files in a folder."""
    yield TensorBoardBackend(folder / "tensorboard")


def _shown_run(path: Path) -> ShownRun:
    points = _points(path)
    settings = _hyperparameters(path)
    scores = [v for k, _, v in points if k == "score"]
    return ShownRun(
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
        if not value.tag.startswith("_hparams_")
        and value.metadata.plugin_data.plugin_name != "text"
    ]


def _hyperparameters(path: Path) -> dict[str, str]:
    """The values that the hyperparameter plug-in reads, and the state of the session."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    from tensorboard.plugins.hparams import metadata

    values: dict[str, Any] = {}
    for event in EventFileLoader(str(path)).Load():
        for value in event.summary.value:
            content = value.metadata.plugin_data.content
            if value.tag == metadata.SESSION_START_INFO_TAG:
                start = metadata.parse_session_start_info_plugin_data(content)
                for key, parameter in start.hparams.items():
                    kind = parameter.WhichOneof("kind")
                    number = getattr(parameter, kind)
                    values[key] = number if kind == "string_value" else json.dumps(number)
            if value.tag == metadata.SESSION_END_INFO_TAG:
                end = metadata.parse_session_end_info_plugin_data(content)
                values["state"] = {1: "completed", 2: "failed"}.get(end.status, "unknown")
    return values
