"""`rlexp show`: shows an experiment or a run, its configuration, or its provenance."""

import shlex
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlexp.cli.options import Json, TargetName, console_for, current_workspace, render_result
from rlexp.cli.short_form import FullOption

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rlexp.app.commands.look.show import (
        ExperimentDetails,
        RecordedProvenance,
        RunDetails,
        ShowResult,
    )
    from rlexp.app.reading.summary import AttemptRow, CheckpointCost
    from rlexp.app.workspace import Workspace
    from rlexp.console import Console
    from rlexp.records.system_metrics import SystemUsage

EVALUATION_COLUMNS = ("step", "mean", "min", "max", "episodes", "policy")
"""Columns of the table of evaluations."""
MEASURE_COLUMNS = ("measure", "distribution", "mean", "min", "max", "episodes")
"""Columns of the table of measures."""
ATTEMPT_COLUMNS = (
    *("attempt", "started", "began", "state", "failure", "step", "seconds", "checkpoints"),
    *("host", "reason"),
)
"""Columns of the table of attempts."""
OPTIONAL_COLUMNS = {"failure", "checkpoints", "reason"}
"""Columns of the table of attempts that are left out if they are empty."""
MOST_EVALUATIONS = 40
"""Most evaluations that are printed; the JSON document has all."""

CURVE_ROWS = 4
"""Rows of the axes of a small learning curve; with title and horizontal axis, it has eight."""


def show(
    target: TargetName,
    show_config: Annotated[bool, typer.Option("--config", help="Show its configuration.")] = False,
    provenance: Annotated[bool, typer.Option("--provenance", help="Show its provenance.")] = False,
    full: FullOption = False,
    as_json: Json = False,
) -> None:
    """Show an experiment or a run: scores, states, evaluations."""
    from rlexp.app.commands.look.show import ExperimentDetails, ShowPart
    from rlexp.app.commands.look.show import show as use_case

    part = (
        ShowPart.CONFIG if show_config else ShowPart.PROVENANCE if provenance else ShowPart.RESULT
    )
    console = console_for(as_json=as_json)
    workspace = current_workspace()
    shown = use_case(target, part, workspace)
    if isinstance(shown, ExperimentDetails) and not full:
        render_result(shown, console, show_short_experiment)
        return
    render_result(shown, console, show_details)
    if isinstance(shown, ExperimentDetails) and not as_json:
        show_curves(shown, console, workspace)
        _show_next(shown, console, besides=_full_command(shown))


def show_short_experiment(details: "ExperimentDetails", console: "Console") -> None:
    """Show the answer of an experiment or a sweep, its scores and the next commands."""
    from rlexp.cli.short_form import show_short_summary, show_sweep_card

    full = _full_command(details)
    sweep = details.sweep is not None or details.sweep_problem is not None
    for line in experiment_head_lines(details, short=True):
        console.line(line)
    if sweep and details.card is not None:
        show_sweep_card(details.card, console, full)
    for summary in () if sweep else details.phases:
        # The card is about the last phase: test runs, where there are any.
        card = details.card if summary is details.phases[-1] else None
        show_short_summary(summary, card, console, full)
    for line in experiment_closing_lines(details):
        console.line(line)
    _show_next(details, console)


def _full_command(details: "ExperimentDetails") -> str:
    """The command that shows every detail of an experiment."""
    return shlex.join(["rlexp", "show", details.experiment, "--full"])


def _show_next(details: "ExperimentDetails", console: "Console", besides: str = "") -> None:
    """Show the next commands but the one that the user has just given."""
    from rlexp.cli.summaries import next_lines

    for line in next_lines(step for step in details.next if step.command != besides):
        console.line(line)


def show_details(shown: "ShowResult", console: "Console") -> None:
    """Show an experiment, a run, a configuration or a provenance."""
    from rlexp.app.commands.look.show import ExperimentDetails, RecordedConfiguration, RunDetails
    from rlexp.text import as_yaml

    match shown:
        case ExperimentDetails():
            for line in experiment_lines(shown):
                console.line(line)
        case RunDetails():
            show_run(shown, console)
        case RecordedConfiguration():
            console.text(as_yaml(shown.content))
        case _:
            console.text(as_yaml(_provenance_outline(shown)))


def experiment_lines(details: "ExperimentDetails") -> "Iterator[str]":
    """The scores of an experiment and the progress of its sweep, as lines."""
    from rlexp.cli.summaries import protocol_lines, summary_lines

    yield from experiment_head_lines(details)
    for summary in details.phases:
        yield from summary_lines(summary)
    yield from protocol_lines(details.card)
    yield from experiment_closing_lines(details)


