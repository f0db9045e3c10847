"""The Python API: functions that do the same as the commands of the same name.

Every function works in the current folder, or in `workspace`, and returns the result that the
command shows: a frozen dataclass. Nothing is printed unless an observer is given. A mistake raises
`rlexp.errors.RlexpError`. The functions do not change signal handlers, so they can be called in a
notebook: an interrupt stops the runs gracefully and is raised as `KeyboardInterrupt`.

Settings are words as on the command line (`"budget.steps=20000"`), mappings
(`{"budget.steps": 20_000}`), or keywords (`budget={"steps": 20_000}`). In mappings and keywords, a
list is one value, and a tuple is several values.
"""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from rlexp.config.call_arguments import as_strings, call_words, report_words

if TYPE_CHECKING:
    from rlexp.app.commands.exchange.load import Records
    from rlexp.app.commands.judge.best import BestTrialOfSweep
    from rlexp.app.commands.judge.compare import Comparison
    from rlexp.app.commands.judge.evaluate import PolicyEvaluation
    from rlexp.app.commands.judge.report import ReportFiles
    from rlexp.app.commands.look.list_runs import Listing
    from rlexp.app.commands.look.plot import Plot
    from rlexp.app.commands.look.show import ShowResult
    from rlexp.app.commands.order.move import Move
    from rlexp.app.commands.order.note import Notes
    from rlexp.app.commands.order.tag import Tagging
    from rlexp.app.commands.train.extend import ExtendOutcome
    from rlexp.app.commands.train.run import RunOutcome
    from rlexp.app.commands.train.sweep import SweepOutcome
    from rlexp.app.observer import Observer
    from rlexp.app.plans import RunPlan, SweepOutline
    from rlexp.app.sweeps.ask_and_tell import SweepStudy
    from rlexp.app.workspace import Workspace

Folder = str | PathLike[str]
Strings = str | Sequence[str]
"""One string, or several."""
Setting = str | Mapping[str, Any]
"""A word in Hydra's grammar, or values by key."""
Settings = Setting | Sequence[Setting]
"""One setting, or several."""


def run(
    *settings: Setting,
    dry_run: bool = False,
    retry: bool = False,
    allow_drift: bool = False,
    probe: bool | None = None,
    detach: bool = False,
    from_sweep: str | None = None,
    trial: int | None = None,
    protocol: str | None = None,
    workspace: Folder = ".",
    allow_import: Strings = (),
    observer: "Observer | None" = None,
    **keywords: Any,
) -> "RunOutcome | RunPlan":
    """Train configurations on seeds: what `rlexp run` does.

    Args:
        settings: Words (`"algorithm=ppo"`, `"budget.steps=20000"`) and mappings
            (`{"budget.steps": 20_000}`); the first one may be a study file (`"study.yaml"`).
        dry_run: Whether to return the plan and start nothing.
        retry: Whether runs whose failure is final are repeated.
        allow_drift: Whether runs continue from checkpoints that other versions wrote.
        probe: Whether to measure for some seconds what a run costs; None does so for plans that
            seem to take a minute or longer.
        detach: Whether to return once the runs are queued for a cluster or for workers.
        from_sweep: The sweep whose winner, or other trial, is trained again.
        trial: The number of the trial to train again; by default the winner.
        protocol: The registered protocol to run, on the test seeds derived for it.
        workspace: The folder with `runs/` and `conf/`; by default the current folder.
        allow_import: Packages whose classes may be imported because records name them.
        observer: Receives the plan and the progress.
        keywords: Further settings by their first key (`algorithm="ppo"`,
            `budget={"steps": 20_000}`).

    Raises:
        rlexp.errors.RlexpError: An argument, the configuration or the records are wrong; nothing
            was started.
        KeyboardInterrupt: The call was interrupted; repeating the call continues it.
    """
    from rlexp.app.commands.train.run import RunOptions
    from rlexp.app.commands.train.run import run as use_case
    from rlexp.app.sweeps.retrain import read_sweep_trial

    options = RunOptions(
        dry_run=dry_run,
        retry=retry,
        allow_drift=allow_drift,
        probe=probe,
        detach=detach,
        origin=read_sweep_trial(from_sweep, trial),
        protocol=protocol,
    )
    words = call_words(run, settings, keywords)
    outcome = use_case(words, options, _workspace(workspace, allow_import), _observer(observer))
    _raise_interrupt(outcome)
    return outcome


