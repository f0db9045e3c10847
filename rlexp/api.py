"""The commands as Python functions: the same use cases as the command line's.

Every function works in the current folder, or in `folder`, and returns the result that the command
shows: a frozen dataclass. Nothing is printed unless an observer is given. A mistake is an
`rlexp.errors.RlexpError`. The functions leave the handlers of signals alone, so that they can be
called in a notebook: an interrupt ends the runs in order and is raised as `KeyboardInterrupt`.
"""

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlexp.app.commands.compare import Comparison
    from rlexp.app.commands.evaluate import PolicyEvaluation
    from rlexp.app.commands.list_runs import Listing
    from rlexp.app.commands.load import Records
    from rlexp.app.commands.report import ReportFiles
    from rlexp.app.commands.run import RunOutcome
    from rlexp.app.commands.show import Shown
    from rlexp.app.commands.sweep import SweepOutcome
    from rlexp.app.observer import Observer
    from rlexp.app.plans import RunPlan, SweepOutline
    from rlexp.app.workspace import Workspace

Folder = str | PathLike[str]
Words = str | Sequence[str]
"""One word, or several."""


def run(
    *overrides: str,
    dry_run: bool = False,
    retry: bool = False,
    allow_drift: bool = False,
    detach: bool = False,
    from_sweep: str | None = None,
    trial: int | None = None,
    folder: Folder = ".",
    allow_import: Words = (),
    observer: "Observer | None" = None,
) -> "RunOutcome | RunPlan":
    """Train configurations on seeds: what `rlexp run` does.

    Args:
        overrides: Configuration in Hydra's grammar (`"algorithm=ppo"`, `"budget.steps=20000"`).
        dry_run: Whether to return the plan, and start nothing.
        retry: Whether runs are tried again whose failure is final.
        allow_drift: Whether runs continue from checkpoints of other versions.
        detach: Whether runs on a cluster go on without this process.
        from_sweep: The sweep of which a trial is trained again.
        trial: The number of that trial; by default the winner.
        folder: The workspace; by default the current folder.
        allow_import: Packages whose classes may be used although only records name them.
        observer: Receives the plan and the progress.

    Raises:
        rlexp.errors.RlexpError: Something is wrong with what was asked; nothing was started.
        KeyboardInterrupt: The call was interrupted; the same call continues.
    """
    from rlexp.app.commands.run import RunOptions
    from rlexp.app.commands.run import run as use_case
    from rlexp.app.sweeps.retrain import read_origin

    options = RunOptions(
        dry_run=dry_run,
        retry=retry,
        allow_drift=allow_drift,
        detach=detach,
        origin=read_origin(from_sweep, trial),
    )
    outcome = use_case(
        _words(overrides), options, _workspace(folder, allow_import), _observer(observer)
    )
    _raise_interrupt(outcome)
    return outcome


def sweep(
    name: str | None = None,
    *overrides: str,
    dry_run: bool = False,
    retry: bool = False,
    allow_drift: bool = False,
    until: str = "test",
    folder: Folder = ".",
    allow_import: Words = (),
    observer: "Observer | None" = None,
) -> "SweepOutcome | SweepOutline":
    """Tune on tuning seeds, choose once, and test the choice: what `rlexp sweep` does.

    Args:
        name: A definition in `sweeps/`, if there is one.
        overrides: Configuration in Hydra's grammar (`"sweep.trials=20"`).
        dry_run: Whether to return the plan, and start nothing.
        retry: Whether runs are tried again whose failure is final.
        allow_drift: Whether runs continue from checkpoints of other versions.
        until: The stage to stop after: `search`, `selection` or `test`.
        folder: The workspace; by default the current folder.
        allow_import: Packages whose classes may be used although only records name them.
        observer: Receives the plan and the progress.

    Raises:
        rlexp.errors.RlexpError: Something is wrong with what was asked; nothing was started.
        KeyboardInterrupt: The call was interrupted; the same call continues.
    """
    from rlexp.app.commands.sweep import SweepOptions, read_stage
    from rlexp.app.commands.sweep import sweep as use_case

    options = SweepOptions(
        dry_run=dry_run, retry=retry, allow_drift=allow_drift, until=read_stage(until)
    )
    workspace = _workspace(folder, allow_import)
    outcome = use_case(name, _words(overrides), options, workspace, _observer(observer))
    _raise_interrupt(outcome)
    return outcome


def compare(
    *targets: str,
    phase: str | None = None,
    settings: Words = (),
    folder: Folder = ".",
    allow_import: Words = (),
) -> "Comparison":
    """Compare labels, with a verdict for each pair: what `rlexp compare` does.

    Args:
        targets: Experiments, or labels of them (`"EXPERIMENT/LABEL"`).
        phase: `test`, `selection` or `tuning`.
        settings: Changed settings of `conf/report.yaml` (`"margin=10"`).
        folder: The workspace; by default the current folder.
        allow_import: Packages whose classes may be used although only records name them.

    Raises:
        rlexp.errors.RlexpError: A target or a setting is unknown, or there is one label only.
    """
    from rlexp.app.commands.compare import CompareRequest
    from rlexp.app.commands.compare import compare as use_case

    request = CompareRequest(targets=_words(targets), phase=phase, overrides=_words(settings))
    return use_case(request, _workspace(folder, allow_import))


