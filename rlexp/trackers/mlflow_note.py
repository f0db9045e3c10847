"""The note of a group's MLflow run: the answer, the numbers and the report, as Markdown."""

import shlex
from collections.abc import Iterator, Sequence

from rlexp.metrics.estimate_text import with_ends
from rlexp.text import format_count
from rlexp.trackers import ExperimentSummary, TrackedAggregate, TrackedExperiment, TrackedPhase

NOTE = "mlflow.note.content"
PAGE = "report.html"
"""The page of a report."""


def note_of(
    experiment: TrackedExperiment,
    summary: ExperimentSummary,
    aggregates: Sequence[TrackedAggregate],
    page: str | None,
) -> str:
    """The note of a label or of a sweep.

    Args:
        experiment: The experiment.
        summary: Its current results.
        aggregates: The aggregates of the label, or of the sweep's winner.
        page: The address of the report's page; None where no page was uploaded.
    """
    # MLflow folds a long note after a few lines: the answer and the report come first.
    first = [*_answer(summary), sources(experiment, page)]
    numbers = [*_winner(experiment, summary), *map(_aggregate, aggregates)]
    return "\n\n".join([*first, *numbers])


def _answer(summary: ExperimentSummary) -> Iterator[str]:
    if summary.answer is not None:
        yield escaped(summary.answer.in_words)


def _winner(experiment: TrackedExperiment, summary: ExperimentSummary) -> Iterator[str]:
    """The winner of a sweep, with its mean score in each phase."""
    if not experiment.is_sweep:
        return
    if summary.winner is None:
        yield "The sweep has no winner yet."
        return
    yield f"The winner is trial {summary.winner.trial}. It was chosen by its selection runs."
    if summary.answer is None or not summary.answer.phases:
        return
    rows = ["| phase | mean score of the winner | runs |", "|---|---|---|"]
    yield "\n".join([*rows, *map(_row, summary.answer.phases)])
    gap = escaped(summary.answer.optimism_text)
    yield f"{f'Optimism of tuning: {gap}. ' if gap else ''}Only test scores are results."


def _row(phase: TrackedPhase) -> str:
    mean = "—" if phase.mean is None else escaped(with_ends(phase.mean, phase.mean.digits))
    n = 0 if phase.mean is None else phase.mean.n
    return f"| {phase.phase} | {mean} | {n} of {phase.planned} |"


def _aggregate(aggregate: TrackedAggregate) -> str:
    """The aggregate of a label on a task, with the runs that have no score."""
    absent = {"failed": aggregate.failed, "missing": aggregate.missing}
    states = "".join(f", {count} {name}" for name, count in absent.items() if count)
    runs = f"{aggregate.n} of {format_count(aggregate.planned, f'{aggregate.phase} run')}"
    label, task = escaped(aggregate.label), escaped(aggregate.task)
    return f"{label} on {task}: {escaped(aggregate.in_words)}. Scored: {runs}{states}."


def sources(experiment: TrackedExperiment, page: str | None) -> str:
    """Where the report and the records are.

    Args:
        experiment: The experiment.
        page: The address of the report's page; None where no page was uploaded.
    """
    records = f"Records: `runs/{experiment.name}`."
    if page is not None:
        return f"Report: [{PAGE}]({page}). {records}"
    command = shlex.join(["rlexp", "report", experiment.name])
    return f"No report page is attached. To write one: `{command}`. {records}"


def escaped(text: str) -> str:
    """A text whose characters have no meaning in Markdown."""
    for character in "\\`*_[]<>|#":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())
