"""Event files, which TensorBoard reads."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import IO, Any


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
