"""How far the services of trackers are with an experiment's runs, on disk.

A cursor may lag behind what a service has, if a process was killed before it wrote: what is
pushed twice is there once. So lines are not made durable one by one.
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
from rlexp.store.layout import ExperimentPaths
from rlexp.store.lease import hold, is_held
from rlexp.store.schemas import TRACKER

STALE_LINES = 1000
"""Lines that later ones replace; with more of them, the file is written anew."""
IDENTITY = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """How far a service is with one run.

    Attributes:
        step: It has every row up to this environment step; -1 where it has none.
        attempt: The attempt whose end it was told; 0 where none.
        lost: The attempt of which it was told that it is lost; 0 where none.
        begun: The attempt that began what counts: with another one, everything is pushed anew.
        kept: What the tracker wants to see again.
    """

    step: int = -1
    attempt: int = 0
    lost: int = 0
    begun: int = 1
    kept: Mapping[str, Any] = field(default_factory=dict)


def identity(paths: ExperimentPaths) -> str:
    """The name by which services know the experiment: drawn once, 32 hexadecimal digits.

    A copy under another name is another experiment.

    Raises:
        RecordError: What is there is damaged, or a link.
        OSError: It cannot be written.
    """
    path = paths.trackers / "identity.json"
    refuse_link(paths.trackers)
    if path.exists():
        plain = read_json(path)
        found = plain.get("id")
        if not isinstance(found, str) or not IDENTITY.fullmatch(found):
            raise RecordError(
                f"{path} is damaged: remove {path.parent} to push everything anew, as new runs"
            )
        if plain.get("experiment") == paths.name:
            return found
        path.unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    _create(path, json_bytes({"id": token_hex(16), "experiment": paths.name}, TRACKER))
    return identity(paths)


def _create(path: Path, content: bytes) -> None:
    """Write a file that must not be there; of two commands, the first one's stands."""
    fresh = path.with_name(f".{token_hex(4)}.{path.name}")
    fresh.write_bytes(content)
    try:
        # A link is made only where there is none.
        os.link(fresh, path)
    except FileExistsError:
        pass
    except OSError:
        # A file system without such links: two commands that begin at once may differ once.
        if not path.exists():
            fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def places(paths: ExperimentPaths) -> list[tuple[str, str]]:
    """The trackers that the experiment was ever mirrored by, with the place of each.

    Raises:
        RecordError: What says so is damaged, or a link.
    """
    refuse_link(paths.trackers)
    found = []
    for path in sorted(paths.trackers.glob("*/place.json")):
        refuse_link(path.parent)
        plain = read_json(path)
        found.append((str(plain.get("tracker")), str(plain.get("place"))))
    return list(dict.fromkeys(found))


class Cursors:
    """The cursors of one tracker at one place, for the one process that pushes there."""

    def __init__(self, paths: ExperimentPaths, tracker: str, place: str) -> None:
        """Read what is there.

        Args:
            paths: The experiment.
            tracker: Its name in the configuration.
            place: Where it mirrors to, without secrets; another place has cursors of its own.

        Raises:
            RecordError: What is there is damaged, or a link.
        """
        key = f"{place}\n{identity(paths)}"
        self.folder = paths.trackers / f"{tracker}-{sha256(key.encode()).hexdigest()[:8]}"
        refuse_link(self.folder)
        self._what = f"the mirror of {paths.name} in {tracker}"
        self._named = {"tracker": tracker, "place": place}
        self._path = self.folder / "cursors.jsonl"
        self._cursors: dict[str, Cursor] = {}
        self._lines = 0
        self._load()

    @contextmanager
    def holding(self, now: float) -> Iterator[None]:
        """Hold what only one process may push to; see `hold`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with hold(self._lock, self._what, now=now):
            # Whoever held it before may have written since.
            self._load()
            publish(self.folder / "place.json", json_bytes(self._named, TRACKER))
            yield

    @property
    def held(self) -> bool:
        """Whether another process pushes now."""
        return is_held(self._lock)

    @property
    def _lock(self) -> Path:
        return self.folder / ".lock"

    def of(self, run: str) -> Cursor:
        """How far the service is with the run of this name."""
        return self._cursors.get(run, Cursor())

    def move(self, run: str, **changes: Any) -> None:
        """Write how far it is now; see `Cursor`.

        Raises:
            OSError: It cannot be written; it stands where it stood.
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
                plain = parse_json(line)
                self._cursors[str(plain["run"])] = Cursor(
                    step=int(plain["step"]),
                    attempt=int(plain["attempt"]),
                    kept=dict(plain["kept"]),
                )
            except (ValueError, KeyError, TypeError, RecursionError):
                # What cannot be read lags: what is pushed again is there once.
                continue
        if tail:
            self._rewrite()


def _line(run: str, cursor: Cursor) -> bytes:
    return json.dumps({"run": run, **asdict(cursor)}, separators=(",", ":")).encode() + b"\n"
