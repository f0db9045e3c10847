"""`rlexp report`: computes a report from records and writes it to files.

A report depends only on records, settings and code. If no file of these has changed since the report
was written, it is not computed again.
"""

import json
import os
import platform
import shlex
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar

import rlexp
from rlexp.app.observer import Observer
from rlexp.app.reading.beside import beside
from rlexp.app.reading.interval_memory import IntervalMemory
from rlexp.app.reporting.build import (
    WORTH_FORKING,
    make_brief_report,
    make_report,
    read_formats,
    read_phase,
    render_files,
    with_annotations,
    with_commands,
)
from rlexp.app.reporting.evidence import EvidenceMemory, collect_evidence, read_target
from rlexp.app.reporting.films import film_addresses, stamp_of_films, with_films
from rlexp.app.reporting.next_commands import card_commands, set_options, winner_overrides
from rlexp.app.results import Displayed, NextCommand, Schema
from rlexp.app.tracking.report_attachment import ReportAttachment, attach_report
from rlexp.app.workspace import Workspace
from rlexp.config.report_settings import ReportParts, read_report
from rlexp.errors import ConfigError, RecordError
from rlexp.records.look import CountedLooks
from rlexp.reports.analysis.answer import Answer
from rlexp.reports.analysis.report_context import ResultMemory
from rlexp.reports.drawing.blocks import Callout, ReportDocument, Tone
from rlexp.reports.evidence.runs import Evidence
from rlexp.store.file_systems import is_shared
from rlexp.store.files import publish, publish_json, read_file, read_json
from rlexp.store.layout import ExperimentPaths, cache_folder
from rlexp.store.locks.lease import is_held
from rlexp.store.registers.ledger import sum_of_file
from rlexp.store.run_stamps import SETTLED, stamp_of_tree
from rlexp.store.secrets import secret_values