def experiment_head_lines(details: "ExperimentDetails", *, short: bool = False) -> "Iterator[str]":
    """Names, tags, notes, the progress of a sweep, and sources: what precedes the scores.

    Args:
        details: The experiment.
        short: Whether to leave out the latest trials of a sweep, and the progress of a sweep that
            has ended, because its card has the result.
    """
    from rlexp.cli.look.status import sweep_status_lines
    from rlexp.text import format_count

    if details.former_names:
        yield f"formerly {', '.join(dict.fromkeys(details.former_names))}"
    yield from annotation_lines(details)
    ended = details.sweep is not None and details.sweep.stage == "done"
    if not (short and ended and details.card is not None):
        yield from sweep_status_lines(details.sweep, details.sweep_problem, latest=not short)
    if details.origin is not None:
        yield f"Made from {details.origin}"
    for source, number in details.imported.items():
        yield f"{format_count(number, 'run')} {source}"


def experiment_closing_lines(details: "ExperimentDetails") -> "Iterator[str]":
    """Damaged records, and the next command: what follows the scores."""
    for problem in details.problems:
        yield f"Damaged: {problem}"


def show_curves(details: "ExperimentDetails", console: "Console", workspace: "Workspace") -> None:
    """Show a small figure of the learning curves of an experiment, with a line for each label."""
    from rlexp.app.commands.look.show_curves import small_curves

    curves = small_curves(details, workspace)
    for figure, notes in zip(curves.figures, curves.notes, strict=True):
        console.line()
        console.plot(figure, notes, CURVE_ROWS)
    if curves.figures:
        console.line(f"Line: {curves.aggregate} over runs. With bands: {curves.command}")


def annotation_lines(details: "ExperimentDetails | RunDetails") -> "Iterator[str]":
    """The tags and notes of an experiment or a run."""
    from rlexp.cli.order.note import note_lines

    if details.tags:
        yield f"tags: {', '.join(details.tags)}"
    if details.notes:
        yield "notes:"
        yield from note_lines(details.notes)


def show_run(details: "RunDetails", console: "Console") -> None:
    """Show the score, evaluations, attempts and files of a run."""
    for line in _head_lines(details):
        console.line(line)
    _show_curve(details, console)
    _show_evaluations(details, console)
    _show_measures(details, console)
    _show_attempts(details, console)
    _show_files(details, console)
    console.line()
    console.line(f"Records: {details.folder}")
    name = f"{details.experiment}/{details.run}"
    if details.imported:
        command = shlex.join(["rlexp", "show", name, "--provenance"])
        console.line(f"To see its source: {command}")
    elif details.history:
        console.line(f"To see its log: {shlex.join(['rlexp', 'logs', name])}")


def _provenance_outline(provenance: "RecordedProvenance") -> dict[str, Any]:
    """The provenance, headed by its run; the long list of packages comes last."""
    content = dict(provenance.content)
    packages = content.pop("packages", {})
    patch = {} if provenance.patch is None else {"patch": provenance.patch}
    origin = {} if provenance.origin is None else {"origin": provenance.origin.plain()}
    run = {"run": provenance.run, "attempt": provenance.attempt}
    return {**run, **origin, **content, **patch, "packages": packages}


def _head_lines(details: "RunDetails") -> "Iterator[str]":
    from rlexp.protocol.units import unit_text
    from rlexp.text import format_score, score_rule

    yield f"{details.experiment}/{details.run}"
    yield f"  {details.label} on {details.task}, {details.phase} phase, seed {details.seed}"
    if details.imported:
        yield f"  {details.imported}"
    yield from (f"  {line}" for line in _beginning_lines(details))
    if details.problem:
        yield f"  Damaged: {details.problem}"
    failure = f" ({details.failure})" if details.failure else ""
    reason = f": {details.reason}" if details.reason else ""
    yield f"  {details.state}{failure}{reason}"
    yield from (f"  {line}" for line in annotation_lines(details))
    if details.score is not None:
        rule = score_rule(
            details.score_is, details.quantity, lower_is_better=details.lower_is_better
        )
        yield f"  score {format_score(details.score)}, {rule}"
    yield f"  {details.step:,} of {details.steps:,} {unit_text(details.unit)}{_time(details)}"
    if details.acted:
        counts = ", ".join(f"{name} {count:,}" for name, count in details.acted.items())
        yield f"  acted: {counts}"
    if details.checkpoints:
        yield f"  {_cost(details.checkpoints)}"
    if details.system:
        yield f"  {_usage(details.system)}"
    if details.weights:
        yield f"  sha256 of the final weights: {details.weights}"
    if details.unreadable_lines:
        yield f"  unreadable lines in the journal: {details.unreadable_lines}"


def _beginning_lines(details: "RunDetails") -> "Iterator[str]":
    """The run that it continues, and its offline stage."""
    if details.extends and details.extends_from is not None:
        yield f"continues {details.extends} from step {details.extends_from:,}"
    if details.offline_steps:
        steps = f"{details.offline_steps:,} gradient steps on the dataset"
        yield f"offline stage: {steps} before the first step"


