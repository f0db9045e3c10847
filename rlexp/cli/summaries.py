"""The summary of a phase as lines: the scores of every label on every task, and missing runs."""

import shlex
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rlexp.app.reading.summary import LabelSummary, PhaseSummary
from rlexp.app.results import NextCommand
from rlexp.metrics.estimate_text import sentence
from rlexp.stats.none_seen import none_seen
from rlexp.text import format_score, score_rule

if TYPE_CHECKING:
    from rlexp.reports.drawing.blocks import SummaryCard

MOST_SCORES = 50
"""Longest list of scores that is printed in full."""
MOST_MEASURES = 10
"""Most measures that are printed for a label."""


def summary_lines(summary: PhaseSummary) -> Iterator[str]:
    """Scores, intervals, failed runs, and the folder of the records."""
    for cell in summary.cells:
        yield from _cell_lines(cell, summary)
    yield from closing_lines(summary)


def closing_lines(summary: PhaseSummary) -> Iterator[str]:
    """Failed runs, what was continued, and the folder of the records."""
    for line in failure_lines(summary):
        yield f"  {line}"
    for line in (*summary.past.sentences(), *summary.remarks):
        yield f"  {line}"
    yield f"Records: {summary.folder}"


def failure_lines(summary: PhaseSummary) -> Iterator[str]:
    """The runs that started and have no score, with their state and the reason."""
    for run in summary.runs:
        if run.state not in {"completed", "planned"}:
            reason = f": {run.reason}" if run.reason else ""
            kind = f" ({run.failure})" if run.failure else ""
            yield f"{run.run} {run.state}{kind} at step {run.step:,}{reason}"


def protocol_lines(card: "SummaryCard | None") -> Iterator[str]:
    """Whether a registered protocol is kept, or what deviates; nothing without one."""
    for name, text in () if card is None else card.facts:
        if name == "Protocol":
            yield f"Protocol: {text}."


def next_lines(commands: Iterable[NextCommand]) -> Iterator[str]:
    """The suggested next commands, one per line."""
    for step in commands:
        yield f"To {step.why}: {step.command}"


def _cell_lines(cell: LabelSummary, summary: PhaseSummary) -> Iterator[str]:
    yield ""
    yield f"{cell.label} on {cell.task}, {summary.phase} seeds, score: {rule_of(cell)}"
    if len(cell.scores) > MOST_SCORES:
        yield f"  {many_scores(cell, summary.experiment)}"
    else:
        for seed, score in cell.scores.items():
            yield f"  seed {seed:<4} {format_score(score, separator=''):>10}"
    if cell.estimate is None:
        yield f"  {cell.title} —: no run has a score"
    else:
        yield f"  {sentence(cell.title, cell.estimate)}"
    yield f"  n = {runs_of(cell)}"
    for line in remark_lines(cell):
        yield f"  {line}"


def rule_of(cell: LabelSummary) -> str:
    """The rule by which the runs of a label are scored."""
    return score_rule(cell.score, cell.quantity, lower_is_better=cell.lower_is_better)


def many_scores(cell: LabelSummary, experiment: str) -> str:
    """The number and the ends of scores that are too many to print, and how to see each."""
    low, high = min(cell.scores.values()), max(cell.scores.values())
    every = shlex.join(["rlexp", "ls", experiment])
    ends = " to ".join(format_score(end, separator="") for end in (low, high))
    return f"{len(cell.scores):,} scores from {ends}; to see each: {every}"


def remark_lines(cell: LabelSummary) -> Iterator[str]:
    """What a comparison could find, how many runs reached the threshold, and other measures."""
    if cell.offline_steps:
        steps = f"{cell.offline_steps:,} gradient steps on the dataset"
        yield f"offline stage: {steps} before the first step of each run"
    if cell.detectable is not None and cell.detectable.seeds:
        yield f"compared with another label of this spread: {cell.detectable.text}"
    if cell.threshold is not None and cell.scores:
        reached = f"{cell.reached} of {len(cell.scores)} reached"
        yield f"{reached} the task's threshold of {cell.threshold:g}"
    if normalised := d4rl_text(cell):
        yield f"D4RL's normalised score of the {cell.title}: {normalised}"
    yield from _measure_lines(cell)


def d4rl_text(cell: LabelSummary) -> str | None:
    """D4RL's normalised score of a label and its anchors; None where no dataset declares them."""
    if cell.dataset_anchors is None or cell.d4rl_score is None:
        return None
    random, expert = cell.dataset_anchors
    return f"{cell.d4rl_score:.1f} (0: random, {random:g}; 100: expert, {expert:g})"


def _measure_lines(cell: LabelSummary) -> Iterator[str]:
    """The other measures of the final policies: means over runs, with their intervals."""
    others = [measured for measured in cell.measures if measured.measure != cell.score]
    for measured in others[:MOST_MEASURES]:
        lower = " (lower is better)" if measured.direction == "minimise" else ""
        yield sentence(f"mean {measured.measure}{lower}", measured.estimate)
        shares = [*measured.values.values()]
        if unseen := none_seen(measured.measure, shares, measured.estimate.level):
            yield unseen
    if len(others) > MOST_MEASURES:
        yield f"{len(others) - MOST_MEASURES} more measures; --json shows all"


def runs_of(cell: LabelSummary) -> str:
    """The number of runs in the aggregate, and of failed and missing runs (`4 of 5 runs`)."""
    lost = [
        f"{count} {word}"
        for count, word in ((cell.failed, "failed"), (cell.missing, "missing"))
        if count
    ]
    if not lost:
        return f"{cell.n} of {cell.planned} runs"
    worst = (
        f", {cell.counted_as_worst} counted as the worst score" if cell.counted_as_worst else ""
    )
    return f"{cell.n} of {cell.planned} runs ({', '.join(lost)}{worst})"


def short_runs_of(cell: LabelSummary) -> str:
    """The number of runs in the aggregate, of planned runs, in a column (`4 of 5`)."""
    worst = f", {cell.counted_as_worst} worst" if cell.counted_as_worst else ""
    return f"{cell.n:,} of {cell.planned:,}{worst}"
