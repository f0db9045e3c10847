"""The TensorBoard tracker: writes event files beside `runs/`, one folder for each run."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import IO, Annotated, Any, ClassVar

from annotated_types import Ge

from rlexp.errors import TrackerRefused
from rlexp.trackers import (
    ExperimentSummary,
    MetricRow,
    RunEnd,
    SyncPosition,
    TrackedAggregate,
    TrackedExperiment,
    TrackedRun,
    TrackerConnection,
)
from rlexp.trackers.flatten import flattened
from rlexp.trackers.viewing import not_installed, shown_path

OWNER = ".experiment"
"""The file that holds the id of the experiment to which the folder belongs."""
STATUS = {"completed": 1, "pruned": 1, "failed": 2}
"""Status numbers of the hyperparameter plug-in: success, failure; 0 (unknown) for other states."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorBoard:
    """Event files that `tensorboard --logdir tensorboard` shows."""

    package: ClassVar[str] = "tensorboard"

    folder: str | None = None
    wait: Annotated[float, Ge(0)] = 10.0
    required: bool = False

    def destination(self, project: Path) -> str:
        """The folder that holds one folder for each experiment."""
        return str(project / (self.folder or "tensorboard"))

    def where_to_look(self, project: Path, folder: Path) -> str:  # noqa: ARG002 files lie elsewhere
        """The command that shows the event files of all experiments."""
        events = shown_path(Path(self.destination(project)), project)
        return f"{shlex.join(['tensorboard', '--logdir', events])}, then http://localhost:6006"

    def open(self, experiment: TrackedExperiment) -> TrackerConnection:
        """Check that event files can be written; see `Tracker.open`."""
        try:
            import tensorboard.compat.proto.event_pb2  # noqa: F401
        except ImportError as error:
            raise not_installed(self.package) from error
        return TensorBoardSink(
            _experiment_folder(Path(self.destination(experiment.project)), experiment)
        )


def _experiment_folder(parent: Path, experiment: TrackedExperiment) -> Path:
    """The experiment's folder; its name gets the id if another experiment uses the name."""
    for name in (experiment.name, f"{experiment.name}-{experiment.id[:8]}"):
        folder = parent / name
        folder.mkdir(parents=True, exist_ok=True)
        owner = folder / OWNER
        if not owner.exists():
            owner.write_text(experiment.id)
        if owner.read_text() == experiment.id:
            return folder
    raise TrackerRefused(f"the folder {folder} belongs to another experiment: remove or rename it")


class TensorBoardSink:
    """Writes the event files of an experiment; overwrites bytes after the sync position."""

    def __init__(self, folder: Path) -> None:
        """Write into a folder, which is created when needed."""
        self._folder = folder
        self._open: dict[str, EventFileWriter] = {}

    def begin(self, run: TrackedRun, reached: SyncPosition) -> SyncPosition:
        """Continue at the sync position, or start the file again; see `TrackerConnection.begin`."""
        # TensorBoard reads only files whose names contain `tfevents`.
        path = self._folder / run.name / f"events.out.tfevents.{int(run.started):010d}.rlexp"
        length = int(reached.kept.get("length") or 0)
        # A shorter file lost bytes that had counted as stored (a crash of the machine, another copy
        # of the folder): only a new file is complete again.
        if not path.is_file() or path.stat().st_size < length:
            length = 0
        file = self._open[run.id] = EventFileWriter(path, length, run.started)
        file.step = reached.step if length else -1
        return reached if length else SyncPosition()

    def push(self, run: TrackedRun, rows: Sequence[MetricRow]) -> SyncPosition:
        """Write rows; see `TrackerConnection.push`."""
        file = self._open[run.id]
        for row in rows:
            file.scalars(row.metrics, row.step, row.time)
        file.step = rows[-1].step
        return SyncPosition(step=file.step, kept={"length": file.length()})

    def end(self, run: TrackedRun, ended: RunEnd) -> SyncPosition:
        """Write the hyperparameters and the score, which later rows overwrite."""
        # The position returned is the one before these entries: a run that continues overwrites
        # them, so that its file never holds two scores.
        file = self._open.pop(run.id)
        length = file.length()
        for value in _hyperparameters(f"{self._folder.name} {run.name}", run, ended):
            file.summary(value, 0, ended.time)
        if ended.score is not None:
            file.scalars({"score": ended.score}, ended.step, ended.time)
        file.length()
        file.close()
        return SyncPosition(step=file.step, kept={"length": length})

    def summarise(self, summary: ExperimentSummary) -> None:
        """Rewrite the file with the aggregates of each label."""
        for aggregate in summary.aggregates:
            if aggregate.estimate is not None:
                label = f"{aggregate.label} {aggregate.task}".replace("/", "_")
                path = self._folder / "summary" / label / "events.out.tfevents.0000000000.rlexp"
                file = EventFileWriter(path, 0, 0.0)
                file.scalars(dict(_aggregate_scalars(aggregate)), aggregate.n, 0.0)
                file.summary(
                    _text_summary("aggregate/in words", aggregate.in_words), aggregate.n, 0.0
                )
                file.length()
                file.close()

    def close(self) -> None:
        """Close every file."""
        for file in self._open.values():
            file.close()
        self._open.clear()