def _time(details: "RunDetails") -> str:
    """The duration of a run (` in 3 min 10 s in 2 attempts`); empty while it is unknown."""
    from rlexp.text import format_duration

    if details.seconds is None:
        return ""
    attempts = f" in {details.attempts} attempts" if details.attempts > 1 else ""
    return f" in {format_duration(details.seconds_spent)}{attempts}"


def _cost(checkpoints: "CheckpointCost") -> str:
    """The cost of checkpoints (`4 checkpoints, 0.3 s and 1.2 MB in total, 0.1 % of the time`)."""
    from rlexp.text import format_bytes, format_count, format_percentage

    share = (
        ""
        if checkpoints.share is None
        else f", {format_percentage(checkpoints.share)} of the time"
    )
    return (
        f"{format_count(checkpoints.count, 'checkpoint')}, {checkpoints.seconds:.1f} s and "
        f"{format_bytes(checkpoints.bytes)} in total{share}"
    )


def _usage(system: "SystemUsage") -> str:
    """What a run used of its machine (`processor 98 % of a core on average, peak memory 412 MB`)."""
    from rlexp.text import format_bytes, format_count

    parts = [
        f"processor {system.processor_percent:.0f} % of a core on average",
        f"peak memory {format_bytes(system.peak_memory_bytes)}",
    ]
    if system.gpu_utilization_percent is not None and system.peak_gpu_memory_bytes is not None:
        parts.append(f"GPU {system.gpu_utilization_percent:.0f} % on average")
        parts.append(f"peak GPU memory {format_bytes(system.peak_gpu_memory_bytes)}")
    return f"{', '.join(parts)}, in {format_count(system.measurements, 'measurement')}"


def _show_curve(details: "RunDetails", console: "Console") -> None:
    """Show a small learning curve of a run with at least two evaluations in training."""
    from rlexp.protocol.units import unit_text
    from rlexp.reports.drawing.blocks import Axis, FigureLine, LineFigure

    points = [e for e in details.evaluations if e.policy == "in training"]
    if len(points) < 2:
        return
    x = tuple(float(e.step) for e in points)
    # A mean that is not finite is a gap.
    y = tuple(e.mean if isfinite(e.mean) else None for e in points)
    console.line()
    console.plot(
        LineFigure(
            name="curve",
            title="learning curve",
            x=Axis(title=unit_text(details.unit), low=0.0),
            y=Axis(title="mean return of an evaluation"),
            lines=(FigureLine(label=details.label, x=x, y=y),),
        ),
        {},
        CURVE_ROWS,
    )


def _show_evaluations(details: "RunDetails", console: "Console") -> None:
    evaluations = details.evaluations
    if evaluations:
        console.line()
        console.line("evaluations: returns of their episodes")
        if len(evaluations) > MOST_EVALUATIONS:
            console.line(f"  the last {MOST_EVALUATIONS} of {len(evaluations)}; --json shows all")
        rows = _rows(evaluations[-MOST_EVALUATIONS:], EVALUATION_COLUMNS)
        console.table(rows, EVALUATION_COLUMNS)


def _show_measures(details: "RunDetails", console: "Console") -> None:
    if details.measures:
        console.line()
        console.line("measures of the final policy, per episode")
        console.table(_rows(details.measures, MEASURE_COLUMNS), MEASURE_COLUMNS)


def _show_attempts(details: "RunDetails", console: "Console") -> None:
    from rlexp.text import format_time

    if details.history:
        console.line()
        rows = _rows(details.history, ATTEMPT_COLUMNS)
        rows = [{**row, "started": format_time(row["started"])} for row in rows]
        kept = [c for c in ATTEMPT_COLUMNS if c not in OPTIONAL_COLUMNS or any(r[c] for r in rows)]
        console.table(rows, kept)
        for line in _attempt_lines(details.history):
            console.line(line)


def _attempt_lines(history: "Sequence[AttemptRow]") -> "Iterator[str]":
    """The checkpoints that attempts refused, and the versions that had changed, as lines."""
    for attempt in history:
        for refused in attempt.refused:
            yield (
                f"attempt {attempt.attempt}: the checkpoint at step {refused.step:,} was refused: "
                f"{refused.reason}"
            )
        if attempt.drift:
            yield f"attempt {attempt.attempt} continued with other versions: {attempt.drift}"


def _show_files(details: "RunDetails", console: "Console") -> None:
    from rlexp.text import format_bytes

    console.line()
    rows = [{"file": file.file, "bytes": format_bytes(file.bytes)} for file in details.files]
    console.table(rows, ("file", "bytes"))


def _rows(items: "Sequence[object]", columns: "Sequence[str]") -> list[dict[str, Any]]:
    """The given attributes of each item, as rows of a table."""
    return [{name: getattr(item, name) for name in columns} for item in items]
