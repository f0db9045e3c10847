"""The ledger of an experiment: checksums of its records when they were written, one per line."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from rlexp.errors import RecordError

RUN_FILES = ("spec.json", "model.zip", "normalisation.npz")
"""Files of a run whose checksums are entered; the last two when the run is completed."""
ATTEMPT_FILES = (
    *("events.jsonl", "verdict.json", "attempt.json"),
    *("provenance.json", "diff.patch"),
)
"""Files of an attempt whose checksums are entered, if they exist."""
SCORING_FILE = "scoring.json"
"""The file of a run of a stream whose checksum is entered when the trusted code has scored the run."""
DOCUMENTS = ("experiment.json", "selection.json", "adaptive.json", "ablation.json")
"""Files of an experiment whose checksums are entered before they are written."""
SUM = re.compile(r"[0-9a-f]{64}")
# No name begins with a dot: this excludes `..` and hidden files.
_FOLDER = re.compile(r"[^/.\0][^/\0]{0,254}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedAttempt:
    """An attempt that ended.

    Attributes:
        run: The name of the run's folder.
        id: The run's identity.
        attempt: The attempt's number.
        ending: Outcome of the attempt; `lost` if its process recorded none.
        files: The sha256 of each file, by its path in the run's folder.
        late: Whether a later command than the one that saw it end entered it.
    """

    run: str
    id: str
    attempt: int
    ending: str
    files: Mapping[str, str]
    late: bool = False

    def plain(self) -> dict[str, Any]:
        """As JSON values."""
        attempt = {"kind": "attempt", "run": self.run, "id": self.id, "attempt": self.attempt}
        return {**attempt, "ending": self.ending, "files": dict(self.files), **_if_late(self.late)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """The first bytes of a file that may grow: their number and their sha256."""

    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedDocument:
    """A file of the experiment that is about to be written.

    Attributes:
        name: One of `DOCUMENTS`.
        sha256: The sha256 of the new content; None if the file was not written after all.
        trials: The part of `trials.jsonl` on which a selection is based.
        instead_of: The sha256 of the content that is replaced, if it was never entered.
    """

    name: str
    sha256: str | None
    trials: Prefix | None = None
    instead_of: str | None = None

    def plain(self) -> dict[str, Any]:
        """As JSON values."""
        entry: dict[str, Any] = {"kind": "document", "name": self.name, "sha256": self.sha256}
        if self.trials is not None:
            entry["trials"] = {"bytes": self.trials.bytes, "sha256": self.trials.sha256}
        return entry if self.instead_of is None else {**entry, "instead_of": self.instead_of}


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedRun:
    """A run that `rlexp rm` removed; if `late`, a later command found it missing."""

    run: str
    late: bool = False

    def plain(self) -> dict[str, Any]:
        """As JSON values."""
        return {"kind": "removed", "run": self.run, **_if_late(self.late)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedScoring:
    """The score of a run of a stream, which comes after the attempt has ended.

    Attributes:
        run: The name of the run's folder.
        sha256: The sha256 of its `scoring.json`.
    """

    run: str
    sha256: str

    def plain(self) -> dict[str, Any]:
        """As JSON values."""
        return {"kind": "scoring", "run": self.run, "sha256": self.sha256}


Entry = SealedAttempt | SealedDocument | SealedScoring | RemovedRun


def _if_late(late: bool) -> dict[str, Any]:
    return {"late": True} if late else {}


def entry_from_plain(mapping: Mapping[str, Any]) -> Entry:
    """The entry of a mapping of JSON values; the inverse of the entries' method `plain`.

    Raises:
        RecordError: The mapping is not an entry of this version.
    """
    # Names of runs and files are checked here: a forged ledger must not make `rlexp verify` read
    # a file outside of the run's folder.
    try:
        match mapping["kind"]:
            case "attempt":
                return _attempt(mapping)
            case "document":
                return _document(mapping)
            case "scoring":
                return SealedScoring(run=_folder(mapping["run"]), sha256=_sum(mapping["sha256"]))
            case "removed":
                return RemovedRun(run=_folder(mapping["run"]), late=bool(mapping.get("late")))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RecordError(f"not an entry: {error!r}") from error
    raise RecordError(f"not an entry: {mapping['kind']!r}")


def _attempt(mapping: Mapping[str, Any]) -> SealedAttempt:
    number, files = mapping["attempt"], mapping["files"]
    if not isinstance(number, int) or number < 1:
        raise ValueError(f"attempt {number!r}")
    allowed = {*RUN_FILES, *(f"attempts/{number}/{name}" for name in ATTEMPT_FILES)}
    if not allowed.issuperset(files):
        raise ValueError(f"files {sorted(files)}")
    return SealedAttempt(
        run=_folder(mapping["run"]),
        id=str(mapping["id"]),
        attempt=number,
        ending=str(mapping["ending"]),
        files={name: _sum(text) for name, text in files.items()},
        late=bool(mapping.get("late")),
    )


def _document(mapping: Mapping[str, Any]) -> SealedDocument:
    name, sha256, trials = mapping["name"], mapping["sha256"], mapping.get("trials")
    instead_of = mapping.get("instead_of")
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
    # `fullmatch`, because `$` would also match before a final line break.
    if not isinstance(text, str) or not SUM.fullmatch(text):
        raise ValueError(f"sha256 {text!r}")
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The content of a ledger file.

    Attributes:
        sums: The sha256 of every complete line; the last one is the head.
        entries: The entry of every line; None for a line that cannot be read.
        breaks: Messages about the places where the chain of checksums is broken.
        torn: Whether the last line is incomplete.
    """

    sums: tuple[str, ...] = ()
    entries: tuple[Entry | None, ...] = ()
    breaks: tuple[str, ...] = ()
    torn: bool = False

    @property
    def head(self) -> str | None:
        """The sha256 of the last line, which depends on all lines; None for an empty ledger."""
        return self.sums[-1] if self.sums else None


