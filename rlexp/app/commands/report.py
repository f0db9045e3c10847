"""`rlexp report`: from records to one frozen report of numbers, and from it to files.

A report is a function of records, settings and code. Where no file of these has changed since it was
written, nothing is computed again.
"""

import json
import os
import platform
import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar

import rlexp
from rlexp.app.reporting.build import make_study, read_formats, read_phase, rendered
from rlexp.app.reporting.evidence import gather, read_target
from rlexp.app.results import NextCommand, Schema
from rlexp.app.workspace import Workspace, cache_folder
from rlexp.config.report import ReportParts, read_report
from rlexp.errors import ConfigError, RecordError
from rlexp.reports.drawing.blocks import Notice, Study, Tone
from rlexp.reports.evidence.runs import Evidence
from rlexp.store.catalogue import SETTLED, stamp_of_tree
from rlexp.store.file_systems import is_shared
from rlexp.store.files import publish, publish_json, read_file, read_json
from rlexp.store.layout import ExperimentPaths
from rlexp.store.lease import is_held
from rlexp.store.ledger import sum_of_file
from rlexp.store.secrets import secret_values

LONGEST_NAME = 80
"""Letters of the name of a report's folder."""
IGNORED = frozenset({".catalogue", ".lease", ".claim", ".lock", "log.txt", "progress.bin"})
"""Files of an experiment that no report depends on."""
COMPILED = frozenset({"__pycache__"})
PACKAGES = ("rlexp", "jinja2", "numpy", "scipy", "matplotlib")
"""Packages whose versions can change a number or a figure."""
VARIABLE = "${"
"""What stands before the name of a variable whose value is filled in later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRequest:
    """What to report, and how.

    Attributes:
        targets: Experiments, or labels of them (`EXPERIMENT/LABEL`).
        formats: Any of `html`, `latex`, `csv`, `json` and `md`.
        output: The folder to write to; without one, `reports/EXPERIMENT` in the workspace.
        figures: The folder for figures as PDF and SVG; without one, none are drawn.
        phase: `test`, `selection` or `tuning`; without one, test where there are test runs.
        overrides: Changed settings of `conf/report.yaml` (`interval=percentile`).
    """

    targets: tuple[str, ...]
    formats: tuple[str, ...] = ("html",)
    output: str | None = None
    figures: str | None = None
    phase: str | None = None
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFiles:
    """A report that was written.

    Attributes:
        files: The files that it consists of.
        unchanged: Whether they were written by an earlier command, and nothing changed since.
        labels: The labels under comparison.
        notices: Verdicts, warnings, and what is missing.
        failed_checks: The checks that `--strict` refuses, each as a sentence.
        next: The commands that make sense now.
    """

    schema: ClassVar[Schema] = Schema("report-files")

    files: tuple[Path, ...]
    unchanged: bool
    labels: tuple[str, ...]
    notices: tuple[Notice, ...]
    failed_checks: tuple[str, ...]
    next: tuple[NextCommand, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a user is shown of a report besides its files; see `ReportFiles`."""

    labels: tuple[str, ...]
    notices: tuple[Notice, ...]
    failed_checks: tuple[str, ...]

    @classmethod
    def of(cls, study: Study) -> "Summary":
        """The summary of a report."""
        return cls(
            labels=study.labels,
            notices=tuple(b for part in study.parts for b in part.blocks if isinstance(b, Notice)),
            failed_checks=study.failed_checks,
        )

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> "Summary":
        """The summary that was kept as JSON values."""
        notices = content["notices"]
        return cls(
            labels=tuple(map(str, content["labels"])),
            notices=tuple(Notice(tone=Tone(n["tone"]), text=str(n["text"])) for n in notices),
            failed_checks=tuple(map(str, content["failed_checks"])),
        )


@dataclass(frozen=True, slots=True)
class CachedReport:
    """A report that was written before: its files, and its summary."""

    files: tuple[Path, ...]
    summary: Summary


