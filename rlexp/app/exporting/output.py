"""Reads the runs of an export, describes its result, and writes its files whole or not at all."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Self, TypeAlias
from uuid import uuid4

from rlexp.app.reading.imported import imported_lines
from rlexp.app.reading.integrity import refuse_changed
from rlexp.app.reporting.build import read_phase
from rlexp.app.reporting.evidence import collect_evidence
from rlexp.app.results import NextCommand, Schema
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError, RecordError, did_you_mean
from rlexp.exchange.exporters.exported_runs import ExportedRun
from rlexp.protocol.seeds import Phase
from rlexp.reports.analysis.answer import PHASE_CAVEATS
from rlexp.reports.evidence.runs import Evidence, PlannedRun, state
from rlexp.store.files import open_file, publish_with, sync
from rlexp.text import format_count, join_first_names, join_names


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """The options of an export; an option that was not given is empty.

    Attributes:
        format: `rliable`, `marl-eval`, `csv`, `parquet`, `script`, `huggingface` or `minari`.
        targets: Experiments, or labels of them (`EXPERIMENT/LABEL`); for a script, one run.
        output: The new file or folder; of a Minari dataset, its id.
        phase: `test` (the default), `selection` or `tuning`.
        tasks: The tasks to export; empty for all tasks.
        level: The single table to write: `runs`, `evaluations` or `episodes`.
        metric: The metric of a model card: `iqm` (the default), `mean` or `median`.
        common_seeds: Whether to export only the seeds that every task has.
        normalised: Whether scores are normalised to 0 and 1 at the anchors of each task.
        force: Whether to replace existing files.
        strict: Whether to refuse runs of which any file differs from the ledger.
        episodes: Number of episodes of each policy in a dataset; None is 100.
        checkpoint: The step of the checkpoint whose policies are recorded; None is the final policy.
        stochastic: Whether recorded policies sample their actions.
    """

    format: str
    targets: tuple[str, ...]
    output: str | None = None
    phase: str | None = None
    tasks: tuple[str, ...] = ()
    level: str | None = None
    metric: str | None = None
    common_seeds: bool = False
    normalised: bool = False
    force: bool = False
    strict: bool = False
    episodes: int | None = None
    checkpoint: int | None = None
    stochastic: bool = False


def evidence_of(
    request: ExportRequest, workspace: Workspace, *, measurements: bool = False
) -> Evidence:
    """The planned runs of the targets in the requested phase, by default the test phase.

    With `measurements`, their records have what learners logged.

    Raises:
        RlexpError: A target, phase or task is unknown, or no run has a score.
    """
    phase = read_phase(request.phase) or Phase.TEST
    evidence = collect_evidence(
        request.targets,
        phase,
        workspace,
        integrity=request.strict,
        measurements=measurements,
    )
    refuse_changed(evidence.integrity)
    for task in request.tasks:
        if task not in evidence.tasks:
            raise ConfigError(
                f"there are no {phase} runs on task {task!r}{did_you_mean(task, evidence.tasks)} "
                f"(there are some on: {', '.join(evidence.tasks) or 'none'})",
            )
    if request.tasks:
        members = tuple(m for m in evidence.members if m.task in request.tasks)
        evidence = replace(evidence, members=members)
    _check_scored(evidence)
    return evidence


def _check_scored(evidence: Evidence) -> None:
    names = [e.name for e in evidence.experiments]
    if all(m.score is None for m in evidence.members):
        absent = (
            f" ({format_count(len(evidence.members), 'run')} planned)" if evidence.members else ""
        )
        problem = f" ({evidence.problems[0]})" if evidence.problems else ""
        raise RecordError(
            f"{join_names(names)}: no {evidence.phase} run has a score{absent}, so there is "
            f"nothing to export{problem}; 'rlexp status {names[0]}' shows "
            "its progress",
        )


def exported_outcomes(evidence: Evidence) -> list[ExportedRun]:
    """Every planned run in the form that exporters read; an unreadable run has no score."""
    return [
        ExportedRun(
            run=member.name,
            label=member.label,
            task=member.task,
            state=state(member),
            score=member.score,
            record=member.record,
        )
        for member in evidence.members
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWithoutScore:
    """A planned run without a score.

    Attributes:
        run: Its name.
        state: Its state in words (`failed (nan)`).
    """

    run: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedFiles:
    """The result of an export.

    Attributes:
        format: `rliable`, `marl-eval`, `csv`, `parquet`, `script`, `huggingface` or `minari`.
        output: The file or folder of the export.
        files: Every file that was written.
        phase: The phase of the runs.
        n: Number of runs with a score.
        planned: Number of planned runs.
        without_score: Planned runs without a score.
        problems: Files that could not be read, each described by a sentence.
        tasks: Columns of the arrays (`rliable`, `marl-eval`).
        seeds: Rows of the arrays, by label (`rliable`, `marl-eval`).
        left_out: Runs with a score whose seeds some label or task lacks (`rliable`, `marl-eval`).
        unit: The unit of the scores, in words (`rliable`).
        rows: The number of rows of each table (`csv`, `parquet`); the numbers of `episodes` and `steps`
            (`minari`).
        run: The run whose policy was written (`script`).
        mean_return: The mean return of its final evaluation (`script`), or of the recorded episodes
            (`minari`).
        imports: Packages that the scripts import and that the export does not contain (`script`,
            `huggingface`).
        result: The metric with its interval and n, as on the card (`huggingface`).
        remarks: What a reader must know about the runs, each as a sentence.
        next: Suggested next commands.
    """

    schema: ClassVar[Schema] = Schema("exported-files")

    format: str
    output: Path
    files: tuple[Path, ...] = ()
    phase: str
    n: int
    planned: int
    without_score: tuple[RunWithoutScore, ...] = ()
    problems: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    seeds: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    unit: str | None = None
    rows: Mapping[str, int] = field(default_factory=dict)
    run: str | None = None
    mean_return: float | None = None
    imports: tuple[str, ...] = ()
    result: str | None = None
    remarks: tuple[str, ...] = ()
    next: tuple[NextCommand, ...] = ()


Content: TypeAlias = bytes | Callable[[Path], object]
"""The content of a file, or a function that writes it to a path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """An export that is ready to be written.

    Attributes:
        contents: File contents by name; names are relative to the output's folder.
        folder: Whether the output is a folder.
        outcome: The result; its `files` are added after writing.
    """

    contents: Mapping[str, Content]
    folder: bool
    outcome: ExportedFiles


