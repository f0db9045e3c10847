"""How an experiment was driven last: its command and its settings, as its attempts recorded them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlexp.app.reading.survey import DAMAGE, Survey
from rlexp.errors import RlexpError
from rlexp.store.files import read_json
from rlexp.store.layout import AttemptPaths
from rlexp.store.runs import StoredRun


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the newest attempt says; everything is empty where there is none, or it is damaged.

    Attributes:
        command: What the user typed, secrets masked.
        folder: The folder of the workspace where it was typed.
        settings: What the attempt was asked for besides its run.
    """

    command: tuple[str, ...] = ()
    folder: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


def read_recorded(found: Survey) -> Recorded:
    """Read what the newest attempt of an experiment recorded."""
    stored = [f.stored for f in found.runs if f.stored and f.stored.record.attempts]
    if not stored:
        return Recorded()
    newest = max(stored, key=_time).paths.attempts()[-1]
    provenance = provenance_of(newest)
    words = provenance.get("command")
    return Recorded(
        command=tuple(map(str, words)) if isinstance(words, list) else (),
        folder=str(provenance.get("folder") or ""),
        settings=_whatever(newest.settings),
    )


def _time(stored: StoredRun) -> float:
    record = stored.record
    return max(record.started or 0.0, record.ended or 0.0)


def provenance_of(attempt: AttemptPaths) -> Mapping[str, Any]:
    """Where an attempt's numbers come from; nothing where that is missing or damaged."""
    return _whatever(attempt.provenance)


def _whatever(path: Path) -> Mapping[str, Any]:
    try:
        return read_json(path)
    except (RlexpError, *DAMAGE):
        return {}
