"""`rlexp plot`: draws the curves of runs on the terminal, or into a picture."""

from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.completion import complete_label_or_run
from rlexp.cli.options import AllowImport, Json, console_for, current_workspace, render_result
from rlexp.cli.report_settings import (
    IntervalOption,
    LevelOption,
    PhaseOption,
    SeedOption,
    SettingsOption,
    setting_overrides,
)

if TYPE_CHECKING:
    from rlexp.app.commands.look.plot import LoggedMetrics, Plot
    from rlexp.console import Console

METRIC_COLUMNS = ("metric", "runs", "values", "first", "last")
"""Columns of the table of metrics."""


def plot(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="TARGET",
            autocompletion=complete_label_or_run,
            help="EXPERIMENT, EXPERIMENT/LABEL, or EXPERIMENT/RUN.",
        ),
    ],
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            help="What to draw (train/loss, …); by default the mean return of evaluations.",
        ),
    ] = None,
    list_metrics: Annotated[
        bool, typer.Option("--list-metrics", help="List what was measured, and draw nothing.")
    ] = False,
    x: Annotated[str, typer.Option("--x", help="steps (default) or hours.")] = "steps",
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help="Write a picture: FILE.png, FILE.svg or FILE.pdf."),
    ] = None,
    phase: PhaseOption = None,
    interval: IntervalOption = None,
    level: LevelOption = None,
    seed: SeedOption = None,
    settings: SettingsOption = None,
    allow_import: AllowImport = None,
    as_json: Json = False,
) -> None:
    """Draw learning curves with bands, or other metrics, by label."""
    from rlexp.app.commands.look.plot import PlotRequest
    from rlexp.app.commands.look.plot import list_metrics as list_use_case
    from rlexp.app.commands.look.plot import plot as use_case

    request = PlotRequest(
        targets=tuple(targets),
        metric=metric,
        x=x,
        output=output,
        phase=phase,
        overrides=setting_overrides(settings, interval=interval, level=level, seed=seed),
    )
    workspace, console = current_workspace(allow_import), console_for(as_json=as_json)
    if list_metrics:
        render_result(list_use_case(request, workspace), console, show_metrics)
    else:
        render_result(use_case(request, workspace), console, show_plot)


def show_plot(shown: "Plot", console: "Console") -> None:
    """Show the curves of every task, or the name of the picture, and the next commands."""
    from rlexp.cli.summaries import next_lines

    for task in shown.tasks if not shown.files else ():
        console.plot(task.figure, {band.label: band.note for band in task.bands})
        console.line()
    console.line(shown.caption)
    for remark in shown.remarks:
        console.line(remark)
    for path in shown.files:
        console.line(f"Wrote {path}")
    for line in next_lines(shown.next):
        console.line(line)


def show_metrics(listed: "LoggedMetrics", console: "Console") -> None:
    """Show the metrics that were logged, with the numbers of runs, values and steps."""
    rows = [
        {
            "metric": metric.metric,
            "runs": f"{metric.runs} of {listed.planned}",
            "values": metric.values,
            "first": f"step {metric.first:,}",
            "last": f"step {metric.last:,}",
        }
        for metric in listed.metrics
    ]
    if rows:
        console.table(rows, METRIC_COLUMNS)
    else:
        console.line(f"{listed.title}: no {listed.phase} run has logged anything yet")
