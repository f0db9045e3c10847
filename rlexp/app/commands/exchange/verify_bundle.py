"""`rlexp verify BUNDLE`: checks a bundle with nothing else at hand.

The files of the manifest are copied into a temporary folder, and everything is computed from the copies:
no cache of an unpacked bundle is trusted, nothing of it is executed, and no class of it is imported.
"""

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar

from rlexp.app.bundling.documents import CITATION, CODE, write_documents
from rlexp.app.bundling.recorded_versions import read_versions
from rlexp.app.bundling.studies import bundled_studies
from rlexp.app.bundling.wheel import pack_wheel
from rlexp.app.commands.exchange.bundle_reports import (
    FIGURES,
    NUMBERS,
    can_draw,
    compute_bundled_report,
    computing_versions,
    render_bundled_report,
    unpacked_workspace,
)
from rlexp.app.commands.exchange.verify import (
    VerifiedExperiment,
    VerifiedLooks,
    VerifiedProtocols,
    hexadecimal,
    verify,
)
from rlexp.app.commands.judge.report import REPORTS, report_folder
from rlexp.app.reading.experiment_scan import survey
from rlexp.app.results import Displayed, Schema
from rlexp.app.streams.verification import VerifiedStream
from rlexp.app.workspace import Workspace
from rlexp.errors import NO_SPACE, RecordError, RlexpError
from rlexp.installation_way import install_command
from rlexp.records.integrity import SHORT
from rlexp.store.bundles.bundle_archive import ARCHIVE, StagedBundle, is_bundle, stage_bundle
from rlexp.store.bundles.bundle_manifest import BUNDLE_MANIFEST, BundledReport
from rlexp.store.registers.ledger import read_ledger
from rlexp.store.schemas import writer
from rlexp.temporary_folders import scratch
from rlexp.text import format_count, join_first_names, join_names

SCRATCH = "rlexp-verify-"
RECORDS_FOLDER, SETTINGS_FOLDER = "runs/", "conf/"
CLOSE = 1e-9
"""The largest relative difference of two numbers that counts as rounding."""
MOST_NAMED = 5
"""Most differences of a report that are named one by one."""
UNKNOWN = (
    "whether the records were made up as a whole: only heads that were published elsewhere show it",
    "whether the clocks of the machines were right, and what happened outside of this bundle",
    "what the code of the study does: nothing of it was executed; 'rlexp reproduce' repeats runs",
)
"""What no check of a bundle can show."""


class BundleFault(StrEnum):
    """Kind of a finding on a bundle."""

    MISSING = "missing"
    EDITED = "edited"
    ADDED = "added"
    HEAD = "other head"
    NUMBERS = "other numbers"
    REMADE = "not what follows"
    UNCHECKED = "not computed"
    REMARK = "remark"