@dataclass(frozen=True, slots=True)
class ExportTarget:
    """The destination of an export; with `force`, existing files are replaced."""

    path: Path
    force: bool

    @classmethod
    def of(cls, name: str | None, workspace: Workspace, *, force: bool) -> Self:
        """The destination that the option `--output` names.

        Raises:
            ConfigError: The option is missing, or it names a link or a path among the records.
        """
        if not name:
            raise ConfigError(
                "the destination is missing: name a file or a new folder with --output PATH"
            )
        path = workspace.folder / name
        if "\0" in name or path.name in {"", ".."}:
            raise ConfigError(f"--output={name!r} is not the name of a file or folder")
        try:
            is_link = path.is_symlink()
        except OSError as error:
            raise ConfigError(f"--output={name!r} cannot be written: {error.strerror}") from error
        if is_link:
            raise ConfigError(
                f"{name} is a link, and exports are not written through links: name another --output"
            )
        records = workspace.layout.root.resolve()
        # Also a folder around the records is refused: --force would replace them.
        if path.resolve().is_relative_to(records) or records.is_relative_to(path.resolve()):
            raise ConfigError(
                f"--output={name} is inside the folder of the records: name a path outside {records}"
            )
        return cls(path, force)

    @property
    def suffix(self) -> str:
        """The suffix of the name in lower case (`.csv`)."""
        return self.path.suffix.lower()

    def check_free(self) -> None:
        """Refuse to replace an existing file or folder without `force`.

        Raises:
            ConfigError: The destination exists.
        """
        if self.path.exists() and not self.force:
            raise ConfigError(
                f"{self.path} exists: name another --output, or replace it with --force"
            )

    def write(self, export: Export) -> tuple[Path, ...]:
        """Write all files and return their paths.

        Raises:
            ConfigError: Another file or folder is in the way, or the destination cannot be written.
        """
        try:
            return self._write_folder(export) if export.folder else self._write_files(export)
        except OSError as error:
            reason = error.strerror or str(error)
            raise ConfigError(
                f"{self.path} cannot be written: {reason}; name another --output"
            ) from error

    def _write_files(self, export: Export) -> tuple[Path, ...]:
        paths = {self.path.with_name(name): content for name, content in export.contents.items()}
        for path in paths:
            if path.is_symlink() or path.is_dir() or (path.exists() and not self.force):
                raise ConfigError(
                    f"{path} exists: name another --output"
                    + (
                        ""
                        if path.is_symlink() or path.is_dir()
                        else ", or replace it with --force"
                    )
                )
        for path, content in paths.items():
            publish_with(path, _writer(content))
        return tuple(paths)

    def _write_folder(self, export: Export) -> tuple[Path, ...]:
        self._check_replaceable(export)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # The folder is prepared under a hidden name beside its destination, and renamed when
        # complete.
        temporary = self.path.with_name(f".{uuid4().hex[:8]}.{self.path.name}")
        try:
            for name, content in export.contents.items():
                file = temporary / name
                file.parent.mkdir(parents=True, exist_ok=True)
                _writer(content)(file)
                # Before the renaming: after a power cut, no empty file has a final name.
                sync(file)
            self._put_in_place(temporary)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        return tuple(self.path / name for name in export.contents)

    def _put_in_place(self, temporary: Path) -> None:
        old = self.path.with_name(f".{uuid4().hex[:8]}.old.{self.path.name}")
        # A folder cannot be renamed over another one, so the old one is moved aside first and
        # comes back if the second renaming fails.
        if self.path.exists():
            self.path.rename(old)
        try:
            temporary.rename(self.path)
        except BaseException:
            with suppress(OSError):
                old.rename(self.path)
            raise
        shutil.rmtree(old, ignore_errors=True)
        with suppress(OSError):
            sync(self.path.parent)

    def _check_replaceable(self, export: Export) -> None:
        """Refuse to replace a folder that holds a file which this export would not write again."""
        self.check_free()
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise ConfigError(
                f"{self.path} is a file, and this export writes a folder: name another --output"
            )
        # With --force the old folder is deleted: files that the user has put there would be lost.
        foreign = sorted(set(_files_in(self.path)) - set(export.contents))
        if foreign:
            raise ConfigError(
                f"{self.path} holds {foreign[0]!r}, which this export would not write again: "
                "remove it, or name another --output",
            )


