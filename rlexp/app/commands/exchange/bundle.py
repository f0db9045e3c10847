"""`rlexp bundle`: writes what a paper needs of a study, as one archive that anybody can check."""

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from rlexp.app.bundling.code import pack_code
from rlexp.app.bundling.documents import CITATION, CODE, BundledStudy, write_documents
from rlexp.app.bundling.plan import (
    BundlePlan,
    BundleRequest,
    check_free,
    plan_bundle,
    refuse_running,
)
from rlexp.app.bundling.record_files import (
    copy_file,
    settings_files,
)
from rlexp.app.bundling.recorded_versions import needed_packages, read_versions
from rlexp.app.bundling.studies import bundled_studies, specs_of
from rlexp.app.bundling.wheel import pack_wheel, wheel_name
from rlexp.app.commands.exchange.bundle_reports import (
    can_draw,
    compute_bundled_report,
    computing_versions,
    render_bundled_report,
    unpacked_workspace,
)
from rlexp.app.commands.exchange.verify import Verification, verify
from rlexp.app.commands.judge.report import report_folder
from rlexp.app.observer import Observer
from rlexp.app.reading.experiment_scan import survey
from rlexp.app.reporting.build import read_phase
from rlexp.app.reporting.evidence import collect_evidence
from rlexp.app.results import Displayed, NextCommand, Schema
from rlexp.app.workspace import Workspace
from rlexp.config.citation import CITATION_FILE
from rlexp.errors import ConfigError, RecordError, RlexpError
from rlexp.protocol.spec import RunSpec
from rlexp.records.integrity import SHORT
from rlexp.store.bundles.bundle_archive import ARCHIVE, sha256_of, write_archive
from rlexp.store.bundles.bundle_manifest import (
    BUNDLE_MANIFEST,
    BundledFile,
    BundledLedger,
    BundledReport,
    BundleManifest,
)
from rlexp.store.files import sync
from rlexp.store.left_out import left_out_bytes
from rlexp.store.registers.looks import read_looks
from rlexp.store.schemas import writer
from rlexp.store.secrets import secret_values
from rlexp.temporary_folders import scratch
from rlexp.text import format_count, join_first_names, join_names