def report(
    *targets: str,
    formats: Words = ("html",),
    output: str | None = None,
    figures: str | None = None,
    phase: str | None = None,
    settings: Words = (),
    folder: Folder = ".",
    allow_import: Words = (),
) -> "ReportFiles":
    """Write a reliability report: what `rlexp report` does.

    Args:
        targets: Experiments, or labels of them (`"EXPERIMENT/LABEL"`).
        formats: Of `html`, `latex`, `csv`, `json` and `md`.
        output: The folder for the report.
        figures: The folder for figures as PDF and SVG; without one there are none.
        phase: `test`, `selection` or `tuning`.
        settings: Changed settings of `conf/report.yaml` (`"margin=10"`).
        folder: The workspace; by default the current folder.
        allow_import: Packages whose classes may be used although only records name them.

    Raises:
        rlexp.errors.RlexpError: A target, a format or a setting is unknown; nothing was written.
    """
    from rlexp.app.commands.report import ReportRequest
    from rlexp.app.commands.report import report as use_case

    request = ReportRequest(
        targets=_words(targets),
        formats=_words(formats),
        output=output,
        figures=figures,
        phase=phase,
        overrides=_words(settings),
    )
    return use_case(request, _workspace(folder, allow_import))


def ls(
    experiment: str | None = None,
    *,
    where: Words = (),
    sort: str | None = None,
    group: bool = False,
    folder: Folder = ".",
) -> "Listing":
    """List experiments, the runs of one, or configurations: what `rlexp ls` does.

    Args:
        experiment: The experiment whose runs are listed; without one, experiments are.
        where: Conditions that every row fulfils (`"state=failed"`, `"score>400"`).
        sort: The column by which rows are ordered; `-column` reverses the order.
        group: Whether there is one row a configuration.
        folder: The workspace; by default the current folder.

    Raises:
        rlexp.errors.RlexpError: There is no such experiment or column.
    """
    from rlexp.app.commands.list_runs import Selection, list_runs

    selection = Selection(experiment, _words(where), sort, group)
    return list_runs(selection, _workspace(folder))


def show(target: str, *, part: str = "result", folder: Folder = ".") -> "Shown":
    """Show an experiment or a run: what `rlexp show` does.

    Args:
        target: An experiment or a run.
        part: `result`, `config` or `provenance`.
        folder: The workspace; by default the current folder.

    Raises:
        rlexp.errors.RlexpError: There is no such experiment or run.
        ValueError: There is no such part.
    """
    from rlexp.app.commands.show import Part
    from rlexp.app.commands.show import show as use_case

    return use_case(target, Part(part), _workspace(folder))


def evaluate(
    run_name: str,
    *,
    episodes: int = 100,
    draw: int = 0,
    stochastic: bool = False,
    checkpoint: int | None = None,
    video: int = 0,
    output: str | None = None,
    folder: Folder = ".",
    allow_import: Words = (),
    observer: "Observer | None" = None,
) -> "PolicyEvaluation":
    """Play fresh episodes with the final policy of a run: what `rlexp evaluate` does.

    Args:
        run_name: `EXPERIMENT/RUN`, or an unambiguous part of a run's name.
        episodes: The number of episodes.
        draw: Which set of fresh seeds they have.
        stochastic: Whether actions are sampled.
        checkpoint: The step of the checkpoint that plays instead of the final policy.
        video: The number of episodes that are filmed.
        output: The folder for videos.
        folder: The workspace; by default the current folder.
        allow_import: Packages whose classes may be used although only records name them.
        observer: Receives the progress.

    Raises:
        rlexp.errors.RlexpError: There is no such run, or it cannot be played.
    """
    from rlexp.app.commands.evaluate import EvaluationRequest
    from rlexp.app.commands.evaluate import evaluate as use_case

    request = EvaluationRequest(
        episodes=episodes,
        draw=draw,
        deterministic=False if stochastic else None,
        checkpoint=checkpoint,
        video=video,
        output=output,
    )
    workspace = _workspace(folder, allow_import)
    return use_case(run_name, request, workspace, _observer(observer))


def load(folder: str | PathLike[str]) -> "Records":
    """The experiment in `folder` (`runs/NAME`): its records and scores as plain arrays.

    Raises:
        rlexp.errors.RecordError: There is none, or its definition is damaged.
    """
    from rlexp.app.commands.load import load as use_case

    return use_case(folder)


def _workspace(folder: Folder, allowed: Words = ()) -> "Workspace":
    from rlexp.app.workspace import Workspace

    return Workspace.here(_words(allowed), folder=folder, handles_signals=False)


def _words(words: Words) -> tuple[str, ...]:
    """The words, of which a single one may be given as such.

    Raises:
        rlexp.errors.ConfigError: One of them is no text.
    """
    from rlexp.errors import ConfigError

    several = (words,) if isinstance(words, str) else tuple(words)
    for word in several:
        if not isinstance(word, str):
            raise ConfigError(f"{word!r} is no text: write words as the command line takes them")
    return several


def _observer(observer: "Observer | None") -> "Observer":
    from rlexp.app.observer import Silent

    return observer or Silent()


def _raise_interrupt(outcome: object) -> None:
    """Raise what ended the runs, now that everything that had to be finished is finished."""
    if getattr(outcome, "interrupted", None):
        raise KeyboardInterrupt