def sweep(
    name: Setting | None = None,
    *settings: Setting,
    dry_run: bool = False,
    retry: bool = False,
    allow_drift: bool = False,
    probe: bool | None = None,
    until: str = "test",
    tries: Strings = (),
    workspace: Folder = ".",
    allow_import: Strings = (),
    observer: "Observer | None" = None,
    **keywords: Any,
) -> "SweepOutcome | SweepOutline":
    """Tune hyperparameters, select a winner once, and test it: what `rlexp sweep` does.

    Args:
        name: The name of a definition in `sweeps/`, or a study file. It can be left out, for a
            sweep that is defined by settings only.
        settings: Words (`"sweep.trials=20"`) and mappings. A tuple, or a text such as
            `"interval(0.9, 0.999)"`, is searched.
        dry_run: Whether to return the plan and start nothing.
        retry: Whether runs whose failure is final are repeated.
        allow_drift: Whether runs continue from checkpoints that other versions wrote.
        probe: Whether to measure for some seconds what a run costs; None does so for plans that
            seem to take a minute or longer.
        until: The stage to stop after: `search`, `selection` or `test`.
        tries: Configurations to try as the next trials (`"algorithm.gamma=0.9"`).
        workspace: The folder with `runs/` and `conf/`; by default the current folder.
        allow_import: Packages whose classes may be imported because records name them.
        observer: Receives the plan and the progress.
        keywords: Further settings by their first key (`algorithm="ppo"`,
            `budget={"steps": 20_000}`).

    Raises:
        rlexp.errors.RlexpError: Arguments, configuration or records are wrong; nothing was started.
        KeyboardInterrupt: The call was interrupted; repeating the call continues it.
    """
    from rlexp.app.commands.train.sweep import SweepOptions, read_stage
    from rlexp.app.commands.train.sweep import sweep as use_case
    from rlexp.app.sweeps.request import split_definition

    options = SweepOptions(
        dry_run=dry_run,
        retry=retry,
        allow_drift=allow_drift,
        probe=probe,
        until=read_stage(until),
        tries=as_strings(tries),
    )
    first = () if name is None else (name,)
    words = call_words(sweep, (*first, *settings), keywords, searching=True)
    outcome = use_case(
        *split_definition(words),
        options,
        _workspace(workspace, allow_import),
        _observer(observer),
    )
    _raise_interrupt(outcome)
    return outcome


def sweep_study(
    name: str,
    *settings: Setting,
    space: Mapping[str, Any],
    default: Mapping[str, Any],
    task: str,
    workspace: Folder = ".",
    **keywords: Any,
) -> "SweepStudy":
    """Begin or continue a sweep whose runs the caller trains: `ask` for a run, `tell` its score.

    Args:
        name: The name of the experiment that holds the records.
        settings: Words (`"tuner=tpe"`) and mappings (`{"sweep.trials": 20}`).
        space: The values of each searched hyperparameter: a tuple of choices, or a text such as
            `"tag(log, interval(1e-4, 1e-2))"`.
        default: The default value of every hyperparameter; those that `space` lacks are not
            searched.
        task: The name of the task, for the records.
        workspace: The folder with `runs/` and `conf/`; by default the current folder.
        keywords: Further settings by their first key (`tuner="tpe"`, `sweep={"trials": 20}`,
            `seeds={"tuning": 3, "test": 10}`, `algorithm={"name": "mine"}`).

    Raises:
        rlexp.errors.RlexpError: A setting is wrong, or an experiment of this name has another
            definition; nothing was written.
    """
    from rlexp.app.commands.train.sweep_study import open_study

    words = call_words(sweep_study, settings, keywords)
    return open_study(name, space, default, task, words, _workspace(workspace))


def best(
    name: str,
    *,
    trial: int | None = None,
    form: str | None = None,
    save: str | None = None,
    workspace: Folder = ".",
    allow_import: Strings = (),
) -> "BestTrialOfSweep":
    """Show the best trial of a sweep, or write its hyperparameters: what `rlexp best` does.

    Args:
        name: The name of the sweep.
        trial: The number of the trial; None chooses the winner, or else the best trial so far.
        form: The form of the returned text: `yaml`, `args`, `json` or `rl-zoo`; None for no text.
        save: The name of the benchmark to write; None writes nothing.
        workspace: The folder with `runs/` and `conf/`; by default the current folder.
        allow_import: Packages whose classes may be imported because records name them.

    Raises:
        rlexp.errors.RlexpError: There is no such sweep, it has no score yet, or its
            hyperparameters cannot be written in this form; nothing was written.
    """
    from rlexp.app.commands.judge.best import BestRequest, read_format
    from rlexp.app.commands.judge.best import best as use_case

    request = BestRequest(sweep=name, trial=trial, form=read_format(form), save=save)
    return use_case(request, _workspace(workspace, allow_import))


