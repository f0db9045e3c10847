"""The TensorBoard tracker: writes event files beside `runs/`, one folder for each run."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
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
from rlexp.trackers.parameters import telling_parameters
from rlexp.trackers.viewing import not_installed, shown_path

OWNER = ".experiment"
"""The file that holds the id of the experiment to which the folder belongs."""
RUN = ".run"
"""The file that names the run to which a folder belongs, which stays when the run starts anew."""
AGGREGATES = "~ aggregates"
"""The folder of the aggregates; TensorBoard sorts its name after those of all runs."""
ILLEGAL = re.compile(r"[/\\\x00-\x1f\x7f]")
LONGEST = 200
"""Most bytes of the name of a run's folder."""
STATUS = {"completed": 1, "pruned": 1, "failed": 2}
"""Status numbers of the hyperparameter plug-in: success, failure; 0 (unknown) for other states."""
SETTINGS = ".settings"
"""The file of an experiment with the kind of each of its settings, by name."""
DECLARATION = Path("~ columns", "events.out.tfevents.0000000000.rlexp")
"""The file of the declaration; its folder sorts after those of all experiments.

Without a declaration, TensorBoard shows every metric of every run as a column. It reads a single
declaration, the first that it finds. So there is one for all experiments of a folder.
"""
AFTER_ALL = float(2**32)
"""A time after the start of every run: TensorBoard lists runs by the time of their first event."""
FIRST_SHOWN = ("label", "phase", "seed")
KINDS = ("number", "text", "truth")


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorBoard:
    """Event files that `tensorboard --logdir tensorboard` shows."""

    package: ClassVar[str] = "tensorboard"
    keeps_reports: ClassVar[bool] = False

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
        folder = _experiment_folder(Path(self.destination(experiment.project)), experiment)
        return TensorBoardSink(folder, experiment)


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

    def __init__(self, folder: Path, experiment: TrackedExperiment) -> None:
        """Write an experiment into a folder, which is created when needed."""
        self._folder = folder
        self._experiment = experiment
        self._open: dict[str, EventFileWriter] = {}

    def begin(self, run: TrackedRun, reached: SyncPosition) -> SyncPosition:
        """Continue at the sync position, or start the file again; see `TrackerConnection.begin`."""
        # TensorBoard reads only files whose names contain `tfevents`.
        folder = self._run_folder(run)
        path = folder / f"events.out.tfevents.{int(run.started):010d}.rlexp"
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
        name = f"{self._folder.name} {run.title_in(self._experiment)}"
        settings = _settings(self._experiment, run)
        for value in _hyperparameters(name, settings, run, ended):
            file.summary(value, 0, ended.time)
        declare_columns(self._folder, settings)
        if ended.score is not None:
            file.scalars({"score": ended.score}, ended.step, ended.time)
        file.length()
        file.close()
        return SyncPosition(step=file.step, kept={"length": length})

    def summarise(self, summary: ExperimentSummary) -> None:
        """Rewrite the file with the aggregates of each label.

        Each aggregate stands at the number of environment steps after which its runs are scored, so
        that it is beside the ends of their curves.
        """
        time = self._after_last_start()
        for aggregate in summary.aggregates:
            if aggregate.estimate is not None:
                folder = self._folder / AGGREGATES / _folder_name(aggregate)
                file = EventFileWriter(folder / "events.out.tfevents.0000000000.rlexp", 0, time)
                step = _budget_of(self._experiment, aggregate)
                file.scalars(dict(_aggregate_scalars(aggregate)), step, time)
                file.summary(_text_summary("~ aggregate/in words", aggregate.in_words), step, time)
                if summary.answer is not None:
                    command = shlex.join(["rlexp", "report", self._experiment.name])
                    answer = f"{summary.answer.in_words}\n\nFor the report: `{command}`"
                    file.summary(_text_summary("~ aggregate/answer", answer), step, time)
                file.length()
                file.close()

    def _after_last_start(self) -> float:
        """A time after the start of every run; TensorBoard lists runs by the time of their start."""
        files = self._folder.glob("*/events.out.tfevents.*.rlexp")
        return 1.0 + max((int(file.name.split(".")[3]) for file in files), default=0)

    def _run_folder(self, run: TrackedRun) -> Path:
        """The folder of a run, which TensorBoard shows as its name.

        The folder is renamed where the label of the run has become known since the last push.
        """
        title = _as_folder(run.title_in(self._experiment))
        for name in (title, f"{title} {_as_folder(run.name)[-10:]}"):
            folder = self._folder / name
            owner = folder / RUN
            if not folder.exists() or (owner.is_file() and owner.read_text() == run.name):
                break
        if not folder.exists():
            former = self._former_folder(run)
            if former is not None:
                former.rename(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / RUN).write_text(run.name)
        return folder

    def _former_folder(self, run: TrackedRun) -> Path | None:
        owners = self._folder.glob(f"*/{RUN}")
        return next((o.parent for o in owners if o.read_text() == run.name), None)

    def close(self) -> None:
        """Close every file."""
        for file in self._open.values():
            file.close()
        self._open.clear()