@dataclass(slots=True)
class ExpectedRecords:
    """The expected state of an experiment, according to the entries of its ledger.

    Attributes:
        runs: Attempts by number, by the name of the run.
        gone: Runs that were noticed to be missing, with their attempts.
        anew: Runs whose attempts were repeated after their records had disappeared.
        documents: Entries of each document, in order, by name.
        last: The entry of the last line.
    """

    runs: dict[str, dict[int, SealedAttempt]] = field(default_factory=dict)
    gone: dict[str, dict[int, SealedAttempt]] = field(default_factory=dict)
    anew: set[str] = field(default_factory=set)
    documents: dict[str, list[SealedDocument]] = field(default_factory=dict)
    last: Entry | None = None

    @classmethod
    def of(cls, entries: Iterable[Entry | None]) -> Self:
        """The account after all entries; unreadable entries are skipped."""
        account = cls()
        for entry in entries:
            account.last = entry
            match entry:
                case SealedAttempt():
                    account._seal(entry)
                case SealedDocument():
                    account.documents.setdefault(entry.name, []).append(entry)
                case SealedScoring():
                    account._score(entry)
                case RemovedRun():
                    account._remove(entry)
        return account

    def has_scoring(self, run: str) -> bool:
        """Whether the score of a run is in the ledger."""
        return any(SCORING_FILE in attempt.files for attempt in self.runs.get(run, {}).values())

    def _seal(self, entry: SealedAttempt) -> None:
        attempts = self.runs.setdefault(entry.run, {})
        if entry.attempt in attempts:
            # The store never gives an attempt number twice while the attempt's folder exists: a
            # repeated number means that the records of this and all later attempts were lost.
            self.anew.add(entry.run)
            for number in [n for n in attempts if n >= entry.attempt]:
                del attempts[number]
        attempts[entry.attempt] = entry

    def _score(self, entry: SealedScoring) -> None:
        attempts = self.runs.get(entry.run, {})
        if attempts:
            # The score is one more file of the attempt that it belongs to: the last one so far.
            last = attempts[max(attempts)]
            files = {**last.files, SCORING_FILE: entry.sha256}
            attempts[last.attempt] = replace(last, files=files)

    def _remove(self, entry: RemovedRun) -> None:
        attempts = self.runs.pop(entry.run, {})
        if entry.late:
            self.gone[entry.run] = {**self.gone.get(entry.run, {}), **attempts}
        else:
            # `rlexp rm` removed the run on purpose, so that it no longer counts as missing.
            self.gone.pop(entry.run, None)
            self.anew.discard(entry.run)