def extend(
    target: str,
    *settings: Setting,
    restart_schedules: bool = False,
    dry_run: bool = False,
    retry: bool = False,
    allow_drift: bool = False,
    detach: bool = False,
    workspace: Folder = ".",
    allow_import: Strings = (),
    observer: "Observer | None" = None,
    **keywords: Any,
) -> "ExtendOutcome":
    """Train finished runs further, as an experiment of their own: what `rlexp extend` does.

    Args:
        target: An experiment, or a run as `"EXPERIMENT/RUN"`.
        settings: Words and mappings: `budget.steps`, the new length of a run from its first step;
            `experiment`, a name; and settings that change no number (`executor.workers`).
        restart_schedules: Whether schedules that depend on the length of training begin again.
        dry_run: Whether to return the plan and start nothing.
        retry: Whether runs whose failure is final are repeated.
        allow_drift: Whether runs continue from a state that other versions wrote.
        detach: Whether to return once the runs are queued for a cluster or for workers.
        workspace: The folder with `runs/` and `conf/`; by default the current folder.
        allow_import: Packages whose classes may be imported because records name them.
        observer: Receives the plan and the progress.
        keywords: Further settings by their first key (`algorithm="ppo"`,
            `budget={"steps": 20_000}`).

    Raises:
        rlexp.errors.RlexpError: The runs cannot be extended, or an argument is wrong; nothing was
            started.
        KeyboardInterrupt: The call was interrupted; repeating the call continues it.
    """
    from rlexp.app.commands.train.extend import ExtendOptions
    from rlexp.app.commands.train.extend import extend as use_case

    options = ExtendOptions(
        dry_run=dry_run,
        retry=retry,
        allow_drift=allow_drift,
        detach=detach,
        restart_schedules=restart_schedules,
    )
    words = call_words(extend, settings, keywords)
    opened = _workspace(workspace, allow_import)
    outcome = use_case(target, words, options, opened, _observer(observer))
    _raise_interrupt(outcome)
    return outcome


def compare(
    *targets: str,
    phase: str | None = None,
    settings: Settings = (),
    workspace: Folder = ".",
    allow_import: Strings = (),
) -> "Comparison":
    """Compare labels, with a verdict for each pair: what `rlexp compare` does.

    Args:
        targets: Experiments, or labels of them (`"EXPERIMENT/LABEL"`).
        phase: `test`, `selection` or `tuning`.
        settings: Changed settings of `conf/report.yaml` (`{"margin": 10}` or `"margin=10"`).
        workspace: The folder with `runs/` and `conf/`; by default the current folder.
        allow_import: Packages whose classes may be imported because records name them.

    Raises:
        rlexp.errors.RlexpError: A target or a setting is unknown, or there is only one label.
    """
    from rlexp.app.commands.judge.compare import CompareRequest
    from rlexp.app.commands.judge.compare import compare as use_case

    request = CompareRequest(
        targets=as_strings(targets), phase=phase, overrides=report_words(settings)
    )
    return use_case(request, _workspace(workspace, allow_import))


def report(
    *targets: str,
    formats: Strings = ("html",),
    output: str | None = None,
    figures: str | None = None,
    phase: str | None = None,
    settings: Settings = (),
    workspace: Folder = ".",
    allow_import: Strings = (),
) -> "ReportFiles":
    """Write a reliability report: what `rlexp report` does.

    Args:
        targets: Experiments, or labels of them (`"EXPERIMENT/LABEL"`).
        formats: Any of `html`, `latex`, `csv`, `json` and `md`.
        output: The folder for the report.
        figures: The folder for figures as PDF and SVG; with None, no figures are written.
        phase: `test`, `selection` or `tuning`.
        settings: Changed settings of `conf/report.yaml` (`{"margin": 10}` or `"margin=10"`).
        workspace: The folder with `runs/` and `conf/`; by default the current folder.
        allow_import: Packages whose classes may be imported because records name them.

    Raises:
        rlexp.errors.RlexpError: A target, a format or a setting is unknown; nothing was written.
    """
    from rlexp.app.commands.judge.report import ReportRequest
    from rlexp.app.commands.judge.report import report as use_case

    request = ReportRequest(
        targets=as_strings(targets),
        formats=as_strings(formats),
        output=output,
        figures=figures,
        phase=phase,
        overrides=report_words(settings),
    )
    return use_case(request, _workspace(workspace, allow_import))