def _settings(experiment: TrackedExperiment, run: TrackedRun) -> dict[str, Any]:
    """What tells a run apart from the others: its page has a column for each of these."""
    about = {"label": run.label, "task": run.task, "phase": run.phase, "seed": run.seed}
    if run.trial is not None:
        about["trial"] = run.trial
    settings = {**about, **telling_parameters(experiment, run)}
    # The plug-in accepts scalars only.
    return {k: v for k, v in settings.items() if isinstance(v, bool | int | float | str)}


def _hyperparameters(
    name: str, settings: Mapping[str, Any], run: TrackedRun, ended: RunEnd
) -> Iterator[Any]:
    """The summaries for the hyperparameter plug-in: settings, then the end of the session."""
    from tensorboard.compat.proto.summary_pb2 import Summary as Values
    from tensorboard.plugins.hparams import metadata
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo
    from tensorboard.plugins.hparams.summary_v2 import hparams_pb

    yield hparams_pb(dict(settings), trial_id=name, start_time_secs=run.started)
    end = SessionEndInfo(status=STATUS.get(ended.state, 0), end_time_secs=ended.time)
    value = Values.Value(
        tag=metadata.SESSION_END_INFO_TAG,
        metadata=metadata.create_summary_metadata(HParamsPluginData(session_end_info=end)),
        tensor=metadata.NULL_TENSOR,
    )
    yield Values(value=[value])


def _folder_name(aggregate: TrackedAggregate) -> str:
    return _as_folder(f"{aggregate.label} {aggregate.task}")


def _as_folder(text: str) -> str:
    """A text as the name of a folder; a changed name ends in a hash, so that names stay different."""
    name = ILLEGAL.sub("_", text).strip(". ") or "_"
    # Linux limits a name to 255 bytes.
    if name == text and len(name.encode()) <= LONGEST:
        return name
    mark = sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:8]
    short = name.encode("utf-8", "replace")[: LONGEST - 9].decode("utf-8", "ignore")
    return f"{short} {mark}"


def _budget_of(experiment: TrackedExperiment, aggregate: TrackedAggregate) -> int:
    """The environment steps of the runs of an aggregate; 0 where the definition has none."""
    labelled = [c for c in experiment.configurations if c.get("label") == aggregate.label]
    on_task = [c for c in labelled if c.get("task") == aggregate.task]
    # The winner of a sweep has the budget of the sweep's default configuration.
    for configuration in (*on_task, *experiment.configurations):
        budget = configuration.get("budget")
        steps = budget.get("steps") if isinstance(budget, Mapping) else None
        if isinstance(steps, int):
            return steps
    return 0


