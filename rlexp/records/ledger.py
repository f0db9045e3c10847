"""The ledger of an experiment: what its records were when they were written, one entry a line."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rlexp.errors import RecordError

OF_THE_RUN = ("spec.json", "model.zip", "normalisation.npz")
"""Files of a run that are entered; the last two once it is completed."""
OF_THE_ATTEMPT = (
    *("events.jsonl", "verdict.json", "attempt.json"),
    *("provenance.json", "diff.patch"),
)
"""Files of an attempt that are entered, where they are there."""
DOCUMENTS = ("experiment.json", "selection.json", "adaptive.json")
"""Files of an experiment that are entered before they are written."""
SUM = re.compile(r"[0-9a-f]{64}")
_FOLDER = re.compile(r"[^/.\0][^/\0]{0,254}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedAttempt:
    """An attempt that ended.

    Attributes:
        run: The name of the run's folder.
        id: The run's identity.
        attempt: The attempt's number.
        ending: How it ended; `lost` where nobody could say so.
        files: By their path in the run's folder, their sha256.
        late: Whether it was entered by a later command than the one that saw it end.
    """

    run: str
    id: str
    attempt: int
    ending: str
    files: Mapping[str, str]
    late: bool = False

    def plain(self) -> dict[str, Any]:
        """As JSON values."""
        told = {"kind": "attempt", "run": self.run, "id": self.id, "attempt": self.attempt}
        return {**told, "ending": self.ending, "files": dict(self.files), **_if_late(self.late)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """The first bytes of a file that could grow: how many, and their sha256."""

    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedDocument:
    """A file of the experiment that is about to be written.

    Attributes:
        name: One of `DOCUMENTS`.
        sha256: Of what is written; nothing where there is no such file after all.
        trials: What the choice was made of.
        instead_of: The sha256 of what is written over, where that was never entered.
    """

    name: str
    sha256: str | None
    trials: Prefix | None = None
    instead_of: str | None = None

    def plain(self) -> dict[str, Any]:
        """As JSON values."""
        told: dict[str, Any] = {"kind": "document", "name": self.name, "sha256": self.sha256}
        if self.trials is not None:
            told["trials"] = {"bytes": self.trials.bytes, "sha256": self.trials.sha256}
        return told if self.instead_of is None else {**told, "instead_of": self.instead_of}


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedRun:
    """A run that `rlexp rm` removed; a late one was found to be gone."""

    run: str
    late: bool = False

    def plain(self) -> dict[str, Any]:
        """As JSON values."""
        return {"kind": "removed", "run": self.run, **_if_late(self.late)}


Entry = SealedAttempt | SealedDocument | RemovedRun


def _if_late(late: bool) -> dict[str, Any]:
    return {"late": True} if late else {}


def entry_from_plain(plain: Mapping[str, Any]) -> Entry:
    """The inverse of the entries' `plain`; names no file outside the run's folder.

    Raises:
        RecordError: The mapping is no entry of this version.
    """
    try:
        match plain["kind"]:
            case "attempt":
                return _attempt(plain)
            case "document":
                return _document(plain)
            case "removed":
                return RemovedRun(run=_folder(plain["run"]), late=bool(plain.get("late")))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RecordError(f"not an entry: {error!r}") from error
    raise RecordError(f"not an entry: {plain['kind']!r}")


def _attempt(plain: Mapping[str, Any]) -> SealedAttempt:
    number, files = plain["attempt"], plain["files"]
    if not isinstance(number, int) or number < 1:
        raise ValueError(f"attempt {number!r}")
    allowed = {*OF_THE_RUN, *(f"attempts/{number}/{name}" for name in OF_THE_ATTEMPT)}
    if not allowed.issuperset(files):
        raise ValueError(f"files {sorted(files)}")
    return SealedAttempt(
        run=_folder(plain["run"]),
        id=str(plain["id"]),
        attempt=number,
        ending=str(plain["ending"]),
        files={name: _sum(text) for name, text in files.items()},
        late=bool(plain.get("late")),
    )


def _document(plain: Mapping[str, Any]) -> SealedDocument:
    name, sha256, trials = plain["name"], plain["sha256"], plain.get("trials")
    instead_of = plain.get("instead_of")
    if name not in DOCUMENTS:
        raise ValueError(f"document {name!r}")
    if trials is not None:
        trials = Prefix(bytes=int(trials["bytes"]), sha256=_sum(trials["sha256"]))
    return SealedDocument(
        name=name,
        sha256=None if sha256 is None else _sum(sha256),
        trials=trials,
        instead_of=None if instead_of is None else _sum(instead_of),
    )


def _folder(name: Any) -> str:
    if not isinstance(name, str) or not _FOLDER.fullmatch(name):
        raise ValueError(f"run {name!r}")
    return name


def _sum(text: Any) -> str:
    if not isinstance(text, str) or not SUM.fullmatch(text):
        raise ValueError(f"sha256 {text!r}")
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """What the file of a ledger holds.

    Attributes:
        sums: The sha256 of every whole line; the last one is the head.
        entries: Of every line; nothing where it cannot be read.
        breaks: Where the chain is broken, in words.
        torn: Whether the file ends in a line that was not finished.
    """

    sums: tuple[str, ...] = ()
    entries: tuple[Entry | None, ...] = ()
    breaks: tuple[str, ...] = ()
    torn: bool = False

    @property
    def head(self) -> str | None:
        """The sha256 of the last line, which the whole chain leads to; nothing without a line."""
        return self.sums[-1] if self.sums else None


@dataclass(slots=True)
class Account:
    """What should be there, by the entries of a ledger in order.

    Attributes:
        runs: By the name of a run, its attempts by number.
        gone: Runs that were found to be gone, with the attempts that they had.
        anew: Runs whose attempts were made anew after their records were gone.
        documents: By name, what was to be written, in order.
        last: The entry of the last line.
    """

    runs: dict[str, dict[int, SealedAttempt]] = field(default_factory=dict)
    gone: dict[str, dict[int, SealedAttempt]] = field(default_factory=dict)
    anew: set[str] = field(default_factory=set)
    documents: dict[str, list[SealedDocument]] = field(default_factory=dict)
    last: Entry | None = None

    @classmethod
    def of(cls, entries: Iterable[Entry | None]) -> "Account":
        """Fold entries; those that cannot be read count for nothing."""
        account = cls()
        for entry in entries:
            account.last = entry
            match entry:
                case SealedAttempt():
                    account._seal(entry)
                case SealedDocument():
                    account.documents.setdefault(entry.name, []).append(entry)
                case RemovedRun():
                    account._remove(entry)
        return account

    def _seal(self, entry: SealedAttempt) -> None:
        own = self.runs.setdefault(entry.run, {})
        if entry.attempt in own:
            # No number is granted twice, unless the attempts that had it are gone.
            self.anew.add(entry.run)
            for number in [n for n in own if n >= entry.attempt]:
                del own[number]
        own[entry.attempt] = entry

    def _remove(self, entry: RemovedRun) -> None:
        own = self.runs.pop(entry.run, {})
        if entry.late:
            self.gone[entry.run] = {**self.gone.get(entry.run, {}), **own}
        else:
            self.gone.pop(entry.run, None)
            self.anew.discard(entry.run)