def plot(
    *targets: str,
    metric: str | None = None,
    x: str = "steps",
    output: str | None = None,
    phase: str | None = None,
    settings: Settings = (),
    workspace: Folder = ".",
    allow_import: Strings = (),
) -> "Plot":
    """Compute the curves of runs by label: what `rlexp plot` does.

    Args:
        targets: Experiments, labels of them (`"EXPERIMENT/LABEL"`), or runs (`"EXPERIMENT/RUN"`).
        metric: A logged metric (`"train/loss"`); None is the mean return of evaluations.
        x: `steps` or `hours`.
        output: The file of a picture, which ends in `.png`, `.svg` or `.pdf`.
        phase: `test`, `selection` or `tuning`.
        settings: Changed settings of `conf/report.yaml` (`{"level": 0.9}` or `"level=0.9"`).
        workspace: The folder with `runs/` and `conf/`; by default the current folder.
        allow_import: Packages whose classes may be imported because records name them.

    Raises:
        rlexp.errors.RlexpError: A target, a metric or a setting is unknown, or there is no value
            to draw; nothing was written.
    """
    from rlexp.app.commands.look.plot import PlotRequest
    from rlexp.app.commands.look.plot import plot as use_case

    request = PlotRequest(
        targets=as_strings(targets),
        metric=metric,
        x=x,
        output=output,
        phase=phase,
        overrides=report_words(settings),
    )
    return use_case(request, _workspace(workspace, allow_import))


def ls(
    experiment: str | None = None,
    *,
    where: Strings = (),
    sort: str | None = None,
    group: bool = False,
    columns: Strings = (),
    workspace: Folder = ".",
) -> "Listing":
    """List experiments, the runs of one, or configurations: what `rlexp ls` does.

    Args:
        experiment: The experiment whose runs are listed; with None, experiments are listed.
        where: Conditions that every returned row fulfils (`"state=failed"`, `"algorithm=ppo"`).
        sort: The column or key by which rows are ordered; `-column` reverses the order.
        group: Whether to list configurations, one row each.
        columns: Columns and keys of the configuration whose values every row carries in `columns`.
        workspace: The folder with `runs/` and `conf/`; by default the current folder.

    Raises:
        rlexp.errors.RlexpError: There is no such experiment, column or key.
    """
    from rlexp.app.commands.look.list_runs import ListRequest, list_runs

    selection = ListRequest(experiment, as_strings(where), sort, group, as_strings(columns))
    return list_runs(selection, _workspace(workspace))


def show(target: str, *, part: str = "result", workspace: Folder = ".") -> "ShowResult":
    """Show an experiment or a run: what `rlexp show` does.

    Args:
        target: An experiment or a run.
        part: `result`, `config` or `provenance`.
        workspace: The folder with `runs/` and `conf/`; by default the current folder.

    Raises:
        rlexp.errors.RlexpError: There is no such experiment or run.
        ValueError: `part` is none of these.
    """
    from rlexp.app.commands.look.show import ShowPart
    from rlexp.app.commands.look.show import show as use_case

    return use_case(target, ShowPart(part), _workspace(workspace))


def tag(target: str, *tags: str, remove: bool = False, workspace: Folder = ".") -> "Tagging":
    """Add tags to an experiment or a run, or remove them: what `rlexp tag` does.

    Args:
        target: An experiment or a run.
        tags: The tags; without any, the present ones are only returned.
        remove: Whether to remove the tags.
        workspace: The folder with `runs/` and `conf/`; by default the current folder.

    Raises:
        rlexp.errors.RlexpError: There is no such experiment or run, or a tag is not allowed;
            nothing was changed.
    """
    from rlexp.app.commands.order.tag import tag as use_case

    return use_case(target, tags, _workspace(workspace), remove=remove)


def note(
    target: str, text: str | None = None, *, remove: int | None = None, workspace: Folder = "."
) -> "Notes":
    """Add a note to an experiment or a run, or remove one: what `rlexp note` does.

    Args:
        target: An experiment or a run.
        text: The text of the note; without it, the present notes are only returned.
        remove: The number of the note to remove.
        workspace: The folder with `runs/` and `conf/`; by default the current folder.

    Raises:
        rlexp.errors.RlexpError: There is no such experiment, run or note, or the text is not
            allowed; nothing was changed.
    """
    from rlexp.app.commands.order.note import note as use_case

    return use_case(target, text, _workspace(workspace), remove=remove)