def _aggregate_scalars(aggregate: TrackedAggregate) -> Iterator[tuple[str, float]]:
    if aggregate.estimate is not None:
        # Under the name of the scores of single runs, so that one chart shows both.
        yield "score", aggregate.estimate.estimate
    names = (aggregate.metric, "low", "high", "n", "planned", "failed", "missing")
    counts = (aggregate.n, aggregate.planned, aggregate.failed, aggregate.missing)
    for name, value in zip(names, (*aggregate.numbers.values(), *counts), strict=True):
        if value is not None:
            yield f"~ aggregate/{name}", float(value)


def _text_summary(tag: str, text: str) -> Any:
    """A text in the form that the text plug-in reads."""
    from tensorboard.compat.proto.summary_pb2 import Summary as Values
    from tensorboard.plugins.text import metadata
    from tensorboard.util.tensor_util import make_tensor_proto

    about = metadata.create_summary_metadata(display_name="", description="")
    tensor = make_tensor_proto(text.encode())
    return Values(value=[Values.Value(tag=tag, metadata=about, tensor=tensor)])


def declare_columns(experiment: Path, settings: Mapping[str, Any]) -> None:
    """Declare the settings of a run as columns, together with those of all other experiments.

    Args:
        experiment: The folder of the experiment. One process at a time writes into it.
        settings: The settings of one of its runs.
    """
    stored = _read(experiment)
    kinds = {**stored, **{name: _kind(value) for name, value in settings.items()}}
    file = experiment.parent / DECLARATION
    if kinds == stored and file.exists():
        return
    (experiment / SETTINGS).write_text(json.dumps(kinds))
    every: dict[str, str] = {}
    for path in sorted(experiment.parent.glob(f"*/{SETTINGS}")):
        every |= _read(path.parent)
    # Published whole: another experiment may write its declaration at the same time.
    temporary = file.parent / f".{experiment.name}"
    writer = EventFileWriter(temporary, 0, AFTER_ALL)
    writer.summary(_declaration(every), 0, AFTER_ALL)
    writer.length()
    writer.close()
    temporary.replace(file)


def _read(experiment: Path) -> dict[str, str]:
    """The kinds of an experiment's settings; empty where the file is missing or damaged."""
    try:
        kinds = json.loads((experiment / SETTINGS).read_text())
    except (OSError, ValueError):
        return {}
    if not isinstance(kinds, dict):
        return {}
    return {str(name): kind for name, kind in kinds.items() if kind in KINDS}


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "truth"
    return "number" if isinstance(value, int | float) else "text"


def _declaration(kinds: Mapping[str, str]) -> Any:
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.hparams import api_pb2, plugin_data_pb2
    from tensorboard.plugins.hparams.metadata import (
        EXPERIMENT_TAG,
        NULL_TENSOR,
        create_summary_metadata,
    )

    types = {
        "number": api_pb2.DATA_TYPE_FLOAT64,
        "text": api_pb2.DATA_TYPE_STRING,
        "truth": api_pb2.DATA_TYPE_BOOL,
    }
    first = ("label", "task", "phase", "trial", "seed")
    names = [*(n for n in first if n in kinds), *(n for n in sorted(kinds) if n not in first)]
    experiment = api_pb2.Experiment(
        # TensorBoard shows five columns at first: those that are said to differ, then by name.
        hparam_infos=[
            api_pb2.HParamInfo(name=n, type=types[kinds[n]], differs=n in FIRST_SHOWN)
            for n in names
        ],
        metric_infos=[api_pb2.MetricInfo(name=api_pb2.MetricName(tag="score"))],
    )
    content = plugin_data_pb2.HParamsPluginData(experiment=experiment)
    about = create_summary_metadata(content)
    return Summary(value=[Summary.Value(tag=EXPERIMENT_TAG, metadata=about, tensor=NULL_TENSOR)])


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


def _to_single_precision(value: float) -> float:
    """The value, infinite if it is too large for single precision."""
    # protobuf raises an error for a finite value that does not fit into a float.
    largest = 3.4e38
    if isfinite(value) and abs(value) > largest:
        return float("inf") if value > 0 else float("-inf")
    return value
