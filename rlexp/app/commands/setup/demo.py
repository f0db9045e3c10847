"""`rlexp demo`: trains a first experiment, compares its two labels, and writes the report."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from rlexp.app.commands.judge.compare import CompareRequest, Comparison, compare
from rlexp.app.commands.judge.report import ReportRequest, report
from rlexp.app.commands.train.run import RunOptions, RunOutcome, run_missing
from rlexp.app.execution.request import RunRequest, read_request
from rlexp.app.observer import Observer
from rlexp.app.reading.summary import RunRow
from rlexp.app.results import NextCommand, Schema
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError, RecordError

STUDY = Path(__file__).with_suffix(".yaml")
"""The study file of the experiment."""
COMPILED_STUDY = STUDY.with_name("demo_compiled.yaml")
"""The study file of the experiment with a compiled algorithm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstration:
    """The experiment of `rlexp demo` after the command.

    Attributes:
        experiment: The name of the experiment.
        ran: Number of missing runs that were started.
        complete: Whether every run has a score.
        interrupted: The signal that ended the command (`SIGINT`); null if none did.
        page: The report as a page, as an absolute path; null while runs are missing.
        next: Suggested next commands.
        outcome: The state of the runs, with their scores, in Python only.
        comparison: The verdict on the two labels, in Python only; None while runs are missing, and with
            `compiled`, which has one label.
    """

    schema: ClassVar[Schema] = Schema("demonstration")

    experiment: str
    ran: int
    complete: bool
    interrupted: str | None
    page: Path | None
    next: tuple[NextCommand, ...]
    outcome: RunOutcome = field(repr=False, compare=False)
    comparison: Comparison | None = field(repr=False, compare=False)


def demo(
    folder: str, observer: Observer, words: Sequence[str] = (), *, compiled: bool = False
) -> Demonstration:
    """Train what is missing of the experiment; when every run has a score, compare and report.

    Args:
        folder: The folder that receives `runs/` and `reports/`; it is made if it is missing.
        observer: Receives the plan and the progress.
        words: Overrides of the study, for a shorter training.
        compiled: Whether to train a compiled algorithm instead of the pair.

    Raises:
        RlexpError: The folder cannot be made or written, or holds another experiment of this name; JAX
            is missing, with `compiled`.
    """
    workspace = _workspace(folder)
    typed = ("rlexp", "demo", *(["--compiled"] if compiled else []))
    request = read_request([str(COMPILED_STUDY if compiled else STUDY), *words], workspace)
    name = request.experiment.name
    # The suggested command has options that `rlexp demo` lacks, such as --allow-drift.
    begun = workspace.layout.experiment(name).definition.exists()
    command = ("rlexp", "resume", name) if begun else typed
    outcome = _run(request, command, workspace, observer)
    comparison, page = None, None
    if outcome.complete:
        if not compiled:
            comparison = compare(CompareRequest(targets=(name,)), workspace)
        page = report(ReportRequest(targets=(name,)), workspace).files[0]
    return Demonstration(
        experiment=name,
        ran=outcome.ran,
        complete=outcome.complete,
        interrupted=outcome.interrupted,
        page=page,
        next=tuple(_next(outcome, typed, folder, workspace)),
        outcome=outcome,
        comparison=comparison,
    )


def _workspace(folder: str) -> Workspace:
    """The workspace in a folder, which is made if it is missing."""
    path = Path(folder).expanduser()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"the folder {path} cannot be made: {error.strerror}; name another one: "
            "rlexp demo FOLDER",
            key=folder,
            code="unwritable",
        ) from error
    return Workspace.here(folder=path)


def _run(
    request: RunRequest, command: tuple[str, ...], workspace: Workspace, observer: Observer
) -> RunOutcome:
    try:
        outcome = run_missing(request, command, RunOptions(probe=False), workspace, observer)
    except RecordError as error:
        if error.code != "other_definition":
            raise
        # The words of the experiment, among them its name, cannot be typed behind `rlexp demo`.
        raise error.rephrased(
            f"{workspace.folder} holds another experiment {request.experiment.name}; name another "
            "folder: rlexp demo FOLDER"
        ) from error
    if not isinstance(outcome, RunOutcome):
        raise TypeError("a run without dry_run returns its outcome")
    return outcome


def _next(
    outcome: RunOutcome, typed: tuple[str, ...], folder: str, workspace: Workspace
) -> Iterator[NextCommand]:
    """The suggested next commands."""
    name = outcome.summary.experiment
    if not outcome.complete and any(r.state != "failed" for r in _unfinished(outcome)):
        arguments = [] if folder == "." else [folder]
        yield NextCommand(why="continue", command=shlex.join([*typed, *arguments]))
        return
    if workspace.folder != Path.cwd():
        yield NextCommand(why="go to the folder", command=shlex.join(["cd", folder]))
    if not outcome.complete:
        yield NextCommand(why="see what happened", command=f"rlexp show {name}")
        yield NextCommand(why="repeat the failed runs", command=f"rlexp resume {name} --retry")
        return
    yield NextCommand(why="see the learning curves", command=f"rlexp plot {name}")
    if "--compiled" in typed:
        yield NextCommand(why="see every run", command=f"rlexp show {name} --full")
    else:
        yield NextCommand(why="see every test of the pair", command=f"rlexp compare {name} --full")
    yield NextCommand(why="begin a study of your own", command="rlexp init --study")


def _unfinished(outcome: RunOutcome) -> list[RunRow]:
    """The runs without a score."""
    return [run for run in outcome.summary.runs if run.state != "completed"]
