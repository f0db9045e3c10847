"""What `rlexp bundle` is asked for: the request, and what goes into the bundle.

Whatever is wrong with a request is refused here, before anything is written.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from rlexp.app.bundling.record_files import RecordFiles, record_files
from rlexp.app.bundling.studies import last_day
from rlexp.app.reading.experiment_scan import ExperimentScan, survey
from rlexp.app.reporting.build import read_phase
from rlexp.app.workspace import Workspace
from rlexp.config.citation import CITATION_FILE, read_citation
from rlexp.errors import ConfigError, HeldError, RecordError
from rlexp.records.run import State
from rlexp.store.bundles.bundle_archive import ARCHIVE
from rlexp.store.bundles.bundle_manifest import BUNDLE_MANIFEST, CitedAuthor, DeclaredStudy
from rlexp.store.layout import ExperimentPaths
from rlexp.store.locks.lease import is_held
from rlexp.text import format_count, join_names

OTHER_ARCHIVES = (".tar", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z", ".rar", ".ZIP")
"""Ends of names that would mislead readers of the folder which is written for every other name."""
AUTHOR = re.compile(r"(?P<name>[^<>]*[^<>\s])\s*(<(?P<orcid>[^<>]+)>)?")
ORCID = re.compile(r"(https://orcid\.org/)?(?P<digits>(\d{4}-){3}\d{3}[\dX])", re.ASCII)
LICENSE = re.compile(r"[A-Za-z0-9.+-]{1,80}", re.ASCII)
DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
LONGEST_TITLE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleRequest:
    """The experiments to bundle, and what the authors declare.

    Attributes:
        experiments: The experiments of the study.
        output: The archive (`NAME.zip`) or the new folder; None is `EXPERIMENT.zip` in the workspace.
        models: Whether policies are bundled too.
        code: Whether the repository of the study is bundled too, with its history.
        phase: The phase of the reports; None chooses as `rlexp report` does.
        overrides: Changed settings of the reports.
        title: The title of the study; None is that of `CITATION.cff`, or the names of the experiments.
        authors: The authors, each as `NAME` or `NAME <ORCID>`.
        license: The license of the records (SPDX identifier).
        published: The day of publication (`YYYY-MM-DD`); None is the day of the last record.
        force: Whether another bundle at the output is replaced.
        dry_run: Whether nothing is written.
    """

    experiments: tuple[str, ...]
    output: str | None = None
    models: bool = False
    code: bool = False
    phase: str | None = None
    overrides: tuple[str, ...] = ()
    title: str | None = None
    authors: tuple[str, ...] = ()
    license: str | None = None
    published: str | None = None
    force: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class BundlePlan:
    """What goes into a bundle.

    Attributes:
        request: The request.
        workspace: The workspace of the experiments.
        output: The archive or the folder.
        records: The files of each experiment.
        declared: What the authors declare.
    """

    request: BundleRequest
    workspace: Workspace
    output: Path
    records: Mapping[ExperimentPaths, RecordFiles]
    declared: DeclaredStudy

    @property
    def is_archive(self) -> bool:
        """Whether the output is a zip archive."""
        return self.output.suffix == ARCHIVE

    @property
    def command(self) -> list[str]:
        """The words of the command that writes this bundle."""
        request = self.request
        options = {
            "--output": request.output,
            "--title": request.title,
            "--license": request.license,
            "--published": request.published,
            "--phase": request.phase,
        }
        switches = {"--models": request.models, "--code": request.code, "--force": request.force}
        lists = {"--author": request.authors, "--set": request.overrides}
        return [
            *("rlexp", "bundle", *request.experiments),
            *(word for name, value in options.items() if value for word in (name, value)),
            *(word for name, values in lists.items() for v in values for word in (name, v)),
            *(name for name, given in switches.items() if given),
            *self.workspace.permission,
        ]


def plan_bundle(request: BundleRequest, workspace: Workspace) -> BundlePlan:
    """What a request asks for, before anything is written.

    Raises:
        RlexpError: An experiment is unknown, under way or without a run, or an option is wrong.
    """
    read_phase(request.phase)
    workspace.make_allowed_importable()
    names = list(dict.fromkeys(request.experiments))
    experiments = [workspace.experiment(name) for name in names]
    for paths in experiments:
        refuse_running(paths)
    scans = [survey(paths) for paths in experiments]
    for scan in scans:
        _refuse_unfit(scan)
    default = "+".join(paths.name for paths in experiments)[:80] + ARCHIVE
    output = workspace.folder / (request.output or default)
    _check_output(output, request, workspace)
    return BundlePlan(
        replace(request, experiments=tuple(paths.name for paths in experiments)),
        workspace,
        output,
        {paths: record_files(paths, models=request.models) for paths in experiments},
        _declared(request, workspace, scans),
    )


def refuse_running(paths: ExperimentPaths) -> None:
    """Refuse an experiment that a command trains at this moment.

    Raises:
        HeldError: A command holds it.
    """
    if is_held(paths.lock):
        raise HeldError(
            f"a command trains runs of {paths.name} at this moment: wait for its end, or cancel it: "
            f"rlexp cancel {shlex.quote(paths.name)}",
            command=shlex.join(["rlexp", "cancel", paths.name]),
        )


def _refuse_unfit(scan: ExperimentScan) -> None:
    records = [run.stored.record for run in scan.runs if run.stored is not None]
    running = [r for r in records if r.state is State.RUNNING]
    if running:
        raise HeldError(
            f"{format_count(len(running), 'run')} of {scan.paths.name} {'is' if len(running) == 1 else 'are'} "
            f"under way: wait for the end; 'rlexp status {scan.paths.name}' shows it"
        )
    if not any(r.attempts for r in records):
        raise RecordError(f"{scan.paths.name} has no run yet, so that there is nothing to bundle")


def _check_output(output: Path, request: BundleRequest, workspace: Workspace) -> None:
    records = workspace.layout.root.resolve()
    if output.suffix in OTHER_ARCHIVES:
        raise ConfigError(
            f"--output={request.output} is no name of a zip archive: name it "
            f"{output.name.partition('.')[0]}{ARCHIVE}, or name a folder"
        )
    if "\0" in str(output) or output.name in {"", ".."}:
        raise ConfigError(f"--output={request.output!r} is not the name of a file or folder")
    if output.is_symlink():
        raise ConfigError(
            f"{output} is a link, and nothing is written through links: name another --output"
        )
    if output.resolve().is_relative_to(records) or records.is_relative_to(output.resolve()):
        raise ConfigError(
            f"--output={request.output} is inside the folder of the records: name a path outside {records}"
        )


def check_free(plan: BundlePlan) -> None:
    """Refuse an output that would be replaced; an archive with the same bytes is recognised later.

    Raises:
        ConfigError: There is a folder or a file at the output.
    """
    if plan.is_archive:
        if plan.output.is_dir():
            raise ConfigError(f"{plan.output} is a folder: name another --output")
        return
    if not plan.output.exists():
        return
    replaceable = plan.output.is_dir() and (plan.output / BUNDLE_MANIFEST).is_file()
    if not (replaceable and plan.request.force):
        more = ", or replace it with --force" if replaceable else ""
        raise ConfigError(f"{plan.output} exists: name another --output{more}")


def _declared(
    request: BundleRequest, workspace: Workspace, scans: Sequence[ExperimentScan]
) -> DeclaredStudy:
    """What the options say, else what `CITATION.cff` of the workspace says."""
    citation = read_citation(workspace.folder)
    typed = request.title or request.authors or request.license or request.published
    authors = tuple(map(_author, request.authors)) or tuple(
        CitedAuthor(name, orcid) for name, orcid in (citation.authors if citation else ())
    )
    title = request.title or (citation.title if citation else None)
    names = join_names(scan.paths.name for scan in scans)
    identifier = request.license or (citation.license if citation else None)
    published = request.published or (citation.published if citation else None)
    if identifier is not None and not LICENSE.fullmatch(identifier):
        raise ConfigError(
            f"{_source(request.license, 'license')} {identifier!r:.80} is no SPDX identifier, such as CC-BY-4.0"
        )
    if published is not None and not _is_day(published):
        raise ConfigError(
            f"{_source(request.published, 'published')} {published!r:.80} is no day of the calendar: write it as 2027-01-31"
        )
    if title is not None and len(title) > LONGEST_TITLE:
        raise ConfigError(f"--title has more than {LONGEST_TITLE} characters")
    return DeclaredStudy(
        title=title or f"Records of {names}",
        authors=authors,
        license=identifier,
        published=published or last_day(scans),
        citation=citation is not None and not typed,
    )


def _source(typed: str | None, option: str) -> str:
    """Where a value comes from, for a message about it."""
    return f"--{option}" if typed else f"{CITATION_FILE} (or --{option})"


def _is_day(text: str) -> bool:
    """Whether a text is a day that exists; `fromisoformat` also reads other ways to write one."""
    try:
        return bool(DAY.fullmatch(text)) and bool(date.fromisoformat(text))
    except ValueError:
        return False


def _author(text: str) -> CitedAuthor:
    match = AUTHOR.fullmatch(text.strip())
    orcid = ORCID.fullmatch(match["orcid"]) if match and match["orcid"] else None
    if match is None or (match["orcid"] and orcid is None) or len(text) > LONGEST_TITLE:
        raise ConfigError(
            f"--author {text!r:.80} is no author: write a name, or a name and an ORCID: "
            "'Ada Example <0000-0002-1825-0097>'"
        )
    return CitedAuthor(match["name"], f"https://orcid.org/{orcid['digits']}" if orcid else None)
