"""What the experiment of a gate records about it: the command that repeats it, and its first margin.

The file marks the experiment: its runs are judged as runs of the code of one moment, so no other
command than the gate continues them.
"""

import os
import shlex
from dataclasses import asdict, dataclass

from rlexp.errors import RecordError
from rlexp.store.files import publish_json, read_json
from rlexp.store.layout import ExperimentPaths
from rlexp.store.secrets import mask, secret_values


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRecord:
    """The first gate of an experiment.

    Attributes:
        command: The command that repeats the gate, with secrets masked.
        margin: The margin; None for the experiment of a baseline without one.
    """

    command: tuple[str, ...]
    margin: float | None


def record_gate(
    paths: ExperimentPaths, command: tuple[str, ...], margin: float | None
) -> GateRecord:
    """Mark an experiment as that of a gate, before its first run; the first record stays.

    Returns:
        The first record of the experiment.

    Raises:
        RecordError: The file is damaged or cannot be written.
    """
    if paths.gate.exists():
        return _read(paths)
    values = secret_values(os.environ)
    record = GateRecord(command=tuple(mask(word, values) for word in command), margin=margin)
    try:
        paths.folder.mkdir(parents=True, exist_ok=True)
        publish_json(paths.gate, asdict(record))
    except OSError as error:
        raise RecordError(f"{paths.gate} cannot be written: {error.strerror}") from error
    return record


def gate_command(paths: ExperimentPaths) -> tuple[str, ...] | None:
    """The command that repeats the gate of an experiment; None for any other experiment."""
    if not paths.gate.exists():
        return None
    try:
        return _read(paths).command
    except RecordError:
        # A damaged file still marks the experiment.
        return ("rlexp", "gate", "BASELINE")


def refuse_gate(paths: ExperimentPaths) -> None:
    """Refuse to continue the experiment of a gate with other code.

    Raises:
        RecordError: It is one; the message has the command of the gate.
    """
    if command := gate_command(paths):
        raise RecordError(
            f"{paths.name} belongs to a gate, which trains and judges one state of the code: "
            f"repeat the gate: {shlex.join(command)}",
            command=shlex.join(command),
            key=paths.name,
        )


def _read(paths: ExperimentPaths) -> GateRecord:
    content = read_json(paths.gate)
    try:
        margin = content["margin"]
        return GateRecord(
            command=tuple(map(str, content["command"])),
            margin=None if margin is None else float(margin),
        )
    except (ArithmeticError, KeyError, TypeError, ValueError) as error:
        raise RecordError(f"{paths.gate} is damaged: {error!r}") from error
