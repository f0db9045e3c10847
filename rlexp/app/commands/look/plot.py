"""`rlexp plot`: the curves of runs over time, with the numbers of the report's learning curves."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rlexp.app.data_frames import DataRow, data_frame
from rlexp.app.reporting.build import read_phase
from rlexp.app.reporting.picture import PICTURE_FORMATS, check_picture, write_picture
from rlexp.app.reporting.plotted_runs import collect_plotted
from rlexp.app.results import Displayed, NextCommand, Schema
from rlexp.app.workspace import Workspace
from rlexp.config.report_settings import read_report
from rlexp.errors import ConfigError, RecordError
from rlexp.records.logged_values import MEAN_RETURN
from rlexp.records.run import State
from rlexp.reports.analysis.curve_figures import (
    CurveView,
    DrawnCurves,
    curve_figure,
    has_values,
    score_metric,
    task_curves,
    view_of,
)
from rlexp.reports.analysis.logged_metrics import LoggedMetric, logged_metrics
from rlexp.reports.analysis.report_context import ReportContext, ReportSettings
from rlexp.reports.analysis.scale import in_units_of_scores
from rlexp.reports.drawing.blocks import LineFigure
from rlexp.reports.drawing.units import naming_unit
from rlexp.reports.evidence.runs import Evidence, LabelTaskRuns, run_states_text
from rlexp.text import format_count, format_percentage, join_names

if TYPE_CHECKING:
    from pandas import DataFrame


AXES = ("steps", "hours")
"""The values of `--x`."""
MOST_NEAR = 8
"""Most metrics that an error names."""
BAND_COLUMNS = ("task", "label", "aggregate", "level", "method", "repetitions", "seed")
"""The fields of a band that are columns of a data frame."""
SECTIONS = "section=[curves]"
"""The section of a report whose numbers a plot shows; others need not be built."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotRequest:
    """The runs, the metric and the axis of a plot.

    Attributes:
        targets: Experiments, labels of them (`EXPERIMENT/LABEL`), or runs (`EXPERIMENT/RUN`).
        metric: The name of a logged metric; None is what the score is made of, by default the mean
            return of evaluations.
        x: `steps` or `hours`.
        output: The file of the picture, which ends in `.png`, `.svg` or `.pdf`; None writes none.
        phase: `test`, `selection` or `tuning`; None prefers test where there are test runs.
        overrides: Changed settings of `conf/report.yaml` (`interval=percentile`).
    """

    targets: tuple[str, ...]
    metric: str | None = None
    x: str = "steps"
    output: str | None = None
    phase: str | None = None
    overrides: tuple[str, ...] = ()

    @property
    def metric_name(self) -> str:
        """The name of the metric."""
        return self.metric or MEAN_RETURN