@dataclass(slots=True)
class EventFileWriter:
    """Writes one event file, after its first `kept` bytes."""

    path: Path
    kept: int
    begun: float
    step: int = -1
    _file: IO[bytes] = field(init=False)
    _writer: Any = field(init=False)

    def __post_init__(self) -> None:
        """Cut the file to the bytes that are kept; a new file begins with the version record."""
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter

        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("r+b" if self.kept else "wb")
        self._file.truncate(self.kept)
        self._file.seek(self.kept)
        self._writer = RecordWriter(self._file)
        if not self.kept:
            event = Event(wall_time=self.begun, file_version="brain.Event:2")
            self._writer.write(event.SerializeToString())

    def scalars(self, metrics: Mapping[str, float], step: int, time: float) -> None:
        """Write values of metrics at one step."""
        from tensorboard.compat.proto.summary_pb2 import Summary as Values

        values = [
            Values.Value(tag=k, simple_value=_to_single_precision(v)) for k, v in metrics.items()
        ]
        self.summary(Values(value=values), step, time)

    def summary(self, values: Any, step: int, time: float) -> None:
        """Write values of any kind at one step."""
        from tensorboard.compat.proto.event_pb2 import Event

        self._writer.write(Event(wall_time=time, step=step, summary=values).SerializeToString())

    def length(self) -> int:
        """Flush to the operating system; returns the length of the file in bytes."""
        self._file.flush()
        return self._file.tell()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _hyperparameters(name: str, run: TrackedRun, ended: RunEnd) -> Iterator[Any]:
    """The summaries for the hyperparameter plug-in: settings, then the end of the session."""
    from tensorboard.compat.proto.summary_pb2 import Summary as Values
    from tensorboard.plugins.hparams import metadata
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo
    from tensorboard.plugins.hparams.summary_v2 import hparams_pb

    about = {"label": run.label, "task": run.task, "phase": run.phase, "seed": run.seed}
    if run.trial is not None:
        about["trial"] = run.trial
    # The plug-in accepts scalars only.
    settings = {**about, **flattened(run.configuration)}
    scalars = {k: v for k, v in settings.items() if isinstance(v, bool | int | float | str)}
    yield hparams_pb(scalars, trial_id=name, start_time_secs=run.started)
    end = SessionEndInfo(status=STATUS.get(ended.state, 0), end_time_secs=ended.time)
    value = Values.Value(
        tag=metadata.SESSION_END_INFO_TAG,
        metadata=metadata.create_summary_metadata(HParamsPluginData(session_end_info=end)),
        tensor=metadata.NULL_TENSOR,
    )
    yield Values(value=[value])


def _aggregate_scalars(aggregate: TrackedAggregate) -> Iterator[tuple[str, float]]:
    names = (aggregate.metric, "low", "high", "n", "planned", "failed", "missing")
    counts = (aggregate.n, aggregate.planned, aggregate.failed, aggregate.missing)
    for name, value in zip(names, (*aggregate.numbers.values(), *counts), strict=True):
        if value is not None:
            yield f"aggregate/{name}", float(value)


def _text_summary(tag: str, text: str) -> Any:
    """A text in the form that the text plug-in reads."""
    from tensorboard.compat.proto.summary_pb2 import Summary as Values
    from tensorboard.plugins.text import metadata
    from tensorboard.util.tensor_util import make_tensor_proto

    about = metadata.create_summary_metadata(display_name="", description="")
    tensor = make_tensor_proto(text.encode())
    return Values(value=[Values.Value(tag=tag, metadata=about, tensor=tensor)])


def _to_single_precision(value: float) -> float:
    """The value, infinite if it is too large for single precision."""
    # protobuf raises an error for a finite value that does not fit into a float.
    largest = 3.4e38
    if isfinite(value) and abs(value) > largest:
        return float("inf") if value > 0 else float("-inf")
    return value
