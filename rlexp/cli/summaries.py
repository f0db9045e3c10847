"""The summary of a phase as lines: the scores of every label on every task, and missing runs."""

import shlex
from collections.abc import Iterable, Iterator

from rlexp.app.reading.summary import LabelSummary, PhaseSummary
from rlexp.app.results import NextCommand
from rlexp.metrics.estimate_text import sentence
from rlexp.text import format_score, score_rule

MOST_SCORES = 50
"""Longest list of scores that is printed in full."""
MOST_MEASURES = 10
"""Most measures that are printed for a label."""


def summary_lines(summary: PhaseSummary) -> Iterator[str]:
    """Scores, intervals, failed runs, and the folder of the records."""
    for cell in summary.cells:
        yield from _cell_lines(cell, summary)
    for run in summary.runs:
        if run.state not in {"completed", "planned"}:
            reason = f": {run.reason}" if run.reason else ""
            kind = f" ({run.failure})" if run.failure else ""
            yield f"  {run.run} {run.state}{kind} at step {run.step:,}{reason}"
    for line in summary.past.sentences():
        yield f"  {line}"
    yield f"Records: {summary.folder}"


def next_lines(commands: Iterable[NextCommand]) -> Iterator[str]:
    """The suggested next commands, one per line."""
    for step in commands:
        yield f"To {step.why}: {step.command}"


def _cell_lines(cell: LabelSummary, summary: PhaseSummary) -> Iterator[str]:
    yield ""
    rule = score_rule(cell.score, cell.quantity, lower_is_better=cell.lower_is_better)
    yield f"{cell.label} on {cell.task}, {summary.phase} seeds, score: {rule}"
    if len(cell.scores) > MOST_SCORES:
        low, high = min(cell.scores.values()), max(cell.scores.values())
        every = shlex.join(["rlexp", "ls", summary.experiment])
        ends = " to ".join(format_score(end, separator="") for end in (low, high))
        yield f"  {len(cell.scores):,} scores from {ends}; to see each: {every}"
    else:
        for seed, score in cell.scores.items():
            yield f"  seed {seed:<4} {format_score(score, separator=''):>10}"
    if cell.estimate is None:
        yield f"  {cell.title} —: no run has a score"
    else:
        yield f"  {sentence(cell.title, cell.estimate)}"
    yield f"  {_count(cell)}"
    if cell.detectable is not None and cell.detectable.seeds:
        yield f"  compared with another label of this spread: {cell.detectable.text}"
    if cell.threshold is not None and cell.scores:
        reached = f"{cell.reached} of {len(cell.scores)} reached"
        yield f"  {reached} the task's threshold of {cell.threshold:g}"
    yield from _measure_lines(cell)


def _measure_lines(cell: LabelSummary) -> Iterator[str]:
    """The other measures of the final policies: means over runs, with their intervals."""
    others = [measured for measured in cell.measures if measured.measure != cell.score]
    for measured in others[:MOST_MEASURES]:
        lower = " (lower is better)" if measured.direction == "minimise" else ""
        yield f"  {sentence(f'mean {measured.measure}{lower}', measured.estimate)}"
    if len(others) > MOST_MEASURES:
        yield f"  {len(others) - MOST_MEASURES} more measures; --json shows all"


def _count(cell: LabelSummary) -> str:
    """The number of runs in the aggregate, and of failed and missing runs."""
    lost = [
        f"{count} {word}"
        for count, word in ((cell.failed, "failed"), (cell.missing, "missing"))
        if count
    ]
    if not lost:
        return f"n = {cell.n} of {cell.planned} runs"
    worst = (
        f", {cell.counted_as_worst} counted as the worst score" if cell.counted_as_worst else ""
    )
    return f"n = {cell.n} of {cell.planned} runs ({', '.join(lost)}{worst})"