@dataclass(frozen=True, slots=True, kw_only=True)
class PlottedBand:
    """The aggregate of a label on a task; its values are a line of the figure.

    Attributes:
        label: The label.
        task: The task.
        aggregate: The aggregate over runs (`interquartile mean`).
        planned: Number of planned runs.
        n: Number of runs with a curve.
        runs: Number of runs with a value at each point of the line.
        level: The level of the interval at each point; null without a band.
        method: The method of the intervals; null without a band.
        repetitions: Number of resamples; 0 without a band.
        seed: The seed of the resampling; null without a band.
        note: The number of runs, what is missing, and doubts about the band, as a sentence.
    """

    label: str
    task: str
    aggregate: str
    planned: int
    n: int
    runs: tuple[int, ...]
    level: float | None
    method: str | None
    repetitions: int
    seed: int | None
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlottedTask:
    """The curves on a task.

    Attributes:
        figure: The lines: single runs, which are faint, and the aggregate of each label.
        bands: What is behind the aggregates.
    """

    figure: LineFigure
    bands: tuple[PlottedBand, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot(Displayed):
    """The curves of a metric over steps or hours, by label.

    Attributes:
        title: The names of the experiments.
        phase: The phase of all runs.
        metric: The metric.
        x: `steps` or `hours`.
        labels: The labels, in the order of the targets.
        tasks: The curves on each task.
        caption: The meaning of lines and bands: aggregate, level, method, resamples, seed.
        remarks: Runs that did not complete, tasks without a value, and damaged records.
        files: The written file, if one was asked for.
        next: Suggested next commands.
    """

    schema: ClassVar[Schema] = Schema("plot")

    title: str
    phase: str
    metric: str
    x: str
    labels: tuple[str, ...]
    tasks: tuple[PlottedTask, ...]
    caption: str
    remarks: tuple[str, ...]
    files: tuple[Path, ...]
    next: tuple[NextCommand, ...]

    def to_pandas(self) -> "DataFrame":
        """A data frame with a row for each point of the aggregate of each label.

        The columns are `task`, `label`, `metric`, `steps` or `hours`, `value`, `low`, `high`,
        `runs` (number of runs with a value at the point), and how the band was computed.

        Raises:
            ConfigError: pandas is not installed.
        """
        first = ("task", "label", "metric", self.x, "value", "low", "high", "runs")
        return data_frame(
            [{**row, "metric": self.metric} for row in _point_rows(self.tasks, self.x)], first
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedMetrics(Displayed):
    """The metrics that runs logged in training, each of which `rlexp plot --metric` accepts.

    Attributes:
        title: The names of the experiments.
        phase: The phase of all runs.
        planned: Number of planned runs.
        metrics: The metrics, sorted by name; the mean return of evaluations comes first.
    """

    schema: ClassVar[Schema] = Schema("logged-metrics")

    title: str
    phase: str
    planned: int
    metrics: tuple[LoggedMetric, ...]


def plot(request: PlotRequest, workspace: Workspace) -> Plot:
    """Compute the curves of the targets, and write a picture of them if a file is named.

    Raises:
        RlexpError: A target, a metric, a setting or a format is unknown, or there is no value to
            draw; nothing was written.
    """
    if request.x not in AXES:
        raise ConfigError.unknown(f"there is no axis {request.x!r}", request.x, AXES, key="--x")
    file = check_picture(request.output) if request.output is not None else None
    report = _report_of(request, workspace)
    request = replace(request, metric=request.metric or score_metric(report.evidence))
    view = view_of(request.metric_name, report.evidence, hours=request.x == "hours")
    drawn = {task: task_curves(report, view, task) for task in report.evidence.tasks}
    with_points = {task: every for task, every in drawn.items() if has_values(every)}
    if not with_points:
        raise _nothing_to_draw(request, report.evidence, workspace)
    tasks = tuple(
        _plotted_task(report, view, k, *item) for k, item in enumerate(with_points.items(), 1)
    )
    shown = Plot(
        title=join_names(e.name for e in report.evidence.experiments),
        phase=str(report.evidence.phase),
        metric=request.metric_name,
        x=request.x,
        labels=report.evidence.labels,
        tasks=tasks,
        caption=_caption(report.settings, tasks),
        remarks=tuple(_remarks(report.evidence, drawn)),
        files=() if file is None else (file,),
        next=tuple(_next(request, report.evidence, workspace)),
    )
    if file is not None:
        figures = [task.figure for task in tasks]
        write_picture(file, figures, shown.labels, _sentences(shown))
    return shown


def _point_rows(tasks: Sequence[PlottedTask], x: str) -> Iterator[DataRow]:
    """The points of the aggregates, one row each."""
    for task in tasks:
        lines = {line.label: line for line in task.figure.lines if not line.faint}
        for band in task.bands:
            if (line := lines.get(band.label)) is None:
                continue
            named = {name: getattr(band, name) for name in BAND_COLUMNS}
            nothing = (None,) * len(line.x)
            points = zip(
                *(line.x, line.y, line.low or nothing, line.high or nothing, band.runs),
                strict=True,
            )
            for at, value, low, high, runs in points:
                yield {x: at, "value": value, "low": low, "high": high, "runs": runs, **named}


def list_metrics(request: PlotRequest, workspace: Workspace) -> LoggedMetrics:
    """The metrics that the runs of the targets logged.

    Raises:
        RlexpError: A target is unknown.
    """
    evidence = collect_plotted(request.targets, read_phase(request.phase), workspace)
    return LoggedMetrics(
        title=join_names(e.name for e in evidence.experiments),
        phase=str(evidence.phase),
        planned=len(evidence.members),
        metrics=tuple(logged_metrics(evidence)),
    )


def _report_of(request: PlotRequest, workspace: Workspace) -> ReportContext:
    workspace.make_allowed_importable()
    overrides = [SECTIONS, *request.overrides]
    parts = read_report(overrides, workspace.folder, workspace.allowed)
    evidence = collect_plotted(request.targets, read_phase(request.phase), workspace)
    return ReportContext(
        evidence=in_units_of_scores(evidence, parts.settings),
        settings=parts.settings,
        metrics=parts.metrics,
    )


def _plotted_task(
    report: ReportContext, view: CurveView, number: int, task: str, drawn: Sequence[DrawnCurves]
) -> PlottedTask:
    figure = curve_figure(report, view, number, task, drawn)
    return PlottedTask(
        figure=naming_unit(figure, report.evidence.unit),
        bands=tuple(_plotted_band(report.settings, task, label) for label in drawn),
    )


def _plotted_band(settings: ReportSettings, task: str, drawn: DrawnCurves) -> PlottedBand:
    band = drawn.shown.band
    some = band is not None and drawn.has_band
    return PlottedBand(
        label=drawn.curves.label,
        task=task,
        aggregate=settings.interquartile_mean.centre,
        planned=drawn.curves.planned,
        n=len(drawn.curves.curves),
        runs=tuple(band.runs.tolist()) if band else (),
        level=band.level if band and some else None,
        method=band.method if band and some else None,
        repetitions=band.repetitions if band and some else 0,
        seed=band.seed if band and some else None,
        note=drawn.note,
    )


def _caption(settings: ReportSettings, tasks: Sequence[PlottedTask]) -> str:
    """The meaning of lines and bands in one or two sentences."""
    lines = f"Line: {settings.interquartile_mean.centre} over runs."
    band = next((b for task in tasks for b in task.bands if b.method), None)
    if band is None or band.level is None:
        return f"{lines} There is no band."
    return (
        f"{lines} Band: pointwise {format_percentage(band.level)} interval, {band.method}, "
        f"{band.repetitions:,} resamples of whole runs, seed {band.seed}."
    )


def _sentences(shown: Plot) -> list[str]:
    """The caption of a picture: the number of runs, the meaning of the band, and remarks."""
    several = len(shown.tasks) > 1
    notes = [
        f"{task.figure.title}: {task.figure.note}" if several else task.figure.note
        for task in shown.tasks
    ]
    return [*notes, shown.caption, *(f"{remark}." for remark in shown.remarks)]


def _remarks(evidence: Evidence, drawn: Mapping[str, Sequence[DrawnCurves]]) -> Iterator[str]:
    """What a reader must know beside the curves, one line each without a full stop."""
    for cell in evidence.cells.values():
        unfinished = [m for m in cell.members if m.record.state is not State.COMPLETED]
        if unfinished:
            yield f"{_place(cell, evidence)}: not completed: {run_states_text(unfinished)}"
    for task, every in drawn.items():
        if not has_values(every):
            yield f"{task} is left out: no run has a value there"
    yield from (f"Damaged: {problem}" for problem in evidence.problems)


def _place(cell: LabelTaskRuns, evidence: Evidence) -> str:
    return f"{cell.label} on {cell.task}" if len(evidence.tasks) > 1 else cell.label


def _next(request: PlotRequest, evidence: Evidence, workspace: Workspace) -> Iterator[NextCommand]:
    command = _command(request, workspace)
    yield NextCommand(
        why="list what else was measured", command=shlex.join([*command, "--list-metrics"])
    )
    if request.output is None:
        metric = _metric_words(request, evidence)
        axis = [] if request.x == "steps" else ["--x", request.x]
        changed = [word for override in request.overrides for word in ("--set", override)]
        words = [*command, *metric, *axis, *changed, "--output", f"curves{PICTURE_FORMATS[0]}"]
        yield NextCommand(why="write a picture", command=shlex.join(words))


def _command(request: PlotRequest, workspace: Workspace) -> list[str]:
    """The command with the same targets, phase and permissions."""
    phase = ["--phase", request.phase] if request.phase else []
    return ["rlexp", "plot", *request.targets, *phase, *workspace.permission]


def _metric_words(request: PlotRequest, evidence: Evidence) -> list[str]:
    """The option that names the metric; nothing where the command draws it without the option."""
    drawn_anyway = request.metric_name == score_metric(evidence)
    return [] if drawn_anyway else ["--metric", request.metric_name]


def _nothing_to_draw(
    request: PlotRequest, evidence: Evidence, workspace: Workspace
) -> ConfigError | RecordError:
    """The error of a plot without any point: why there is none, and what to type."""
    listing = shlex.join([*_command(request, workspace), "--list-metrics"])
    if not evidence.members:
        return _no_run(request, evidence, workspace)
    names = [metric.metric for metric in logged_metrics(evidence)]
    if request.metric_name == score_metric(evidence):
        if request.metric_name in names:
            return _no_times(request, evidence, workspace)
        what = f"; what else was measured: {listing}" if names else ""
        return RecordError(f"there is no learning curve: {_no_evaluation(evidence)}{what}")
    if request.metric_name in names:
        return _no_times(request, evidence, workspace)
    if not names:
        return RecordError(
            f"no run has logged anything yet ({run_states_text(evidence.members)}); to see how "
            f"far runs are: {shlex.join(['rlexp', 'ls', evidence.experiments[0].name])}"
        )
    near = _nearest(request.metric_name, names)
    return ConfigError(
        f"no run logged a finite value of {request.metric_name!r}; nearest: {', '.join(near)}; all of them: {listing}",
        code="unknown_value",
        key="--metric",
        allowed=near,
        command=listing,
    )


def _no_times(request: PlotRequest, evidence: Evidence, workspace: Workspace) -> RecordError:
    """The error of a plot over hours where the clock was set back in every run."""
    command = shlex.join([*_command(request, workspace), *_metric_words(request, evidence)])
    runs = format_count(len(evidence.members), "run")
    return RecordError(
        f"the recorded times of {runs} do not increase, so there is no curve over hours; to plot "
        f"steps: {command}",
        command=command,
    )


def _no_run(request: PlotRequest, evidence: Evidence, workspace: Workspace) -> RecordError:
    name = evidence.experiments[0].name
    if evidence.sweeps and request.phase is None:
        command = shlex.join([*_command(request, workspace), "--phase", "tuning"])
        return RecordError(
            f"{name} has no {evidence.phase} runs to plot yet; to plot its trials: {command}",
            command=command,
        )
    command = shlex.join(["rlexp", "ls", name])
    return RecordError(
        f"{name} has no {evidence.phase} runs to plot; to see its runs: {command}", command=command
    )


def _no_evaluation(evidence: Evidence) -> str:
    """Why no run was evaluated during training."""
    budgets = [m.configuration.budget for m in evidence.members]
    again = "set budget.evaluation_every=tenth and another name with experiment=NAME to train"
    if all(budget.evaluation_every is None for budget in budgets):
        return (
            "budget.evaluation_every=null leaves only the evaluation of the final policy; "
            f"{again} runs with a curve"
        )
    steps = max(budget.steps for budget in budgets)
    every = min(b.evaluation_every for b in budgets if b.evaluation_every is not None)
    if every > steps:
        return (
            f"budget.evaluation_every={every} is above budget.steps={steps}; {again} runs with a "
            "curve"
        )
    return f"no run has been evaluated yet ({run_states_text(evidence.members)})"


def _nearest(metric: str, names: Sequence[str]) -> list[str]:
    """At most eight names: those that contain the metric's last part, then the most similar."""
    part = metric.rpartition("/")[2].lower()

    def distance(name: str) -> tuple[bool, float, str]:
        return part not in name.lower(), -SequenceMatcher(None, metric, name).ratio(), name

    return sorted(names, key=distance)[:MOST_NEAR]
