"""Results as HTML: what the command of the same name prints, with tables and figures."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rlexp.app.reading.summary import LabelSummary, PhaseSummary
from rlexp.notebook.html_console import HtmlConsole
from rlexp.reports.drawing.blocks import Callout, Table, TableColumn, Value
from rlexp.text import format_score

if TYPE_CHECKING:
    from rlexp.app.commands.exchange.load import Records
    from rlexp.app.commands.judge.ablate import AblationOutcome
    from rlexp.app.commands.judge.compare import Comparison
    from rlexp.app.commands.look.show import ExperimentDetails
    from rlexp.app.commands.train.run import RunOutcome

Show = Callable[[Any, HtmlConsole], object]
"""Shows a result on a console."""
LEADING = "tasks"
"""The section of a comparison that is open at first."""


def result_html(result: object) -> str:
    """A result of the Python API as the HTML that a notebook displays.

    Raises:
        KeyError: No function shows results of this class.
    """
    # The labels under comparison have the colours that they have in a report.
    console = HtmlConsole(getattr(result, "labels", ()))
    SHOWN[type(result).__name__](result, console)
    return console.html


def _as_lines(module: str, function: str) -> Show:
    """Shows a result by the function of the command line that returns its lines."""

    def show(result: Any, console: HtmlConsole) -> None:
        for line in _imported(module, function)(result):
            console.line(line)

    return show


def _as_shown(module: str, function: str) -> Show:
    """Shows a result by the function of the command line that shows it on a console."""

    def show(result: Any, console: HtmlConsole) -> None:
        _imported(module, function)(result, console)

    return show


def _imported(module: str, function: str) -> Any:
    from importlib import import_module

    # Late: a result needs the modules of one command only.
    return getattr(import_module(f"rlexp.cli.{module}"), function)


def _show_comparison(result: "Comparison", console: HtmlConsole) -> None:
    """Show verdicts and warnings, then what they are based on, and the next commands."""
    from rlexp.cli.summaries import next_lines

    every = [block for part in result.parts for block in part.blocks]
    console.blocks(block for block in every if isinstance(block, Callout))
    for part in result.parts:
        rest = [block for block in part.blocks if not isinstance(block, Callout)]
        console.fold(part.title, rest, opened=part.name == LEADING)
    _show_lines(next_lines(result.next), console)


def _show_run(outcome: "RunOutcome", console: HtmlConsole) -> None:
    from rlexp.cli.summaries import next_lines, protocol_lines
    from rlexp.cli.train.run import problem_lines, unchanged_lines

    _show_lines(unchanged_lines(outcome), console)
    _show_summary(outcome.summary, console)
    _show_lines((*protocol_lines(outcome.card), *problem_lines(outcome)), console)
    _show_lines(next_lines(outcome.next), console)


def _show_extension(outcome: Any, console: HtmlConsole) -> None:
    from rlexp.cli.train.extend import extension_lines

    _show_lines(extension_lines(outcome), console)
    for part in outcome.parts:
        SHOWN[type(part).__name__](part, console)


def _show_experiment(details: "ExperimentDetails", console: HtmlConsole) -> None:
    from rlexp.cli.look.show import experiment_closing_lines, experiment_head_lines

    _show_lines(experiment_head_lines(details), console)
    for summary in details.phases:
        _show_summary(summary, console)
    _show_lines(experiment_closing_lines(details), console)


def _show_records(records: "Records", console: HtmlConsole) -> None:
    names = records.table.dtype.names or ()
    rows = [dict(zip(names, row, strict=True)) for row in records.table.tolist()]
    # A score that is missing is NaN in the array, and a dash in the table.
    rows = [
        {**row, "score": row["score"] if row["score"] == row["score"] else None} for row in rows
    ]
    console.table(rows, names)
    for problem in records.problems:
        console.line(f"Damaged: {problem}")


def _show_lines(lines: Iterable[str], console: HtmlConsole) -> None:
    for line in lines:
        console.line(line)
    console.line()


def _show_ablation(outcome: "AblationOutcome", console: HtmlConsole) -> None:
    from rlexp.reports.analysis.ablation_blocks import ablation_blocks

    console.blocks([*ablation_blocks(outcome.effects, alone=True)])


def _show_summary(summary: PhaseSummary, console: HtmlConsole) -> None:
    """Show the scores of a phase as a table, and what a reader must know beside them."""
    from rlexp.cli.summaries import closing_lines, remark_lines

    if summary.cells:
        console.blocks([_score_table(summary)])
    for cell in summary.cells:
        for line in remark_lines(cell):
            console.line(f"{cell.label} on {cell.task}: {line}")
    _show_lines(closing_lines(summary), console)


def _score_table(summary: PhaseSummary) -> Table:
    """A row for each label and task: its aggregate with interval, its runs and their scores."""
    from rlexp.cli.summaries import rule_of

    rules = dict.fromkeys(rule_of(cell) for cell in summary.cells)
    titles = dict.fromkeys(cell.title for cell in summary.cells)
    return Table(
        name="scores",
        title=f"{summary.experiment}, {summary.phase} seeds",
        columns=(
            *(TableColumn(title=title) for title in ("label", "task", " or ".join(titles))),
            *(TableColumn(title=title) for title in ("runs", "scores by seed")),
        ),
        rows=tuple(_score_row(cell, summary.experiment) for cell in summary.cells),
        note=f"Score: {'; '.join(rules)}.",
    )


def _score_row(cell: LabelSummary, experiment: str) -> tuple[Value, ...]:
    from rlexp.cli.summaries import MOST_SCORES, many_scores, runs_of

    if len(cell.scores) > MOST_SCORES:
        scores = many_scores(cell, experiment)
    else:
        scores = ", ".join(f"{seed}: {format_score(s)}" for seed, s in cell.scores.items())
    return (cell.label, cell.task, cell.estimate, runs_of(cell), scores or None)


SHOWN: Mapping[str, Show] = {
    "AblationOutcome": _show_ablation,
    "AblationOutline": _as_lines("judge.ablate", "outline_lines"),
    "BestTrialOfSweep": _as_shown("judge.best", "show_best"),
    "Comparison": _show_comparison,
    "ExperimentDetails": _show_experiment,
    "ExtendOutcome": _show_extension,
    "GateResult": _as_lines("judge.gate", "gate_lines"),
    "Listing": _as_shown("look.list_runs", "show_listing"),
    "LoggedMetrics": _as_shown("look.plot", "show_metrics"),
    "Move": _as_lines("order.move", "move_lines"),
    "Notes": _as_lines("order.note", "lines_of_notes"),
    "Plot": _as_shown("look.plot", "show_plot"),
    "PolicyEvaluation": _as_lines("judge.evaluate", "evaluation_lines"),
    "RecordedConfiguration": _as_shown("look.show", "show_details"),
    "RecordedProvenance": _as_shown("look.show", "show_details"),
    "Records": _show_records,
    "ReportFiles": _as_shown("judge.report", "show_report"),
    "RegisteredProtocol": _as_lines("judge.register", "registered_lines"),
    "RunDetails": _as_shown("look.show", "show_details"),
    "RunOutcome": _show_run,
    "RunPlan": _as_lines("plans", "run_plan_lines"),
    "Status": _as_lines("look.status", "status_lines"),
    "StreamResult": _as_shown("judge.propose", "show_stream"),
    "SweepOutcome": _as_shown("train.sweep", "show_sweep"),
    "SweepOutline": _as_lines("plans", "sweep_plan_lines"),
    "Tagging": _as_lines("order.tag", "tagging_lines"),
    "WrittenBaseline": _as_lines("judge.gate", "baseline_lines"),
    "Verification": _as_lines("exchange.verify", "verification_lines"),
    "BundleVerification": _as_lines("exchange.verify", "bundle_verification_lines"),
    "WrittenBundle": _as_lines("exchange.bundle", "bundle_lines"),
}
"""How results are shown, by the names of their classes."""