SCRATCH = ".rlexp-bundle-"
"""The beginning of the hidden folder beside the output in which a bundle is made."""
DRAWING = "matplotlib"
SHORTEST_SECRET = 8
"""Characters from which on a secret value is searched for in the records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BundledExperiment:
    """An experiment in a bundle.

    Attributes:
        experiment: The name of the experiment.
        planned: Number of planned runs of the phases that have a run.
        scored: Number of runs with a score.
        failed: Number of failed runs.
        absent: Number of runs that have not ended or never began.
        head: The sha256 of the last line of its ledger; null if there is no ledger.
        files: Number of its files in the bundle.
        bytes: Their size.
        faults: Number of records that differ from the ledger.
        summary: The runs as a sentence.
    """

    experiment: str
    planned: int
    scored: int
    failed: int
    absent: int
    head: str | None
    files: int
    bytes: int
    faults: int
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenBundle(Displayed):
    """A bundle of a study.

    Attributes:
        output: The archive or the folder.
        written: Whether it was written; false for a plan, and where it was there with the same bytes.
        unchanged: Whether it was there already with the same bytes.
        sha256: The sha256 of the archive, or of `bundle.json` in a folder; null for a plan.
        bytes: The size of the archive, or of all files in a folder; for a plan, of the records.
        files: Number of files.
        experiments: The experiments.
        reports: The folders of the reports.
        looks: Number of looks in the register of looks.
        protocols: Number of registrations in the register of protocols.
        left_out: Bytes by kind of what the experiments have and the bundle does not.
        remarks: What a reader of the bundle will see or miss, as sentences.
        faultless: Whether every record is the same as when it was written.
        next: Suggested next commands.
    """

    schema: ClassVar[Schema] = Schema("bundle")

    output: Path
    written: bool
    unchanged: bool
    sha256: str | None
    bytes: int
    files: int
    experiments: tuple[BundledExperiment, ...]
    reports: tuple[str, ...]
    looks: int
    protocols: int
    left_out: Mapping[str, int]
    remarks: tuple[str, ...]
    faultless: bool
    next: tuple[NextCommand, ...]


@dataclass(frozen=True, slots=True)
class StagedStudy:
    """A bundle that is complete in its hidden folder.

    Attributes:
        manifest: Its manifest.
        studies: Its experiments.
        verification: The comparison of its records with their ledgers.
        remarks: What readers should know, as sentences.
    """

    manifest: BundleManifest
    studies: tuple[BundledStudy, ...]
    verification: Verification
    remarks: tuple[str, ...]


def bundle(
    request: BundleRequest, workspace: Workspace, observer: Observer | None = None
) -> WrittenBundle:
    """Write a bundle of some experiments; the same records give the same bytes.

    Everything but the records is computed from the copied records. The output appears whole or not at
    all. The looks at the test scores that the reports show are entered first.

    Raises:
        RlexpError: An experiment is unknown or under way, an option is wrong, a file holds a secret of
            the environment, or the output cannot be written. Nothing is at the output then.
    """
    plan = plan_bundle(request, workspace)
    if request.dry_run:
        return _outline(plan)
    check_free(plan)
    if observer is not None:
        observer.note(f"bundling {join_names(request.experiments)}")
    _count_looks(plan)
    try:
        plan.output.parent.mkdir(parents=True, exist_ok=True)
        with scratch(SCRATCH, plan.output.parent) as (hidden, _):
            folder = hidden / plan.output.name
            folder.mkdir()
            staged = _stage(plan, folder)
            return _publish(plan, staged, folder, hidden)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(
            f"{plan.output} cannot be written: {reason}; name another --output", code="unwritable"
        ) from error


def _count_looks(plan: BundlePlan) -> None:
    """Enter the looks that the reports of the bundle are, so that its register holds them."""
    phase = read_phase(plan.request.phase)
    for name in plan.request.experiments:
        collect_evidence((name,), phase, plan.workspace, enter=True, brief=True)


def _stage(plan: BundlePlan, folder: Path) -> StagedStudy:
    """Make the whole bundle in a folder."""
    _copy_records(plan, folder)
    staged = unpacked_workspace(folder, plan.workspace.allowed)
    scans = [
        survey(staged.layout.experiment(name), in_place=False) for name in plan.request.experiments
    ]
    studies = bundled_studies(scans)
    versions, places = read_versions([scan.paths for scan in scans])
    reports, files, remarks = _reports(plan, staged)
    verification = verify(None, None, staged)
    registers = {stream.study: stream.head for stream in verification.streams}
    specs = [spec for scan in scans for spec in specs_of(scan)]
    code, missing_code = _code(plan, folder, places.commits)
    manifest = BundleManifest(
        writer=writer(),
        ledgers=tuple(
            BundledLedger(study.experiment, study.head, registers.get(study.experiment))
            for study in studies
        ),
        looks=verification.looks.head if verification.looks else None,
        protocols=verification.protocols.head if verification.protocols else None,
        reports=tuple(reports),
        versions=computing_versions(),
        requirements=_requirements(specs, versions[0].packages if versions else {}),
        wheel=wheel_name(),
        code=code,
        declared=plan.declared,
    )
    files[wheel_name()] = pack_wheel()
    names = [path for path in files if path.startswith("reports/")]
    files |= write_documents(manifest, studies, versions, places, names)
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    listed = replace(manifest, files=tuple(_summed(folder)))
    (folder / BUNDLE_MANIFEST).write_bytes(listed.encode())
    remarks += [*missing_code, *_remarks(plan, studies, verification)]
    if len(versions) > 1:
        remarks.append(f"the attempts have {len(versions)} sets of versions: see versions.json")
    if not versions:
        remarks.append("no attempt recorded versions of packages")
    if places.folders or places.hosts:
        remarks.append(
            f"the records name {format_count(len(places.folders), 'folder')} and "
            f"{format_count(len(places.hosts), 'machine')} ({join_first_names([*places.hosts, *places.folders], 2)})"
        )
    return StagedStudy(listed, tuple(studies), verification, tuple(remarks))


def _requirements(specs: Sequence[RunSpec], recorded: Mapping[str, str]) -> tuple[str, ...]:
    """The packages that repeat the runs, and Matplotlib where figures are to be drawn again."""
    needed = needed_packages(specs, recorded)
    drawing = {DRAWING} if can_draw() and DRAWING in recorded else set()
    return tuple(sorted({*needed, *drawing}))


def _copy_records(plan: BundlePlan, folder: Path) -> None:
    layout = unpacked_workspace(folder).layout
    for paths, files in plan.records.items():
        target = layout.experiment(paths.name)
        for path in files.bundled:
            copy_file(paths.folder / path, target.folder / path)
        if files.policies:
            target.left_out.write_bytes(left_out_bytes(files.policies))
        # A command that began meanwhile may have changed files of which some are copied.
        refuse_running(paths)
    for register in (plan.workspace.layout.looks, plan.workspace.layout.protocols):
        if register.exists():
            copy_file(register, layout.root / register.name)
    for name in settings_files(plan.workspace.folder):
        copy_file(plan.workspace.folder / name, folder / name)
    if plan.declared.citation:
        copy_file(plan.workspace.folder / CITATION_FILE, folder / CITATION)


def _reports(
    plan: BundlePlan, staged: Workspace
) -> tuple[list[BundledReport], dict[str, bytes], list[str]]:
    """The reports of the bundle, their files, and why there is none of all experiments together."""
    request, drawing = plan.request, can_draw()
    names = request.experiments
    reports, files, remarks = list[BundledReport](), dict[str, bytes](), list[str]()
    for targets in [*((name,) for name in names), *([names] if len(names) > 1 else [])]:
        requested = BundledReport(
            report_folder(targets), targets, request.phase or "", request.overrides
        )
        try:
            computed = compute_bundled_report(requested, staged)
        except RlexpError as error:
            # Experiments of one study may be impossible to compare, as with unequal budgets.
            if len(targets) == 1:
                raise
            remarks.append(f"there is no report of all experiments together: {error}")
            continue
        reports.append(computed.report)
        files |= render_bundled_report(computed, linked=False, drawn=drawing)
    if not drawing:
        remarks.append("there are no figures: matplotlib is not installed; their data are there")
    return reports, files, remarks


def _code(plan: BundlePlan, folder: Path, commits: Sequence[str]) -> tuple[bool, list[str]]:
    """Whether the code was bundled, and what is missing of it."""
    if not plan.request.code:
        if not commits:
            return False, []
        return False, ["the code of the runs is not in the bundle (--code adds the repository)"]
    absent = pack_code(plan.workspace.folder, folder / CODE, commits)
    if absent:
        return True, [
            f"the repository lacks {join_first_names([c[:12] for c in absent], 3)}, which runs recorded"
        ]
    return True, []


def _remarks(
    plan: BundlePlan, studies: Sequence[BundledStudy], verification: Verification
) -> Iterator[str]:
    for study in studies:
        if study.parents:
            yield (
                f"{format_count(study.parents, 'run')} that {study.experiment} continues "
                f"{'is' if study.parents == 1 else 'are'} not in the bundle: name that experiment too"
            )
    for name, digest in sorted({each for study in studies for each in study.datasets}):
        yield f"the dataset {name} (sha256 {digest[:SHORT]}) is not in the bundle"
    changed = join_names(_changed_registers(verification))
    if changed:
        yield f"not as written: the register of {changed}: 'rlexp verify' says what differs"
    others = _others(plan, verification)
    if others:
        yield (
            f"the registers are whole, so that they also name {join_first_names(others, 3)}, which "
            f"{'is' if len(others) == 1 else 'are'} not in the bundle"
        )
    if not plan.declared.authors:
        yield "no author is named: add --author, or a file CITATION.cff"
    if plan.declared.license is None:
        yield "no license is named: add --license, such as CC-BY-4.0"


def _changed_registers(verification: Verification) -> Iterator[str]:
    if verification.looks and verification.looks.faults:
        yield "looks"
    if verification.protocols and verification.protocols.faults:
        yield "protocols"
    yield from (f"candidates of {s.study}" for s in verification.streams if s.faults)


def _others(plan: BundlePlan, verification: Verification) -> list[str]:
    """Other experiments that the registers name."""
    names = (
        {p.protocol for p in verification.protocols.protocols} if verification.protocols else set()
    )
    # The verification names a register that cannot be read.
    with suppress(RecordError):
        names |= {look.experiment for look in read_looks(plan.workspace.layout).looks}
    return sorted(names - set(plan.request.experiments))


def _summed(folder: Path) -> Iterator[BundledFile]:
    """Every file of a folder with its sum.

    Raises:
        RecordError: A file holds the value of a secret variable of the environment.
    """
    secrets = [v.encode() for v in secret_values(os.environ) if len(v) >= SHORTEST_SECRET]
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        name = path.relative_to(folder).as_posix()
        if secrets:
            content = path.read_bytes()
            if any(secret in content for secret in secrets):
                raise RecordError(
                    f"{name} holds the value of a secret variable of this environment, and a bundle is "
                    "public: remove the run, or unset a variable that is no secret"
                )
        yield BundledFile(name, path.stat().st_size, sha256_of(path))


def _publish(plan: BundlePlan, staged: StagedStudy, folder: Path, hidden: Path) -> WrittenBundle:
    """Give the bundle its name, in one step."""
    paths = [*(file.path for file in staged.manifest.files), BUNDLE_MANIFEST]
    if plan.is_archive:
        packed = hidden / f"packed{ARCHIVE}"
        write_archive(packed, folder, paths)
        sha256, size = sha256_of(packed), packed.stat().st_size
        unchanged = plan.output.is_file() and sha256_of(plan.output) == sha256
        if plan.output.exists() and not unchanged and not plan.request.force:
            raise ConfigError(
                f"{plan.output} exists with other content: name another --output, or replace it with "
                "--force"
            )
        if not unchanged:
            # Content before name: after a power cut, the archive is whole or absent.
            sync(packed)
            packed.replace(plan.output)
    else:
        sha256, unchanged = sha256_of(folder / BUNDLE_MANIFEST), False
        size = sum((folder / path).stat().st_size for path in paths)
        for path in paths:
            sync(folder / path)
        if plan.output.exists():
            plan.output.rename(hidden / "replaced")
        folder.rename(plan.output)
    sync(plan.output.parent)
    return _outcome(plan, staged, sha256, size, len(paths), unchanged=unchanged)


def _outcome(
    plan: BundlePlan, staged: StagedStudy, sha256: str, size: int, files: int, *, unchanged: bool
) -> WrittenBundle:
    verification = staged.verification
    faults = {e.experiment: e.faults for e in verification.experiments}
    name = os.path.relpath(plan.output, plan.workspace.folder)
    name = name if plan.is_archive or "/" in name else f"./{name}"
    return WrittenBundle(
        output=plan.output,
        written=not unchanged,
        unchanged=unchanged,
        sha256=sha256,
        bytes=size,
        files=files,
        experiments=tuple(_experiments(plan, staged.studies, faults)),
        reports=tuple(report.folder for report in staged.manifest.reports),
        looks=verification.looks.looks if verification.looks else 0,
        protocols=verification.protocols.registrations if verification.protocols else 0,
        left_out=_left_out(plan),
        remarks=staged.remarks,
        faultless=verification.faultless,
        next=(
            NextCommand(
                why="check it as a reader does",
                command=shlex.join(["rlexp", "verify", name, *plan.workspace.permission]),
            ),
        ),
    )


def _experiments(
    plan: BundlePlan, studies: Sequence[BundledStudy], faults: Mapping[str, int]
) -> Iterator[BundledExperiment]:
    files = {paths.name: f.bundled for paths, f in plan.records.items()}
    for study in studies:
        bundled = files[study.experiment]
        yield BundledExperiment(
            experiment=study.experiment,
            planned=study.planned,
            scored=study.scored,
            failed=study.failed,
            absent=study.absent,
            head=study.head,
            files=len(bundled),
            bytes=sum(bundled.values()),
            faults=faults.get(study.experiment, 0),
            summary=str(study),
        )


def _left_out(plan: BundlePlan) -> dict[str, int]:
    kinds: dict[str, int] = {}
    for files in plan.records.values():
        for kind, size in files.kept_back.items():
            kinds[kind] = kinds.get(kind, 0) + size
    return {kind: size for kind, size in sorted(kinds.items()) if size}


def _outline(plan: BundlePlan) -> WrittenBundle:
    """The bundle as it would be written; the sizes are those of the records."""
    studies = bundled_studies([survey(paths) for paths in plan.records])
    experiments = tuple(_experiments(plan, studies, {}))
    return WrittenBundle(
        output=plan.output,
        written=False,
        unchanged=False,
        sha256=None,
        bytes=sum(e.bytes for e in experiments),
        files=sum(e.files for e in experiments),
        experiments=experiments,
        reports=(),
        looks=0,
        protocols=0,
        left_out=_left_out(plan),
        remarks=(),
        faultless=True,
        next=(NextCommand(why="write it", command=shlex.join(plan.command)),),
    )
