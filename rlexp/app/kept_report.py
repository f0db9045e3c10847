"""A report that was written before, and whether it would be the same now.

It is a function of records, settings and code. Where no file of these has changed, nothing is
computed again.
"""

import json
import os
import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import rlexp
from rlexp.app.workspace import cache_folder
from rlexp.errors import RecordError
from rlexp.reports.blocks import Notice, Tone
from rlexp.store.file_systems import is_shared
from rlexp.store.files import publish_json, read_file, read_json
from rlexp.store.layout import ExperimentPaths
from rlexp.store.lease import is_held
from rlexp.store.ledger import sum_of_file
from rlexp.store.secrets import secret_values
from rlexp.store.stamps import SETTLED, stamp_of_tree

UNTOLD = frozenset({".catalogue", ".lease", ".claim", ".lock", "log.txt", "progress.bin"})
"""Files of an experiment that no report tells of."""
COMPILED = frozenset({"__pycache__"})
PACKAGES = ("rlexp", "jinja2", "numpy", "scipy", "matplotlib")
"""Whose versions can change a number or a figure."""
VARIABLE = "${"
"""What stands before the name of a variable whose value is filled in later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What is said of a report.

    Attributes:
        notices: What a reader must not miss.
        failed_checks: What `--strict` refuses.
        labels: How many are under comparison.
    """

    notices: tuple[Notice, ...]
    failed_checks: tuple[str, ...]
    labels: int


@dataclass(frozen=True, slots=True)
class Kept:
    """A report of earlier: its files, and what was said of them."""

    files: tuple[Path, ...]
    told: Told


@dataclass(frozen=True, slots=True)
class Source:
    """What a report is made from.

    Attributes:
        place: Of the note on the report.
        digest: Of everything that it is made from. Nothing where the times of files do not tell
            whether that changes: while a command drives an experiment, in the moments after a
            change, where variables of the environment are filled in, and where other machines
            write to it.
    """

    place: Path
    digest: str | None

    @classmethod
    def of(
        cls, folder: Path, asked: Mapping[str, Any], experiments: Sequence[ExperimentPaths] | None
    ) -> "Source":
        """The source of a report of the workspace in `folder`.

        Args:
            folder: The workspace's.
            asked: Targets and settings, as JSON values.
            experiments: Whose records it tells of; nothing where more than files decide.
        """
        name = _sum([os.path.realpath(folder), asked])
        place = cache_folder() / "reports" / f"{name[:32]}.json"
        return cls(place, None if experiments is None else _digest(asked, experiments))

    def find(self) -> Kept | None:
        """The report that was made from the same, if its files are still what was written."""
        if self.digest is None:
            return None
        with suppress(RecordError, KeyError, TypeError, ValueError, AttributeError):
            plain = read_json(self.place)
            sums = {Path(name): text for name, text in plain["files"].items()}
            if plain["source"] == self.digest and all(sum_of_file(p) == sums[p] for p in sums):
                return Kept(tuple(sums), _told(plain["told"]))
        return None

    def keep(self, files: Mapping[Path, bytes], told: Told) -> None:
        """Note what a report was made from; a place that takes nothing is left out."""
        if self.digest is None:
            return
        plain = {
            "source": self.digest,
            "files": {str(path): sha256(content).hexdigest() for path, content in files.items()},
            "told": asdict(told),
        }
        with suppress(OSError, RecordError):
            # What is masked is part of a sum, at which nobody else shall guess.
            self.place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            publish_json(self.place, plain)


def _digest(asked: Mapping[str, Any], experiments: Iterable[ExperimentPaths]) -> str | None:
    if VARIABLE in json.dumps(asked):
        return None
    before = time.time() - SETTLED
    code = stamp_of_tree(str(Path(rlexp.__file__).parent), before, folders=COMPILED)
    stamps = [code, *(_stamp(paths, before) for paths in experiments)]
    if None in stamps:
        return None
    versions = [platform.python_version(), *map(_version, PACKAGES)]
    masked = sorted(secret_values(os.environ))
    return _sum([asked, stamps, versions, masked])


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _stamp(paths: ExperimentPaths, before: float) -> str | None:
    if is_held(paths.lock) or is_shared(paths.catalogue):
        return None
    with suppress(OSError):
        # Those of a tuner are filled in whenever a sweep is read.
        if VARIABLE.encode() not in read_file(paths.definition):
            return stamp_of_tree(os.path.realpath(paths.folder), before, files=UNTOLD)
    return None


def _sum(plain: Sequence[Any]) -> str:
    return sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def _told(plain: Mapping[str, Any]) -> Told:
    return Told(
        notices=tuple(Notice(tone=Tone(n["tone"]), text=str(n["text"])) for n in plain["notices"]),
        failed_checks=tuple(map(str, plain["failed_checks"])),
        labels=int(plain["labels"]),
    )
