"""The section of the probability of improvement between every two labels."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from rlexp.reports.analysis.estimates import best_labels_first
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.drawing.blocks import (
    Block,
    Callout,
    Matrix,
    SectionContent,
    Table,
    TableColumn,
    Text,
    Tone,
    Value,
)
from rlexp.reports.evidence.runs import Evidence
from rlexp.stats.improvement import probabilities_of_improvement
from rlexp.stats.interval import Interval, limited
from rlexp.stats.task_scores import TaskScores
from rlexp.text import join_first_names, join_names

ABOUT = (
    "Probability that a run of the row scores higher than a run of the column on the same task, "
    "with equal scores counting half, averaged over tasks. 0.5 means no difference. It measures "
    "how likely an improvement is, not how large."
)


@dataclass(frozen=True, slots=True)
class ImprovementPair:
    """Probability that a run of the first label beats a run of the second.

    `interval` is `None` where the labels have no task in common on which both have a score.
    """

    first: str
    second: str
    interval: Interval | None
    runs: tuple[int, int]
    tasks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ImprovementSection:
    """Matrix and table of all pairs of labels."""

    def part(self, report: ReportContext) -> SectionContent | None:
        """Compute the part; `None` where there are fewer than two labels."""
        labels = report.evidence.labels
        if len(labels) < 2:
            return None
        pairs = _pairs(report)
        table = _table(report.evidence, pairs)
        some = any(pair.interval for pair in pairs)
        figure = [_matrix(best_labels_first(report), pairs)] if some else []
        minimised = any(cell.lower_is_better for cell in report.evidence.cells.values())
        about = ABOUT.replace("scores higher", "scores better") if minimised else ABOUT
        blocks: tuple[Block, ...] = (Text(text=about), *figure, *_doubts(pairs), table)
        return SectionContent(
            name="improvement", title="Probability of improvement", blocks=blocks
        )


def _pairs(report: ReportContext) -> list[ImprovementPair]:
    """Every pair of labels. One call computes all of them, so that they share bootstrap draws."""
    scores = {key: cell.merits for key, cell in report.evidence.cells.items() if cell.n}
    both = list(combinations(report.evidence.labels, 2))
    tasks = [
        tuple(t for t in report.evidence.tasks if (a, t) in scores and (b, t) in scores)
        for a, b in both
    ]
    sides = [
        (_together(scores, a, shared), _together(scores, b, shared))
        for (a, b), shared in zip(both, tasks, strict=True)
        if shared
    ]
    intervals = iter(
        _probabilities([pair for pair, t in zip(both, tasks, strict=True) if t], sides, report)
    )
    # `sides`, and so both iterators, leave out the pairs without a common task.
    runs = iter([(x.n, y.n) for x, y in sides])
    return [
        ImprovementPair(
            a, b, next(intervals) if shared else None, next(runs) if shared else (0, 0), shared
        )
        for (a, b), shared in zip(both, tasks, strict=True)
    ]


def _probabilities(
    pairs: Sequence[tuple[str, str]],
    sides: Sequence[tuple[TaskScores, TaskScores]],
    report: ReportContext,
) -> list[Interval]:
    """The probability of improvement of each pair; only pairs with other scores are computed."""
    resampling = report.settings.resampling
    names = [("probability of improvement", *pair) for pair in pairs]
    scores = dict(zip(names, sides, strict=True))
    bases = {
        name: (resampling, [(side.values.tobytes(), side.sizes) for side in both])
        for name, both in scores.items()
    }
    return report.memory.recall_each(
        names,
        bases,
        lambda new: map(
            limited, probabilities_of_improvement([scores[name] for name in new], resampling)
        ),
    )


def _together(
    scores: Mapping[tuple[str, str], NDArray[np.float64]], label: str, tasks: tuple[str, ...]
) -> TaskScores:
    return TaskScores.from_tasks([scores[label, task] for task in tasks])


def _matrix(labels: tuple[str, ...], pairs: list[ImprovementPair]) -> Matrix:
    values = {(p.first, p.second): p.interval for p in pairs}
    # Mirrored, not computed again: the two cells of a pair must add up to exactly 1.
    values |= {(p.second, p.first): p.interval and mirrored(p.interval) for p in pairs}
    return Matrix(
        name="improvement-matrix",
        title="Probability that a run of the row beats a run of the column",
        labels=labels,
        values=tuple(tuple(values.get((row, column)) for column in labels) for row in labels),
        note="Cells are empty on the diagonal and for pairs without scores on a common task.",
    )


def mirrored(interval: Interval) -> Interval:
    """The interval of the complementary probability, 1 − p."""
    return replace(
        interval,
        estimate=1 - interval.estimate,
        low=None if interval.high is None else 1 - interval.high,
        high=None if interval.low is None else 1 - interval.low,
    )


def _doubts(pairs: list[ImprovementPair]) -> Iterator[Callout]:
    """Notices about pairs without an interval, one for each reason."""
    pairs_by_reason: dict[str, list[str]] = {}
    for pair in pairs:
        interval = pair.interval
        if interval and interval.reason:
            pairs_by_reason.setdefault(interval.reason, []).append(
                f"{pair.first} against {pair.second}"
            )
    for reason, names in pairs_by_reason.items():
        yield Callout(tone=Tone.NOTE, text=f"{join_first_names(names)}: {reason}.")


def _table(evidence: Evidence, pairs: list[ImprovementPair]) -> Table:
    return Table(
        name="improvement",
        title="Probability of improvement of every pair",
        columns=(
            TableColumn(title="label", label=True),
            TableColumn(title="against", label=True),
            TableColumn(title="P(label > against)"),
            TableColumn(title="runs", digits=0),
            TableColumn(title="runs against", digits=0),
            TableColumn(title="tasks"),
        ),
        rows=tuple(_row(evidence, pair) for pair in pairs),
        note="Runs and tasks: only tasks on which both labels have a score.",
    )


def _row(evidence: Evidence, pair: ImprovementPair) -> tuple[Value, ...]:
    lacking = [task for task in evidence.tasks if task not in pair.tasks]
    tasks = f"{len(pair.tasks)} of {len(evidence.tasks)}"
    tasks_text = (
        f"{tasks}: without {join_names(lacking)}, where one label has no score"
        if lacking
        else tasks
    )
    return (pair.first, pair.second, pair.interval, *pair.runs, tasks_text)