@dataclass(frozen=True, slots=True)
class Source:
    """What a report is made from.

    Attributes:
        note: Where the files and the summary of the report are kept.
        digest: Of everything that the report is made from. There is none where the times of files
            do not show whether that changes: while a command drives an experiment, in the moments
            after a change, where variables of the environment are filled in, and where other
            machines write to the experiment.
    """

    note: Path
    digest: str | None

    @classmethod
    def of(
        cls,
        folder: Path,
        question: Mapping[str, Any],
        experiments: Sequence[ExperimentPaths] | None,
    ) -> "Source":
        """The source of a report of the workspace in `folder`.

        Args:
            folder: The workspace's.
            question: Targets and settings, as JSON values.
            experiments: The experiments that it reports on; nothing where more than files decide.
        """
        name = _sum([os.path.realpath(folder), question])
        note = cache_folder() / "reports" / f"{name[:32]}.json"
        return cls(note, None if experiments is None else _digest(question, experiments))

    def find(self) -> CachedReport | None:
        """The report that was made from the same source, if its files are still what was written."""
        if self.digest is None:
            return None
        with suppress(RecordError, KeyError, TypeError, ValueError, AttributeError):
            content = read_json(self.note)
            sums = {Path(name): text for name, text in content["files"].items()}
            if content["source"] == self.digest and all(sum_of_file(p) == sums[p] for p in sums):
                return CachedReport(tuple(sums), Summary.read(content["summary"]))
        return None

    def keep(self, files: Mapping[Path, bytes], summary: Summary) -> None:
        """Keep what a report was made from; where nothing can be written, nothing is kept."""
        if self.digest is None:
            return
        content = {
            "source": self.digest,
            "files": {str(path): sha256(data).hexdigest() for path, data in files.items()},
            "summary": asdict(summary),
        }
        with suppress(OSError, RecordError):
            # The sum covers secrets, at which nobody else shall guess.
            self.note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            publish_json(self.note, content)


def report(request: ReportRequest, workspace: Workspace) -> ReportFiles:
    """Write one report of all targets.

    Raises:
        RlexpError: A target, a format or a setting is unknown; nothing was written.
    """
    formats = read_formats(request.formats)
    workspace.make_allowed_importable()
    parts = read_report(request.overrides, workspace.folder, workspace.allowed)
    read_phase(request.phase)
    source = _source(request, formats, parts, workspace)
    earlier = source.find()
    made = earlier or _make(request, formats, parts, workspace, source)
    return ReportFiles(
        files=made.files,
        unchanged=earlier is not None,
        labels=made.summary.labels,
        notices=made.summary.notices,
        failed_checks=made.summary.failed_checks,
        next=_next(request, made.summary, workspace),
    )


def _next(
    request: ReportRequest, summary: Summary, workspace: Workspace
) -> tuple[NextCommand, ...]:
    if len(summary.labels) < 2:
        return ()
    phase = ["--phase", request.phase] if request.phase else []
    command = ["rlexp", "compare", *request.targets, *phase, *workspace.permission]
    return (NextCommand(why="compare in the terminal", command=shlex.join(command)),)


def _source(
    request: ReportRequest, formats: Sequence[str], parts: ReportParts, workspace: Workspace
) -> Source:
    question = {
        "targets": list(request.targets),
        "phase": request.phase,
        "formats": list(formats),
        "output": request.output,
        "figures": request.figures,
        "from": str(Path.cwd()),
        "settings": parts.composed,
    }
    names = dict.fromkeys(read_target(text).experiment for text in request.targets)
    # The user's classes may change without a file that is known here.
    experiments = None if workspace.allowed else [workspace.experiment(name) for name in names]
    return Source.of(workspace.folder, question, experiments)


def _make(
    request: ReportRequest,
    formats: Sequence[str],
    parts: ReportParts,
    workspace: Workspace,
    source: Source,
) -> CachedReport:
    importance = "importance" in parts.sections
    phase = read_phase(request.phase)
    evidence = gather(request.targets, phase, workspace, importance=importance, integrity=True)
    study = make_study(evidence, parts)
    folder = Path(request.output) if request.output else _folder(workspace, evidence)
    files = rendered(study, formats, folder, Path(request.figures) if request.figures else None)
    for path, content in files.items():
        _write(path, content)
    summary = Summary.of(study)
    # A run that a process holds may be lost in the next moment, and no file shows it.
    if not evidence.running:
        source.keep(files, summary)
    return CachedReport(tuple(files), summary)


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        publish(path, content)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror}; name another folder with --output, or "
            "with --figures for figures",
        ) from error


def _folder(workspace: Workspace, evidence: Evidence) -> Path:
    name = "+".join(e.name for e in evidence.experiments)[:LONGEST_NAME]
    return workspace.folder / "reports" / name


def _digest(question: Mapping[str, Any], experiments: Iterable[ExperimentPaths]) -> str | None:
    if VARIABLE in json.dumps(question):
        return None
    before = time.time() - SETTLED
    code = stamp_of_tree(str(Path(rlexp.__file__).parent), before, folders=COMPILED)
    stamps = [code, *(_stamp(paths, before) for paths in experiments)]
    if None in stamps:
        return None
    versions = [platform.python_version(), *map(_version, PACKAGES)]
    masked = sorted(secret_values(os.environ))
    return _sum([question, stamps, versions, masked])


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _stamp(paths: ExperimentPaths, before: float) -> str | None:
    if is_held(paths.lock) or is_shared(paths.catalogue):
        return None
    with suppress(OSError):
        # Variables of a tuner are filled in whenever a sweep is read.
        if VARIABLE.encode() not in read_file(paths.definition):
            return stamp_of_tree(os.path.realpath(paths.folder), before, files=IGNORED)
    return None


def _sum(values: Sequence[Any]) -> str:
    return sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