FAULTLESS = frozenset({BundleFault.REMARK})
"""Kinds that are no fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleFinding:
    """A finding on a bundle.

    Attributes:
        kind: The kind of finding (`missing`, `edited`, `added`, `other head`, `other numbers`,
            `not what follows`, `not computed`, `remark`).
        text: The finding as a sentence.
        path: The file or folder; null for a finding on the bundle.
        fault: Whether the bundle is not what was written, or could not be checked.
    """

    kind: BundleFault
    text: str
    path: str | None
    fault: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RecomputedReport:
    """A report of a bundle that was computed again from the records in it.

    Attributes:
        folder: The folder of the report.
        phase: The phase of its runs.
        numbers: Number of numbers in `report.json`; 0 where it could not be computed.
        equal: Number of them that are equal.
        rounded: Number of further ones that differ by less than 1e-9 of their value.
        files: Number of files of the report that were written again, and are the same.
    """

    folder: str
    phase: str
    numbers: int
    equal: int
    rounded: int
    files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleVerification(Displayed):
    """A bundle that was checked by itself.

    Attributes:
        bundle: The archive or the folder.
        sha256: The sha256 of the archive; null for a folder.
        manifest: The sha256 of `bundle.json`.
        writer: The version of rlexp that wrote the bundle.
        checker: The version of rlexp that checked it.
        title: The title of the study.
        files: Number of files that the manifest names.
        findings: Findings on files, heads and reports, faults first.
        experiments: The experiments, compared with their ledgers.
        looks: The register of looks; null where there is none.
        protocols: The register of protocols; null where there is none.
        streams: The register of every stream of candidates among the experiments.
        reports: The reports, computed again.
        checked: What was checked, as sentences.
        unknown: What cannot be known from the bundle, as sentences.
        faultless: Whether everything was checked and is what was written.
    """

    schema: ClassVar[Schema] = Schema("bundle-verification")

    bundle: Path
    sha256: str | None
    manifest: str
    writer: str
    checker: str
    title: str
    files: int
    findings: tuple[BundleFinding, ...]
    experiments: tuple[VerifiedExperiment, ...]
    looks: VerifiedLooks | None
    protocols: VerifiedProtocols | None
    streams: tuple[VerifiedStream, ...]
    reports: tuple[RecomputedReport, ...]
    checked: tuple[str, ...]
    unknown: tuple[str, ...]
    faultless: bool


def names_bundle(name: str, workspace: Workspace) -> bool:
    """Whether an argument of `rlexp verify` names a bundle.

    An experiment of this name comes first, unless the argument is written as a path (`./paper`).
    """
    path = workspace.folder / name
    try:
        if "\0" in name or not is_bundle(path):
            if name.endswith(ARCHIVE):
                raise RecordError(
                    f"there is no file {path}: give the path of the bundle, or of its folder"
                )
            return False
    except OSError:
        return False
    written_as_path = "/" in name or name in {".", ".."}
    return written_as_path or name not in {e.name for e in workspace.layout.experiments()}


def verify_bundle(
    name: str,
    workspace: Workspace,
    *,
    heads: Sequence[str] = (),
    looks_head: str | None = None,
    protocols_head: str | None = None,
) -> BundleVerification:
    """Check a bundle: files, ledgers, registers, protocols, and every number of its reports.

    Args:
        name: The archive, or the folder of an unpacked bundle.
        workspace: The workspace of the command; nothing but its permissions is used.
        heads: The first digits of heads that were noted elsewhere; each must be in one of the ledgers.
        looks_head: The first digits of a sum that the register of looks must contain.
        protocols_head: The same for the register of protocols.

    Raises:
        RlexpError: The path is no bundle, or its content is refused; or there is no space for a copy.
    """
    path = workspace.folder / name
    noted = [hexadecimal(head, "--head") for head in heads]
    try:
        with scratch(SCRATCH) as (temporary, _):
            folder = temporary / "bundle"
            folder.mkdir()
            staged = stage_bundle(path, folder)
            unpacked = unpacked_workspace(folder, workspace.allowed)
            # Allowed packages are those of the reader, beside the command, and never of the bundle.
            workspace.make_allowed_importable()
            return _verified(path, staged, unpacked, noted, looks_head, protocols_head)
    except OSError as error:
        if error.errno in NO_SPACE:
            raise RecordError(
                f"there is no space for a copy of the bundle in the temporary folder: {error.strerror}; "
                "name another folder with TMPDIR",
                code="unwritable",
            ) from error
        raise RecordError(f"{path} cannot be read: {error.strerror or error}") from error


def _verified(
    path: Path,
    staged: StagedBundle,
    unpacked: Workspace,
    heads: Sequence[str],
    looks_head: str | None,
    protocols_head: str | None,
) -> BundleVerification:
    manifest = staged.manifest
    records = verify(None, None, unpacked, looks_head=looks_head, protocols_head=protocols_head)
    findings = [*_on_files(staged), *_on_heads(staged, records.experiments, unpacked, heads)]
    named = {e.experiment: e.candidates for e in manifest.ledgers if e.candidates is not None}
    if (manifest.looks, manifest.protocols, named) != (
        records.looks.head if records.looks else None,
        records.protocols.head if records.protocols else None,
        {stream.study: stream.head for stream in records.streams},
    ):
        findings.append(
            _finding(
                BundleFault.HEAD, "a register does not end with the head that the manifest names"
            )
        )
    reports, on_reports, written = _recomputed(staged, unpacked)
    findings += [*_on_reports(staged), *on_reports, *_on_documents(staged, unpacked, written)]
    findings += _on_versions(staged, findings)
    ordered = sorted(findings, key=lambda f: list(BundleFault).index(f.kind))
    checked = [*_checked(staged, reports), *_heads_sentence(heads, findings)]
    return BundleVerification(
        bundle=path,
        sha256=staged.archive_sum,
        manifest=staged.manifest_sum,
        writer=manifest.writer,
        checker=writer(),
        title=manifest.declared.title,
        files=len(manifest.files),
        findings=tuple(ordered),
        experiments=tuple(replace(e, next=()) for e in records.experiments),
        looks=records.looks,
        protocols=records.protocols,
        streams=records.streams,
        reports=tuple(reports),
        checked=tuple(checked),
        unknown=UNKNOWN,
        faultless=records.faultless and not any(f.fault for f in findings),
    )


def _finding(kind: BundleFault, text: str, path: str | None = None) -> BundleFinding:
    return BundleFinding(kind=kind, text=text, path=path, fault=kind not in FAULTLESS)


def _on_files(staged: StagedBundle) -> Iterator[BundleFinding]:
    for path in staged.missing:
        yield _finding(BundleFault.MISSING, f"{path} is gone", path)
    for path in staged.changed:
        yield _finding(BundleFault.EDITED, f"{path} is not the file of the manifest", path)
    # A reader's own report or notes beside the records are no fault; a further record is one.
    for path in staged.added:
        kind = BundleFault.ADDED if path.startswith(RECORDS_FOLDER) else BundleFault.REMARK
        yield _finding(kind, f"{path} is no file of the bundle", path)


def _on_heads(
    staged: StagedBundle,
    experiments: Sequence[VerifiedExperiment],
    unpacked: Workspace,
    heads: Sequence[str],
) -> Iterator[BundleFinding]:
    actual = {e.experiment: e.head for e in experiments}
    listed = {ledger.experiment: ledger.head for ledger in staged.manifest.ledgers}
    for name in sorted(actual.keys() | listed.keys()):
        if name not in actual or name not in listed:
            where = "manifest" if name not in listed else "bundle"
            yield _finding(
                BundleFault.MISSING, f"the experiment {name} is not in the {where}", name
            )
        elif actual[name] != listed[name]:
            text = f"the ledger of {name} does not end with the head that the manifest names"
            yield _finding(BundleFault.HEAD, text, name)
    sums = [line for name in actual for line in _sums(unpacked, name)]
    for head in heads:
        if not any(line.startswith(head) for line in sums):
            yield _finding(
                BundleFault.HEAD,
                f"no ledger of the bundle has a line with the sum {head}: the records are not those of "
                "this head",
            )


def _sums(unpacked: Workspace, name: str) -> Sequence[str]:
    try:
        ledger = read_ledger(unpacked.layout.experiment(name))
    except RecordError:
        # The experiment is named with this fault.
        return ()
    return ledger.sums if ledger else ()


def _heads_sentence(heads: Sequence[str], findings: Sequence[BundleFinding]) -> Iterator[str]:
    if heads and not any(f.kind is BundleFault.HEAD for f in findings):
        yield f"the ledgers contain {join_names(head[:SHORT] for head in heads)}, as you noted"


def _recomputed(
    staged: StagedBundle, unpacked: Workspace
) -> tuple[list[RecomputedReport], list[BundleFinding], set[str]]:
    """The reports computed again, what differs, and the files that follow from the records."""
    reports, findings, written = list[RecomputedReport](), list[BundleFinding](), set[str]()
    listed = {file.path for file in staged.manifest.files}
    for report in staged.manifest.reports:
        figures = {path for path in listed if path.startswith(f"{report.folder}/{FIGURES}/")}
        try:
            computed = compute_bundled_report(report, unpacked)
            files = render_bundled_report(
                computed, linked=bool(figures), drawn=bool(figures) and can_draw()
            )
            stored = json.loads((unpacked.folder / report.folder / NUMBERS).read_bytes())
        except (OSError, ValueError, RecursionError, RlexpError) as error:
            text = f"the numbers of {report.folder} could not be computed again: {error}"
            findings.append(_finding(BundleFault.UNCHECKED, text, report.folder))
            reports.append(_uncomputed(report))
            continue
        difference = ReportDifference.between(
            stored, json.loads(files[f"{report.folder}/{NUMBERS}"])
        )
        differing = [path for path in files if not _follows(unpacked, path, files[path])]
        findings += _on_numbers(report.folder, difference)
        findings += [
            _finding(BundleFault.REMADE, f"{path} does not follow from the records", path)
            for path in differing
            if path in listed and not path.endswith(NUMBERS)
        ]
        # Without Matplotlib, nobody can say what the figures must be.
        written |= files.keys() | (set() if can_draw() else figures)
        reports.append(
            RecomputedReport(
                folder=report.folder,
                phase=computed.report.phase,
                numbers=difference.numbers,
                equal=difference.equal,
                rounded=difference.rounded,
                files=len(files) - len(differing),
            )
        )
        if figures and not can_draw():
            text = (
                f"the figures of {report.folder} were not drawn again, their data were checked: to check "
                f"them too: {install_command('figures')}"
            )
            findings.append(_finding(BundleFault.REMARK, text))
    return reports, findings, written


def _on_versions(
    staged: StagedBundle, findings: Sequence[BundleFinding]
) -> Iterator[BundleFinding]:
    """Name other versions than those of the writer, where they can be the reason of a fault."""
    versions, here = staged.manifest.versions, computing_versions()
    changed = sorted(n for n in {*versions, *here} if versions.get(n) != here.get(n))
    may_be_reason = {BundleFault.NUMBERS, BundleFault.REMADE, BundleFault.UNCHECKED}
    if changed and any(f.kind in may_be_reason for f in findings):
        named = join_first_names([f"{n} {versions.get(n, 'absent')}" for n in changed], 3)
        yield _finding(
            BundleFault.REMARK,
            f"the bundle was written with {named}, and other versions check it, which can be a reason: "
            "repeat the check with these versions",
        )


def _follows(unpacked: Workspace, path: str, content: bytes) -> bool:
    """Whether a file has this content; numbers of CSV may differ by rounding."""
    stored = _stored(unpacked, path)
    return stored == content or (
        stored is not None and path.endswith(".csv") and _is_close(stored, content)
    )


def _stored(unpacked: Workspace, path: str) -> bytes | None:
    """The content of a file of the bundle; None where it cannot be read."""
    try:
        return (unpacked.folder / path).read_bytes()
    except OSError:
        return None


def _is_close(stored: bytes, computed: bytes) -> bool:
    """Whether two CSV files have equal cells, where numbers may differ by rounding."""
    tables = [
        list(csv.reader(io.StringIO(t.decode(errors="replace")))) for t in (stored, computed)
    ]
    first, second = ([cell for row in table for cell in [*row, "\n"]] for table in tables)
    return len(first) == len(second) and all(map(_same_cell, first, second))


def _same_cell(first: str, second: str) -> bool:
    if first == second:
        return True
    try:
        return math.isclose(float(first), float(second), rel_tol=CLOSE, abs_tol=0.0)
    except ValueError:
        return False


def _uncomputed(report: BundledReport) -> RecomputedReport:
    return RecomputedReport(
        folder=report.folder, phase=report.phase, numbers=0, equal=0, rounded=0, files=0
    )


def _on_numbers(folder: str, difference: "ReportDifference") -> Iterator[BundleFinding]:
    for text in difference.texts[:MOST_NAMED]:
        yield _finding(BundleFault.NUMBERS, f"{folder}/{NUMBERS}: {text}", folder)
    if len(difference.texts) > MOST_NAMED:
        more = format_count(len(difference.texts) - MOST_NAMED, "further value")
        yield _finding(BundleFault.NUMBERS, f"{folder}/{NUMBERS}: {more} not as computed", folder)


def _on_reports(staged: StagedBundle) -> Iterator[BundleFinding]:
    """Every experiment needs a report: otherwise its numbers would not be compared with anything."""
    reported = {r.targets: r.folder for r in staged.manifest.reports}
    for ledger in staged.manifest.ledgers:
        targets = (ledger.experiment,)
        if reported.get(targets) != report_folder(targets):
            text = f"the bundle has no report of {ledger.experiment}"
            yield _finding(BundleFault.MISSING, text, report_folder(targets))
    settings = [f.path for f in staged.manifest.files if f.path.startswith(SETTINGS_FOLDER)]
    if settings:
        text = f"the study has settings of reports of its own, read them: {join_first_names(settings, 3)}"
        yield _finding(BundleFault.REMARK, text)


def _on_documents(
    staged: StagedBundle, unpacked: Workspace, written: set[str]
) -> Iterator[BundleFinding]:
    """Compare the documents, and the wheel, with what rlexp writes here."""
    manifest = staged.manifest
    listed = [file.path for file in manifest.files]
    if manifest.wheel in listed and not _is_own_wheel(unpacked, str(manifest.wheel)):
        text = (
            "rlexp in the bundle is not the rlexp that checks here: read it before you install it"
        )
        yield _finding(BundleFault.REMARK, text, manifest.wheel)
    experiments = [unpacked.layout.experiment(ledger.experiment) for ledger in manifest.ledgers]
    scans = [survey(paths, in_place=False) for paths in experiments]
    try:
        versions, places = read_versions(experiments)
        reports = [path for path in listed if path.startswith(f"{REPORTS}/")]
        documents = write_documents(manifest, bundled_studies(scans), versions, places, reports)
    except RlexpError as error:
        yield _finding(BundleFault.UNCHECKED, f"the documents could not be written again: {error}")
        return
    for path, content in documents.items():
        if path in listed and _stored(unpacked, path) != content:
            yield _finding(BundleFault.REMADE, f"{path} does not follow from the records", path)
    for path in sorted({*documents, *written} - set(listed)):
        yield _finding(BundleFault.MISSING, f"{path} is not in the manifest", path)
    expected = {
        *documents,
        *written,
        str(manifest.wheel),
        CITATION,
        *([CODE] if manifest.code else []),
    }
    for path in listed:
        if path not in expected and not path.startswith((RECORDS_FOLDER, SETTINGS_FOLDER)):
            yield _finding(BundleFault.ADDED, f"{path} is no file that rlexp writes", path)


def _is_own_wheel(unpacked: Workspace, path: str) -> bool:
    try:
        return _stored(unpacked, path) == pack_wheel()
    except OSError:
        return False


def _checked(staged: StagedBundle, reports: Sequence[RecomputedReport]) -> Iterator[str]:
    phases = join_names(dict.fromkeys(f"{r.phase} runs" for r in reports)) or "no runs"
    numbers = sum(r.numbers for r in reports)
    equal, rounded = sum(r.equal for r in reports), sum(r.rounded for r in reports)
    intact = len(staged.manifest.files) - len(staged.missing) - len(staged.changed)
    yield f"files: {intact:,} of {format_count(len(staged.manifest.files), 'file')} have the sums of {BUNDLE_MANIFEST}"
    close = f", and {rounded:,} up to rounding" if rounded else ""
    yield (
        f"numbers: {equal:,} of {format_count(numbers, 'number')} of {format_count(len(reports), 'report')} "
        f"of {phases} were computed again from the records and are equal{close}"
    )
    files = sum(r.files for r in reports)
    yield f"pages, tables and data of figures: {format_count(files, 'file')} written again, with the same bytes"


@dataclass(frozen=True, slots=True)
class ReportDifference:
    """What differs between two reports.

    Attributes:
        numbers: Number of numbers in the stored report.
        equal: Number of equal ones.
        rounded: Number of further ones within rounding.
        texts: Every other difference, as text.
    """

    numbers: int
    equal: int
    rounded: int
    texts: tuple[str, ...]

    @classmethod
    def between(cls, stored: Any, computed: Any) -> "ReportDifference":
        """Compare the JSON values of a stored report with those that were computed again."""
        counts, texts = {"numbers": 0, "equal": 0, "rounded": 0}, list[str]()
        _compare(stored, computed, "", counts, texts)
        return cls(**counts, texts=tuple(texts))


def _compare(
    stored: Any, computed: Any, key_path: str, counts: dict[str, int], texts: list[str]
) -> None:
    if _is_number(stored) and _is_number(computed):
        counts["numbers"] += 1
        if stored == computed:
            counts["equal"] += 1
        elif math.isclose(stored, computed, rel_tol=CLOSE, abs_tol=0.0):
            counts["rounded"] += 1
        else:
            texts.append(f"{key_path} is {stored!r} and follows as {computed!r}")
    elif isinstance(stored, Mapping) and isinstance(computed, Mapping):
        for key in dict.fromkeys([*computed, *stored]):
            # The version is compared with the manifest; a later one computes the same numbers.
            if (key_path, key) != ("", "version"):
                absent = object()
                _compare(
                    stored.get(key, absent),
                    computed.get(key, absent),
                    f"{key_path}.{key}".lstrip("."),
                    counts,
                    texts,
                )
    elif isinstance(stored, list) and isinstance(computed, list) and len(stored) == len(computed):
        for number, pair in enumerate(zip(stored, computed, strict=True)):
            _compare(*pair, f"{key_path}[{number}]", counts, texts)
    elif stored != computed or type(stored) is not type(computed):
        texts.append(f"{key_path} is {_short(stored)} and follows as {_short(computed)}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _short(value: Any) -> str:
    if isinstance(value, list | Mapping):
        return f"{len(value)} values"
    return "absent" if type(value) is object else f"{value!r:.60}"
