"""Selects the files of experiments that belong into a bundle, by name."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rlexp.app.streams.handed_scoring import answer_of
from rlexp.config.overrides import REPORT_GROUPS
from rlexp.errors import RecordError
from rlexp.store.files import open_file
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.left_out import POLICY_FILES, LeftOutFile
from rlexp.store.registers.ledger import sum_of_file

CHECKPOINTS = ("checkpoints", "replay", "parent")
"""Folders of a run that are never in a bundle: its checkpoints, and the state of its parent."""
SETTINGS = ("conf/report.yaml", *(f"conf/{group}" for group in REPORT_GROUPS))
"""Files and folders of a workspace that change the numbers of a report."""


@dataclass(slots=True)
class RecordFiles:
    """The files of an experiment, sorted by what becomes of them in a bundle.

    Attributes:
        bundled: Bytes by path of the files that are copied, relative to the experiment.
        policies: Policies that are left out, by `RUN/FILE`.
        kept_back: Bytes by kind (`checkpoints`, `logs`, `policies`) of everything that is left out.
    """

    bundled: dict[str, int] = field(default_factory=dict)
    policies: dict[str, LeftOutFile] = field(default_factory=dict)
    kept_back: dict[str, int] = field(default_factory=dict)


def record_files(paths: ExperimentPaths, *, models: bool) -> RecordFiles:
    """The files of an experiment for a bundle.

    Files are named one by one, so that a bundle never holds what is no record: logs, files of trackers,
    queues, caches, and whatever else lies in the folder.

    Args:
        paths: The experiment.
        models: Whether policies belong into the bundle.

    Raises:
        RecordError: A folder or a policy cannot be read.
    """
    files = RecordFiles()
    of_experiment = (
        *(paths.definition, paths.ledger, paths.trials, paths.selection, paths.adaptive),
        *(paths.annotations, paths.names, paths.gate, paths.ablation, paths.candidates),
        paths.schedule,
    )
    for path in of_experiment:
        _add(files, paths, path)
    # A copy that lacks policies can be bundled again: it still lacks them.
    if paths.left_out.exists():
        _add(files, paths, paths.left_out)
    for run in paths.runs():
        _add_run(files, paths, run, models=models)
    policies = list(_files_below(paths.policies))
    for path in policies:
        _add(files, paths, path) if models else _keep_back(files, "policies", path)
    # As large as checkpoints, and needed by trainings alone.
    for path in _files_below(paths.prior_data):
        _keep_back(files, "checkpoints", path)
    return files


def _add_run(files: RecordFiles, paths: ExperimentPaths, run: RunPaths, *, models: bool) -> None:
    _add(files, paths, run.spec)
    # The score of a run of a stream, and the answer of the worker that has computed it.
    _add(files, paths, run.scoring)
    _add(files, paths, answer_of(paths, run.folder.name))
    for attempt in run.attempts():
        for path in (
            *(attempt.settings, attempt.provenance, attempt.patch),
            *(attempt.journal, attempt.verdict, attempt.system_metrics),
        ):
            _add(files, paths, path)
        _keep_back(files, "logs", attempt.log)
    for name in POLICY_FILES:
        path = run.folder / name
        if models:
            _add(files, paths, path)
        elif path.exists():
            sha256 = sum_of_file(path)
            if sha256 is None:
                raise RecordError(f"{path} cannot be read")
            size = path.stat().st_size
            files.policies[f"{run.folder.name}/{name}"] = LeftOutFile(size, sha256)
            _keep_back(files, "policies", path)
    for name in CHECKPOINTS:
        for path in _files_below(run.folder / name):
            _keep_back(files, "checkpoints", path)


def _add(files: RecordFiles, paths: ExperimentPaths, path: Path) -> None:
    # A link is opened when it is copied, which refuses it.
    if path.is_symlink() or path.exists():
        files.bundled[path.relative_to(paths.folder).as_posix()] = path.lstat().st_size


def _keep_back(files: RecordFiles, kind: str, path: Path) -> None:
    if path.exists():
        files.kept_back[kind] = files.kept_back.get(kind, 0) + path.lstat().st_size


def _files_below(folder: Path) -> Iterator[Path]:
    if folder.is_dir() and not folder.is_symlink():
        yield from (path for path in sorted(folder.rglob("*")) if path.is_file())


def settings_files(workspace: Path) -> Sequence[str]:
    """The files of a workspace that change the numbers of a report, relative to it."""
    files = list[str]()
    for name in SETTINGS:
        path = workspace / name
        listed = sorted(path.glob("*.yaml")) if path.is_dir() else [path] if path.is_file() else []
        files += [p.relative_to(workspace).as_posix() for p in listed]
    return files


def copy_file(source: Path, target: Path) -> None:
    """Copy a regular file; the folder of the target is made.

    Raises:
        RecordError: The source is a link or cannot be read.
        OSError: The target cannot be written.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        opened = open_file(source)
    except OSError as error:
        raise RecordError(f"{source} cannot be read: {error.strerror}") from error
    with opened, target.open("xb") as to:
        while chunk := opened.read(1 << 20):
            to.write(chunk)
