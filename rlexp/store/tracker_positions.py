"""Sync positions of trackers, on disk: how much of each run a tracker's service has received.

A position may lag behind the service when a process was killed before it wrote the position.
Pushing is idempotent, so that pushing the same data again is harmless; therefore lines are not
synced to disk one by one.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Any

from rlexp.errors import RecordError
from rlexp.store.files import json_bytes, parse_json, publish, read_file, read_json, refuse_link
from rlexp.store.former_names import names_of
from rlexp.store.layout import ExperimentPaths
from rlexp.store.locks.lease import hold, is_held
from rlexp.store.schemas import TRACKER

STALE_LINES = 1000
"""Outdated lines after which the file is written anew."""
SERVICE_NAME = "name_in_services"
"""Key of the identity for the name of a renamed experiment in services."""
IDENTITY = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackerPosition:
    """How much of one run a service has received.

    Attributes:
        step: Environment step up to which the service has every row; -1 for no row.
        attempt: Last attempt whose end was pushed; 0 for none.
        lost: Last attempt that was reported as lost; 0 for none.
        begun: The attempt that the pushed data begins with; if the record begins with another
            attempt, everything is pushed anew.
        described: Digest of the label, task, trial and tags that the service shows; empty for none.
        kept: Values that the tracker stores for its next push.
    """

    step: int = -1
    attempt: int = 0
    lost: int = 0
    begun: int = 1
    described: str = ""
    kept: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExperimentIdentity:
    """How services know an experiment.

    Attributes:
        id: Its random id: 32 hexadecimal digits.
        name: The name that it had when the id was drawn; a renamed experiment keeps it, because a
            service would take another name for another experiment.
    """

    id: str
    name: str


def experiment_identity(paths: ExperimentPaths) -> ExperimentIdentity:
    """The id of the experiment for services, drawn once, and its name there.

    A copied experiment under another name gets another id; a renamed one keeps both.

    Raises:
        RecordError: The file is damaged, or a link.
        OSError: The file cannot be written.
    """
    path = paths.trackers / "identity.json"
    refuse_link(paths.trackers)
    if path.exists():
        document = read_json(path)
        stored = document.get("id")
        if not isinstance(stored, str) or not IDENTITY.fullmatch(stored):
            raise RecordError(
                f"{path} is damaged: remove {path.parent} to push everything anew, as new runs"
            )
        name = document.get("experiment")
        if name in names_of(paths):
            return ExperimentIdentity(stored, str(document.get(SERVICE_NAME, name)))
        path.unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    _create(path, json_bytes({"id": token_hex(16), "experiment": paths.name}, TRACKER))
    # Read back: another command may have created the file first, and then its id counts.
    return experiment_identity(paths)


def keep_identity(paths: ExperimentPaths) -> None:
    """Write the present name of a renamed experiment into its identity.

    Then a copy of the folder under the earlier name is recognised as a copy.

    Raises:
        RecordError: The file is damaged, or a link.
        OSError: The file cannot be written.
    """
    path = paths.trackers / "identity.json"
    if path.exists():
        identity = experiment_identity(paths)
        names = {"experiment": paths.name, SERVICE_NAME: identity.name}
        publish(path, json_bytes({"id": identity.id, **names}, TRACKER))


def _create(path: Path, content: bytes) -> None:
    """Write a new file; of two commands that do so at once, the first one's content stays."""
    fresh = path.with_name(f".{token_hex(4)}.{path.name}")
    fresh.write_bytes(content)
    try:
        # A hard link fails where the name exists; a rename would replace the other's file.
        os.link(fresh, path)
    except FileExistsError:
        pass
    except OSError:
        # A file system without hard links: two commands that begin at once may differ once.
        if not path.exists():
            fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def tracker_locations(paths: ExperimentPaths) -> list[tuple[str, str]]:
    """The trackers that have ever mirrored the experiment, each with its location.

    Raises:
        RecordError: A file is damaged, or a link.
    """
    refuse_link(paths.trackers)
    locations = []
    for path in sorted(paths.trackers.glob("*/place.json")):
        refuse_link(path.parent)
        document = read_json(path)
        locations.append((str(document.get("tracker")), str(document.get("place"))))
    return list(dict.fromkeys(locations))


class TrackerPositions:
    """The positions of all runs for one tracker at one location; one process may write them."""

    def __init__(self, paths: ExperimentPaths, tracker: str, location: str) -> None:
        """Read the stored positions.

        Args:
            paths: The experiment.
            tracker: Name of the tracker in the configuration.
            location: Address of its service, without secrets; every location has separate
                positions.

        Raises:
            RecordError: A file is damaged, or a link.
        """
        key = f"{location}\n{experiment_identity(paths).id}"
        self.folder = paths.trackers / f"{tracker}-{sha256(key.encode()).hexdigest()[:8]}"
        refuse_link(self.folder)
        self._what = f"the mirror of {paths.name} in {tracker}"
        self._named = {"tracker": tracker, "place": location}
        self._path = self.folder / "cursors.jsonl"
        self._cursors: dict[str, TrackerPosition] = {}
        self._lines = 0
        self._load()

    @contextmanager
    def holding(self, now: float) -> Iterator[None]:
        """Hold the lease of this tracker's positions; see `hold`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with hold(self._lock, self._what, now=now):
            # Read again under the lease: its previous holder may have written since.
            self._load()
            publish(self.folder / "place.json", json_bytes(self._named, TRACKER))
            yield

    @property
    def held(self) -> bool:
        """Whether a process pushes to this tracker now."""
        return is_held(self._lock)

    @property
    def _lock(self) -> Path:
        return self.folder / ".lock"

    def of(self, run: str) -> TrackerPosition:
        """The position of the run with this name."""
        return self._cursors.get(run, TrackerPosition())

    def pushed(self) -> list[TrackerPosition]:
        """The positions of all runs of which the service has received something."""
        return [cursor for run, cursor in self._cursors.items() if not run.startswith(".")]

    def move(self, run: str, **changes: Any) -> None:
        """Change fields of a run's position and append it to the file; see `TrackerPosition`.

        Raises:
            OSError: The file cannot be written; the position is unchanged.
        """
        moved = replace(self.of(run), **changes)
        if moved == self.of(run):
            return
        with self._path.open("ab") as file:
            file.write(_line(run, moved))
        self._cursors[run] = moved
        self._lines += 1
        if self._lines - len(self._cursors) > STALE_LINES:
            self._rewrite()

    def _rewrite(self) -> None:
        publish(self._path, b"".join(_line(*item) for item in self._cursors.items()))
        self._lines = len(self._cursors)

    def _load(self) -> None:
        self._cursors, self._lines = {}, 0
        try:
            *lines, tail = read_file(self._path).split(b"\n")
        except FileNotFoundError:
            return
        for line in lines:
            self._lines += 1
            try:
                document = parse_json(line)
                self._cursors[str(document["run"])] = TrackerPosition(
                    step=int(document["step"]),
                    attempt=int(document["attempt"]),
                    lost=int(document.get("lost", 0)),
                    begun=int(document.get("begun", 1)),
                    described=str(document.get("described", "")),
                    kept=dict(document["kept"]),
                )
            except (ValueError, KeyError, TypeError, RecursionError):
                # An older position is harmless: data that is pushed again is stored once.
                continue
        if tail:
            # A torn last line: the next line must not be appended to it.
            self._rewrite()


def _line(run: str, cursor: TrackerPosition) -> bytes:
    return json.dumps({"run": run, **asdict(cursor)}, separators=(",", ":")).encode() + b"\n"
