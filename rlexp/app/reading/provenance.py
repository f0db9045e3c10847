"""Reads the last command of an experiment and its settings, as its attempts recorded them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlexp.app.reading.experiment_scan import READ_ERRORS, ExperimentScan
from rlexp.errors import RlexpError
from rlexp.records.run import RunRecord
from rlexp.store.files import document_in, read_json
from rlexp.store.layout import AttemptPaths


@dataclass(frozen=True, slots=True)
class LastCommand:
    """The record of the newest attempt; every field is empty where it is missing or damaged.

    Attributes:
        command: The command line that the user typed, with secrets masked.
        folder: The folder of the workspace in which the command was given.
        settings: The settings of the attempt.
    """

    command: tuple[str, ...] = ()
    folder: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


def read_last_command(scan: ExperimentScan) -> LastCommand:
    """Read the record of the newest attempt of an experiment."""
    stored = [f.stored for f in scan.runs if f.stored and f.stored.record.attempts]
    if not stored:
        return LastCommand()
    newest = max(stored, key=lambda run: last_time(run.record)).paths.attempts()[-1]
    return command_in(provenance_of(newest), settings_of(newest))


def command_in(provenance: Mapping[str, Any], settings: Mapping[str, Any]) -> LastCommand:
    """The command that the provenance of an attempt holds, with the settings of the attempt."""
    command = provenance.get("command")
    return LastCommand(
        command=tuple(map(str, command)) if isinstance(command, list) else (),
        folder=str(provenance.get("folder") or ""),
        settings=settings,
    )


def last_time(record: RunRecord) -> float:
    """The time in seconds since 1970 at which a run was started or ended last; 0 before."""
    return max(record.started or 0.0, record.ended or 0.0)


def provenance_of(attempt: AttemptPaths) -> Mapping[str, Any]:
    """The provenance of an attempt; empty where it is missing or damaged."""
    return _read_leniently(attempt.provenance)


def provenance_in(content: bytes, path: Path) -> Mapping[str, Any]:
    """The provenance in the content of the file at `path`; empty where it is damaged."""
    try:
        return document_in(content, path)[1]
    except (RlexpError, *READ_ERRORS):
        return {}


def settings_of(attempt: AttemptPaths) -> Mapping[str, Any]:
    """The settings of an attempt; empty where they are missing or damaged."""
    return _read_leniently(attempt.settings)


def _read_leniently(path: Path) -> Mapping[str, Any]:
    try:
        return read_json(path)
    except (RlexpError, *READ_ERRORS):
        return {}