def mv(experiment: str, name: str, *, workspace: Folder = ".") -> "Move":
    """Give an experiment another name: what `rlexp mv` does.

    Args:
        experiment: The experiment.
        name: Its new name.
        workspace: The folder with `runs/` and `conf/`; by default the current folder.

    Raises:
        rlexp.errors.RlexpError: There is no such experiment, it is in use, or the name is taken or
            not allowed.
    """
    from rlexp.app.commands.order.move import move

    return move(experiment, name, _workspace(workspace))


def evaluate(
    run_name: str,
    *,
    episodes: int = 100,
    draw: int = 0,
    stochastic: bool = False,
    checkpoint: int | None = None,
    video: int = 0,
    output: str | None = None,
    ensemble: bool = False,
    workspace: Folder = ".",
    allow_import: Strings = (),
    observer: "Observer | None" = None,
) -> "PolicyEvaluation":
    """Play fresh episodes with the final policy of a run: what `rlexp evaluate` does.

    Args:
        run_name: `EXPERIMENT/RUN`, or an unambiguous part of a run's name.
        episodes: The number of episodes.
        draw: The number of the seed set.
        stochastic: Whether actions are sampled.
        checkpoint: The step of the checkpoint to play; with None, the final policy plays.
        video: The number of episodes to film.
        output: The folder for videos.
        ensemble: Whether all completed test runs of an experiment act together: by the action of
            most of them, or by the mean of their actions.
        workspace: The folder with `runs/` and `conf/`; by default the current folder.
        allow_import: Packages whose classes may be imported because records name them.
        observer: Receives the progress.

    Raises:
        rlexp.errors.RlexpError: There is no such run, or its policy cannot be played.
    """
    from rlexp.app.commands.judge.evaluate import EvaluationRequest
    from rlexp.app.commands.judge.evaluate import evaluate as use_case

    request = EvaluationRequest(
        episodes=episodes,
        draw=draw,
        deterministic=False if stochastic else None,
        checkpoint=checkpoint,
        video=video,
        output=output,
        ensemble=ensemble,
    )
    opened = _workspace(workspace, allow_import)
    return use_case(run_name, request, opened, _observer(observer))


def load(experiment: Folder, *, workspace: Folder = ".") -> "Records":
    """Load the records and scores of an experiment as NumPy arrays.

    Args:
        experiment: The name of the experiment, or its folder (`"runs/NAME"`).
        workspace: The folder with `runs/`, where a name is looked up and where the path of a
            folder begins; by default the current folder.

    Raises:
        rlexp.errors.RecordError: There is no such experiment, or its definition is damaged.
    """
    from pathlib import Path

    from rlexp.app.commands.exchange.load import load as use_case

    opened = _workspace(workspace)
    is_name = isinstance(experiment, str) and "/" not in experiment
    runs = opened.layout.root if is_name else opened.folder
    return use_case(runs / Path(experiment).expanduser())


def _workspace(folder: Folder, allowed: Strings = ()) -> "Workspace":
    from rlexp.app.workspace import Workspace

    # Signal handlers belong to the notebook or program that calls the API.
    return Workspace.here(as_strings(allowed), folder=folder, handles_signals=False)


def _observer(observer: "Observer | None") -> "Observer":
    from rlexp.app.observer import SilentObserver
    from rlexp.notebook.kernel import in_kernel

    if observer is None and in_kernel():
        from rlexp.notebook.progress import NotebookObserver

        return NotebookObserver()
    return observer or SilentObserver()


def _raise_interrupt(outcome: object) -> None:
    """Raise KeyboardInterrupt if a signal ended the runs; all records are complete by then."""
    if getattr(outcome, "interrupted", None):
        raise KeyboardInterrupt


def final_evaluation(environment: Any, act: Callable[[Any], Any], step: int) -> tuple[float, ...]:
    """Play and report the final evaluation of a training script (`algorithm=external`).

    Call it at the end of the script. Where rlexp does not execute the script, it does nothing.

    Args:
        environment: An environment of Gymnasium, or a function that makes one.
        act: Returns the action of the final policy for one observation.
        step: Environment steps of the training.

    Returns:
        The undiscounted return of each of `budget.final_episodes` episodes; empty outside of a run.
    """
    from rlexp.training.final_evaluation import play_final_evaluation

    return play_final_evaluation(environment, act, step)