STAGED = 7
"""Labels from which on the intervals of pairs come after the rest of a report, where a page waits.

Seven labels have 21 pairs. From 16 pairs on, only one table shows these intervals.
"""
REPORTS = "reports"
"""The folder of reports in a workspace."""
LONGEST_NAME = 80
"""Most characters of the name of a report's folder."""
IGNORED = frozenset(
    {
        *(".catalogue", ".curves", ".lease", ".claim", ".lock", "log.txt", "progress.bin"),
        *(".annotations.lock", ".annotations.lock.holder"),
    }
)
"""Files of an experiment that no report depends on."""
MIRRORED = frozenset({"trackers"})
"""Folders of an experiment that no report depends on."""
COMPILED = frozenset({"__pycache__"})
"""Folders of the code that no report depends on."""
PACKAGES = ("rlexp", "jinja2", "numpy", "scipy", "matplotlib")
"""Packages whose versions can change a number or a figure."""
VARIABLE = "${"
"""Marks a reference to an environment variable in a configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRequest:
    """The experiments to report, and the formats and settings.

    Attributes:
        targets: Experiments, or labels of them (`EXPERIMENT/LABEL`).
        formats: Any of `html`, `latex`, `csv`, `json` and `md`.
        output: The folder to write to; None is `reports/EXPERIMENT` in the workspace.
        figures: The folder for figures as PDF and SVG; with None, no figures are written.
        phase: `test`, `selection` or `tuning`; None prefers test where there are test runs.
        overrides: Changed settings of `conf/report.yaml` (`interval=percentile`).
    """

    targets: tuple[str, ...]
    formats: tuple[str, ...] = ("html",)
    output: str | None = None
    figures: str | None = None
    phase: str | None = None
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFiles(Displayed):
    """The files of a report, and its notices.

    Attributes:
        files: The files of the report.
        unchanged: Whether an earlier command wrote the files, and nothing has changed since.
        labels: The compared labels.
        answer: The answer of the report on one line, as on the card of the page; None where there is no card.
        kept_protocols: What the card says of registered protocols that are kept. Deviations are notices.
        notices: Verdicts, warnings, and missing runs.
        failed_checks: The failed checks, each as a sentence; with `--strict`, the exit code is 3
            if there are any.
        attached: Whether the report is in each tracker that the experiment was pushed to. A
            tracker that fails changes nothing else.
        next: Suggested next commands.
    """

    schema: ClassVar[Schema] = Schema("report-files")

    files: tuple[Path, ...]
    unchanged: bool
    labels: tuple[str, ...]
    answer: Answer | None
    kept_protocols: tuple[str, ...]
    notices: tuple[Callout, ...]
    failed_checks: tuple[str, ...]
    attached: tuple[ReportAttachment, ...]
    next: tuple[NextCommand, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSummary:
    """The parts of a report that the command prints; see `ReportFiles`."""

    labels: tuple[str, ...]
    answer: Answer | None
    kept_protocols: tuple[str, ...]
    notices: tuple[Callout, ...]
    failed_checks: tuple[str, ...]

    @classmethod
    def of(cls, study: ReportDocument) -> "ReportSummary":
        """The summary of a report."""
        card = study.card
        return cls(
            labels=study.labels,
            answer=None
            if card is None
            else Answer(tone=card.tone, text=card.text, basis=card.basis),
            kept_protocols=()
            if card is None or not all(check.kept for check in card.protocols)
            else tuple(text for name, text in card.facts if name == "Protocol"),
            notices=tuple(
                b for part in study.parts for b in part.blocks if isinstance(b, Callout)
            ),
            failed_checks=study.failed_checks,
        )

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> "ReportSummary":
        """The summary from its JSON values in the cache."""
        notices = content["notices"]
        answer = content["answer"]
        return cls(
            labels=tuple(map(str, content["labels"])),
            answer=None
            if answer is None
            else Answer(
                tone=Tone(answer["tone"]), text=str(answer["text"]), basis=str(answer["basis"])
            ),
            kept_protocols=tuple(map(str, content["kept_protocols"])),
            notices=tuple(Callout(tone=Tone(n["tone"]), text=str(n["text"])) for n in notices),
            failed_checks=tuple(map(str, content["failed_checks"])),
        )


@dataclass(frozen=True, slots=True)
class ReportMemory:
    """What a process keeps of a report for the next one with the same settings.

    Attributes:
        evidence: What was read.
        results: What was computed.
    """

    evidence: EvidenceMemory = field(default_factory=EvidenceMemory)
    results: ResultMemory = field(default_factory=ResultMemory)


@dataclass(frozen=True, slots=True)
class CachedReport:
    """The files and the summary of a report that is written."""

    files: tuple[Path, ...]
    summary: ReportSummary


@dataclass(frozen=True, slots=True)
class ReportCache:
    """The cache entry of a report: the names and sums of its files, and its summary.

    Attributes:
        file: The JSON file of the entry.
        digest: The digest of everything on which the report depends. It is None, and nothing is
            cached, where modification times cannot show every change: while a command runs an
            experiment, shortly after a change, if environment variables are filled in, and if
            other machines write to the experiment.
        looks: The register of looks, on which the report depends too. Making a report may enter looks,
            so that its sum is taken afterwards.
    """

    file: Path
    digest: str | None
    looks: Path

    @classmethod
    def of(
        cls,
        workspace: Workspace,
        question: Mapping[str, Any],
        experiments: Sequence[ExperimentPaths] | None,
    ) -> "ReportCache":
        """The cache entry of a report of a workspace.

        Args:
            workspace: The workspace.
            question: Targets and settings, as JSON values.
            experiments: The reported experiments; None if the report depends on code or values
                that the digest does not cover.
        """
        folder = workspace.folder
        name = _sha256([os.path.realpath(folder), question])
        file = cache_folder() / "reports" / f"{name[:32]}.json"
        digest = None if experiments is None else _digest(question, experiments, folder)
        return cls(file, digest, workspace.layout.looks)

    def load(self) -> CachedReport | None:
        """The cached report, if its inputs and its files are unchanged; else None."""
        if self.digest is None:
            return None
        with suppress(RecordError, KeyError, TypeError, ValueError, AttributeError):
            content = read_json(self.file)
            sums = {Path(name): text for name, text in content["files"].items()}
            if content["looks"] not in ([], [sum_of_file(self.looks)]):
                return None
            # A report that the user has edited or removed is written again.
            if content["source"] == self.digest and all(sum_of_file(p) == sums[p] for p in sums):
                return CachedReport(tuple(sums), ReportSummary.read(content["summary"]))
        return None

    def save(
        self, files: Mapping[Path, bytes], summary: ReportSummary, looks: CountedLooks
    ) -> None:
        """Save the cache entry of a written report; a folder that cannot be written is ignored.

        `looks` are those that the report was made with.
        """
        if self.digest is None:
            return
        content = {
            "source": self.digest,
            # Scores of other phases than the test are no looks: such a report needs no register.
            "looks": [looks.register] if looks.tasks else [],
            "files": {str(path): sha256(data).hexdigest() for path, data in files.items()},
            "summary": asdict(summary),
        }
        with suppress(OSError, RecordError):
            # The digest covers secrets. Other users must not read it: they could test guesses.
            self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            publish_json(self.file, content)


def report(
    request: ReportRequest, workspace: Workspace, observer: Observer | None = None
) -> ReportFiles:
    """Write one report of all targets, and attach it to the trackers of its experiment.

    An observer receives a remark before trackers are waited for.

    Raises:
        RlexpError: A target, a format or a setting is unknown; nothing was written.
    """
    formats = read_formats(request.formats)
    workspace.make_allowed_importable()
    parts = read_report(request.overrides, workspace.folder, workspace.allowed)
    read_phase(request.phase)
    cache = _cache(request, formats, parts, workspace)
    earlier = cache.load()
    written = earlier or _make(request, formats, parts, workspace, cache)
    attached = _attach(request, workspace, observer)
    return ReportFiles(
        files=written.files,
        unchanged=earlier is not None,
        labels=written.summary.labels,
        answer=written.summary.answer,
        kept_protocols=written.summary.kept_protocols,
        notices=written.summary.notices,
        failed_checks=written.summary.failed_checks,
        attached=attached,
        next=_next(request, written.summary, attached, workspace),
    )


def _next(
    request: ReportRequest,
    summary: ReportSummary,
    attached: Sequence[ReportAttachment],
    workspace: Workspace,
) -> tuple[NextCommand, ...]:
    commands = []
    if len(summary.labels) > 1:
        phase = ["--phase", request.phase] if request.phase else []
        settings = set_options(request.overrides)
        words = ["rlexp", "compare", *request.targets, *phase, *settings, *workspace.permission]
        commands.append(NextCommand(why="compare in the terminal", command=shlex.join(words)))
    later = dict.fromkeys(tracker.command for tracker in attached if tracker.command)
    commands += [NextCommand(why="attach the report in the trackers", command=c) for c in later]
    return tuple(commands)


def _attach(
    request: ReportRequest, workspace: Workspace, observer: Observer | None
) -> tuple[ReportAttachment, ...]:
    """Attach the report; one of several experiments, or in another folder, belongs to no tracker."""
    names = list(dict.fromkeys(read_target(text).experiment for text in request.targets))
    if request.output or len(names) > 1:
        return ()
    return attach_report(workspace.experiment(names[0]), workspace, observer)


def _cache(
    request: ReportRequest, formats: Sequence[str], parts: ReportParts, workspace: Workspace
) -> ReportCache:
    question = {
        "targets": list(request.targets),
        "phase": request.phase,
        "formats": list(formats),
        "output": request.output,
        "figures": request.figures,
        # Relative names of `output` and `figures` refer to the current folder.
        "from": str(Path.cwd()),
        "settings": parts.composed,
        # A setting that the command names replaces the sealed one of a protocol, also where it is the default.
        "chosen": sorted(parts.chosen),
        "protocols": sum_of_file(workspace.layout.protocols),
    }
    names = dict.fromkeys(read_target(text).experiment for text in request.targets)
    # Allowed packages are the user's code, whose files the digest does not cover.
    experiments = None if workspace.allowed else [workspace.experiment(name) for name in names]
    return ReportCache.of(workspace, question, experiments)


def _make(
    request: ReportRequest,
    formats: Sequence[str],
    parts: ReportParts,
    workspace: Workspace,
    cache: ReportCache,
) -> CachedReport:
    """Compute a report, write its files, and cache it."""
    evidence, study = compute_report(request, parts, workspace, enter=True)
    folder = Path(request.output) if request.output else _folder(workspace, evidence)
    films = film_addresses(study, workspace.folder, folder) if "html" in formats else {}
    files = render_files(
        study, formats, folder, Path(request.figures) if request.figures else None, films
    )
    for path, content in files.items():
        _write(path, content)
    summary = ReportSummary.of(study)
    # A running run becomes lost when its process dies, and no file changes then.
    if not evidence.running:
        cache.save(files, summary, evidence.looks)
    return CachedReport(tuple(files), summary)


def compute_report(
    request: ReportRequest,
    parts: ReportParts,
    workspace: Workspace,
    *,
    enter: bool = False,
    catalogued: bool = True,
) -> tuple[Evidence, ReportDocument]:
    """The evidence of a report and its content; no report is written.

    Args:
        request: What is reported.
        parts: Sections, metrics and settings.
        workspace: The workspace.
        enter: Whether looks are entered.
        catalogued: Whether runs may come from the catalogue, which is then written; otherwise, every
            journal is read.

    Raises:
        RlexpError: A target or the phase is unknown, or a definition cannot be read.
    """
    memory = ReportMemory(evidence=EvidenceMemory(lasting=False, catalogued=catalogued))
    evidence = _evidence(request, parts, workspace, memory, enter=enter)
    return evidence, _study(request, parts, workspace, memory, evidence)


def compute_report_in_stages(
    request: ReportRequest, parts: ReportParts, workspace: Workspace, memory: ReportMemory
) -> Iterator[tuple[ReportDocument, bool]]:
    """A report without the intervals of pairs, where there are many pairs, and then the report.

    Each comes with whether it is complete.

    Args:
        request: What is reported.
        parts: Sections, metrics and settings; the same for one memory.
        workspace: The workspace.
        memory: What this process kept of an earlier report; the new report is added.

    Raises:
        RlexpError: A target or the phase is unknown, or a definition cannot be read.
    """
    evidence = _evidence(request, parts, workspace, memory, enter=False)
    if len(evidence.labels) >= STAGED:
        early = _study(request, parts, workspace, memory, evidence, pair_intervals=False)
        yield early, False
    yield _study(request, parts, workspace, memory, evidence), True


def _evidence(
    request: ReportRequest,
    parts: ReportParts,
    workspace: Workspace,
    memory: ReportMemory,
    *,
    enter: bool,
) -> Evidence:
    return collect_evidence(
        request.targets,
        read_phase(request.phase),
        workspace,
        importance="importance" in parts.sections,
        integrity=True,
        measurements="measurements" in parts.sections,
        enter=enter,
        memory=memory.evidence,
    )


def _study(
    request: ReportRequest,
    parts: ReportParts,
    workspace: Workspace,
    memory: ReportMemory,
    evidence: Evidence,
    *,
    pair_intervals: bool = True,
) -> ReportDocument:
    """The report of evidence, with next commands, notes and films."""
    kept = IntervalMemory.of(workspace.experiment(evidence.experiments[0].name))
    study = make_report(evidence, parts, memory.results, pair_intervals=pair_intervals, kept=kept)
    kept.save()
    commands = card_commands(
        request.targets, request.overrides, evidence, study, parts.settings, workspace
    )
    study = with_commands(study, tuple(commands), winner_overrides(evidence))
    experiments = [workspace.experiment(e.name) for e in evidence.experiments]
    return with_films(with_annotations(study, experiments), evidence, workspace)


def compute_brief_report(
    request: ReportRequest, parts: ReportParts, workspace: Workspace, memory: ReportMemory
) -> ReportDocument:
    """The card of a report with scores and learning curves, and without comparisons.

    What is read of the runs is added to `memory`.

    Raises:
        RlexpError: A target or the phase is unknown, or a definition cannot be read.
    """
    evidence = collect_evidence(
        request.targets, read_phase(request.phase), workspace, memory=memory.evidence
    )
    return make_brief_report(evidence, parts)


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        publish(path, content)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror}; name another folder with --output (for "
            "figures, with --figures)",
        ) from error


def _folder(workspace: Workspace, evidence: Evidence) -> Path:
    return workspace.folder / report_folder([e.name for e in evidence.experiments])


def report_folder(experiments: Sequence[str]) -> str:
    """The folder of the report of some experiments, relative to their workspace."""
    return f"{REPORTS}/{'+'.join(experiments)[:LONGEST_NAME]}"


def _digest(
    question: Mapping[str, Any], experiments: Iterable[ExperimentPaths], workspace: Path
) -> str | None:
    """The digest of settings, records, films, code, versions and secrets; None if unreliable."""
    if VARIABLE in json.dumps(question):
        return None
    # A file changed within SETTLED seconds may change again within one tick of its clock.
    before = time.time() - SETTLED
    # The version alone is not enough: an editable installation changes without a new version.
    code = stamp_of_tree(str(Path(rlexp.__file__).parent), before, folders=COMPILED)
    stamps = [code, stamp_of_films(workspace, before)]
    stamps += [_stamp(paths, before) for paths in experiments]
    if None in stamps:
        return None
    versions = [platform.python_version(), *map(_version, PACKAGES)]
    # A report masks the values of secret variables, so it changes with them.
    masked = sorted(secret_values(os.environ))
    return _sha256([question, stamps, versions, masked])


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _stamp(paths: ExperimentPaths, before: float) -> str | None:
    """The digest of names, sizes and times of an experiment's files; None if not reliable."""
    if is_held(paths.lock) or is_shared(paths.catalogue):
        return None
    with suppress(OSError):
        # Environment variables in a tuner's settings are filled in whenever the sweep is read.
        if VARIABLE.encode() not in read_file(paths.definition):
            return _stamp_by_two(os.path.realpath(paths.folder), before)
    return None


def _stamp_by_two(folder: str, before: float) -> str | None:
    """The digest of the files of an experiment; a fork looks at half of a large one."""
    entries = len(os.listdir(folder))  # noqa: PTH208 (names only)
    middle = entries // 2
    stamp = partial(stamp_of_tree, folder, before, files=IGNORED, folders=MIRRORED)
    last = partial(stamp, share=slice(middle, None))
    with beside(last, worthwhile=entries >= WORTH_FORKING) as fork:
        first, second = stamp(share=slice(middle)), fork.result()
    return None if first is None or second is None else first + second


def _sha256(values: Sequence[Any]) -> str:
    return sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
