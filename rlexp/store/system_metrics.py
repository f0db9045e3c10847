"""Reads and writes the file of an attempt with measurements of processor, memory and GPUs.

The file stands beside the journal and not in it. Its values differ from run to run, while the
journals of repeated runs are equal. It is no record of a score: the ledger does not seal it, and a
damaged or missing file changes no result.
"""

import json
import os

from rlexp.errors import RecordError
from rlexp.records.system_metrics import SystemMeasurement
from rlexp.store.files import parse_json
from rlexp.store.journal import follow
from rlexp.store.layout import AttemptPaths, RunPaths


def append_measurement(attempt: AttemptPaths, measurement: SystemMeasurement) -> None:
    """Append one line by a single write.

    Raises:
        OSError: The disk is full, or the folder of the attempt is gone.
    """
    line = json.dumps(measurement.plain(), separators=(",", ":"), allow_nan=False)
    descriptor = os.open(attempt.system_metrics, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        # A line break comes first: a line that a full disk cut short spoils no other line.
        os.write(descriptor, f"\n{line}\n".encode())
    finally:
        os.close(descriptor)


def follow_measurements(attempt: AttemptPaths, offset: int) -> tuple[list[SystemMeasurement], int]:
    """The measurements after `offset` bytes, and the offset behind the last of them.

    Damaged lines give no measurement, and neither does a file that cannot be read.
    """
    try:
        lines, offset = follow(attempt.system_metrics, offset)
    except OSError:
        return [], offset
    measurements = []
    for line in filter(None, lines):
        try:
            measurements.append(SystemMeasurement.from_plain(parse_json(line)))
        except (ValueError, RecursionError, RecordError):
            continue
    return measurements, offset


def read_measurements(attempt: AttemptPaths) -> list[SystemMeasurement]:
    """All measurements of an attempt; see `follow_measurements`."""
    return follow_measurements(attempt, 0)[0]


def read_all_measurements(run: RunPaths) -> list[SystemMeasurement]:
    """The measurements of all attempts of a run, in their order.

    Raises:
        RecordError: The folder of the attempts cannot be read.
    """
    return [m for attempt in run.attempts() for m in read_measurements(attempt)]
