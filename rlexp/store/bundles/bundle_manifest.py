"""The manifest of a bundle: what it holds, with the sum of every file (`bundle.json`)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rlexp.errors import RecordError
from rlexp.store.files import json_bytes, parse_json
from rlexp.store.layout import NAME
from rlexp.store.schemas import BUNDLE, VERSION, WRITER

BUNDLE_MANIFEST = "bundle.json"
LARGEST_MANIFEST = 1 << 28
"""Most bytes of a manifest: about two million files."""
LONGEST_PATH = 1000
_SUM = re.compile(r"[0-9a-f]{64}", re.ASCII)
# No part begins with a dot: this excludes `..`, hidden files, and caches that a reader would trust.
_PART = re.compile(r"[^/.\\\0-\x1f\x7f][^/\\\0-\x1f\x7f]{0,254}")
_LONGEST_TEXT = 1000


@dataclass(frozen=True, slots=True)
class BundledFile:
    """A file of a bundle: its path, number of bytes and sha256."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class BundledLedger:
    """An experiment of a bundle, and the last lines of its chains.

    Attributes:
        experiment: Its name.
        head: The sha256 of the last line of its ledger; None where there is none.
        candidates: The sha256 of the last line of its register of candidates; None for an experiment
            that is no stream.
    """

    experiment: str
    head: str | None
    candidates: str | None = None


@dataclass(frozen=True, slots=True)
class BundledReport:
    """A report in a bundle.

    Attributes:
        folder: Its folder.
        targets: The reported experiments.
        phase: The phase of their runs.
        overrides: The changed settings.
    """

    folder: str
    targets: tuple[str, ...]
    phase: str
    overrides: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CitedAuthor:
    """An author of a study: the name as it is cited, and the ORCID where it was given."""

    name: str
    orcid: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredStudy:
    """What the authors of a bundle say about their study.

    Attributes:
        title: The title.
        authors: The authors.
        license: The license of the records (SPDX identifier); None where nothing was said.
        published: The day of publication, `YYYY-MM-DD`.
        citation: Whether `CITATION.cff` is a file of the authors, and not made from these values.
    """

    title: str
    authors: tuple[CitedAuthor, ...]
    license: str | None
    published: str
    citation: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleManifest:
    """What a bundle holds.

    Attributes:
        writer: The version of rlexp that wrote it.
        ledgers: The experiments with the heads of their ledgers.
        looks: The head of the register of looks; None where there is none.
        protocols: The head of the register of protocols; None where there is none.
        reports: The reports.
        versions: Versions of what computed the reports, by name.
        requirements: The packages that the runs need besides rlexp, as requirements of pip.
        wheel: The file with rlexp itself; None where it is not in the bundle.
        code: Whether the bundle holds the code of the study (`code.bundle`).
        declared: What the authors say about the study.
        files: Every other file.
    """

    writer: str
    ledgers: tuple[BundledLedger, ...]
    looks: str | None
    protocols: str | None
    reports: tuple[BundledReport, ...]
    versions: Mapping[str, str]
    requirements: tuple[str, ...]
    wheel: str | None
    code: bool
    declared: DeclaredStudy
    files: tuple[BundledFile, ...] = ()

    def encode(self) -> bytes:
        """The content of `bundle.json`; the same manifest gives the same bytes."""
        content = asdict(self)
        del content["writer"]
        content["files"] = {
            f.path: {"bytes": f.bytes, "sha256": f.sha256}
            for f in sorted(self.files, key=lambda f: f.path)
        }
        return json_bytes(content, BUNDLE)


def decode_bundle(text: bytes) -> BundleManifest:
    """The manifest of the text of `bundle.json`.

    Raises:
        RecordError: The text is not the manifest of a bundle that this version reads.
    """
    try:
        document = parse_json(text)
        BUNDLE.check(document, BUNDLE_MANIFEST)
        return _manifest({k: v for k, v in document.items() if k != VERSION})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RecordError(
            f"{BUNDLE_MANIFEST} is not the manifest of a bundle: {error!r}"[:200]
        ) from error


def check_path(path: str) -> str:
    """Return the path of a file of a bundle, which can only lead into the bundle.

    Raises:
        RecordError: The path is absolute, hidden or too long, or leads upwards.
    """
    if len(path) > LONGEST_PATH or not all(map(_PART.fullmatch, path.split("/"))):
        raise RecordError(
            f"{path!r:.120} is not the path of a file of a bundle: it is absolute, hidden or too long, "
            "or leads out of the bundle"
        )
    return path


def check_tree(paths: Sequence[str]) -> None:
    """Refuse paths of which one is the folder of another, or which occur twice.

    Raises:
        RecordError: There are such paths.
    """
    files = set(paths)
    if len(files) < len(paths):
        seen: set[str] = set()
        twice = next(path for path in paths if path in seen or seen.add(path))  # type: ignore[func-returns-value]
        raise RecordError(f"the bundle holds {twice!r:.120} twice")
    for path in paths:
        if not files.isdisjoint(str(folder) for folder in Path(path).parents):
            raise RecordError(f"{path!r:.120} lies in a file of the bundle")


def _manifest(document: Mapping[str, Any]) -> BundleManifest:
    files = document["files"].items()
    checked = tuple(
        BundledFile(check_path(path), _size(f["bytes"]), _sum(f["sha256"])) for path, f in files
    )
    check_tree([file.path for file in checked])
    wheel = _optional(document["wheel"])
    return BundleManifest(
        writer=_text(document[WRITER]),
        ledgers=tuple(
            BundledLedger(
                _name(entry["experiment"]),
                _optional_sum(entry["head"]),
                _optional_sum(entry.get("candidates")),
            )
            for entry in document["ledgers"]
        ),
        looks=_optional_sum(document["looks"]),
        protocols=_optional_sum(document["protocols"]),
        reports=tuple(map(_report, document["reports"])),
        versions={_text(name): _text(v) for name, v in document["versions"].items()},
        requirements=_texts(document["requirements"]),
        wheel=None if wheel is None else check_path(wheel),
        code=document["code"] is True,
        declared=_declared(document["declared"]),
        files=checked,
    )


def _report(values: Mapping[str, Any]) -> BundledReport:
    return BundledReport(
        folder=check_path(_text(values["folder"])),
        targets=tuple(map(_name, values["targets"])),
        phase=_text(values["phase"]),
        overrides=_texts(values["overrides"]),
    )


def _declared(values: Mapping[str, Any]) -> DeclaredStudy:
    return DeclaredStudy(
        title=_text(values["title"]),
        authors=tuple(
            CitedAuthor(_text(author["name"]), _optional(author["orcid"]))
            for author in values["authors"]
        ),
        license=_optional(values["license"]),
        published=_text(values["published"]),
        citation=values["citation"] is True,
    )


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST_TEXT:
        raise TypeError(f"{value!r:.80} is no short text")
    return value


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list):
        raise TypeError(f"{values!r:.80} is no list")
    return tuple(map(_text, values))


def _optional(value: Any) -> str | None:
    return None if value is None else _text(value)


def _name(value: Any) -> str:
    if not NAME.fullmatch(_text(value)) or ".." in value:
        raise ValueError(f"{value!r:.80} is no name of an experiment")
    return str(value)


def _sum(value: Any) -> str:
    if not _SUM.fullmatch(_text(value)):
        raise ValueError(f"{value!r:.80} is no sha256")
    return str(value)


def _optional_sum(value: Any) -> str | None:
    return None if value is None else _sum(value)


def _size(value: Any) -> int:
    # For `isinstance`, JSON's `true` is an integer.
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r:.80} is no size")
    return value