def exported_runs(
    evidence: Evidence, request: ExportRequest, output: ExportTarget, *remarks: str
) -> ExportedFiles:
    """The result of an export of several runs, without its files.

    Args:
        evidence: The runs.
        request: The options of the export.
        output: The destination.
        remarks: Further sentences for the reader.
    """
    absent = _absent(evidence)
    return ExportedFiles(
        format=request.format,
        output=output.path,
        phase=str(evidence.phase),
        n=len(evidence.members) - len(absent),
        planned=len(evidence.members),
        without_score=tuple(RunWithoutScore(run=m.name, state=state(m)) for m in absent),
        problems=evidence.problems,
        remarks=remarks,
    )


def run_remarks(evidence: Evidence) -> list[str]:
    """Sentences about the runs: how many have a score, which have none, and their origin."""
    absent, total = _absent(evidence), len(evidence.members)
    lines = [
        f"{total - len(absent)} of {format_count(total, f'{evidence.phase} run')} have a score"
    ]
    if absent:
        names = [f"{m.name} ({state(m)})" for m in absent]
        lines.append(f"Without a score: {join_first_names(names)}")
    if evidence.phase in PHASE_CAVEATS:
        lines.append(f"Not test scores: {PHASE_CAVEATS[evidence.phase]}")
    for phase, count in sorted(evidence.left_out.items()):
        lines.append(f"Not exported: {format_count(count, f'{phase} run')}")
    lines += [line for e in evidence.experiments for line in imported_lines(e)]
    return [*lines, *(f"Problem: {line}" for line in evidence.problems)]


def _absent(evidence: Evidence) -> list[PlannedRun]:
    return [m for m in evidence.members if m.score is None]


def copy_of(source: Path) -> Content:
    """A function that copies a regular file to the path that it is given."""

    def copy(target: Path) -> None:
        with open_file(source) as content, target.open("wb") as file:
            shutil.copyfileobj(content, file)

    return copy


def _writer(content: Content) -> Callable[[Path], object]:
    return (lambda path: path.write_bytes(content)) if isinstance(content, bytes) else content


def _files_in(folder: Path) -> Iterator[str]:
    for path in folder.rglob("*"):
        # A link to a folder counts as a file: the folder behind it is not part of the export.
        if path.is_symlink() or not path.is_dir():
            yield path.relative_to(folder).as_posix()
