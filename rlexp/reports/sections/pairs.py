"""The section of pairwise tests: every test of every pair of labels."""

from dataclasses import dataclass

from rlexp.reports.analysis.estimates import (
    LabelPair,
    leading_metric,
    order_of_difference,
    pairs,
    verdict_unit,
)
from rlexp.reports.analysis.identical_runs import identical_labels, is_told_apart
from rlexp.reports.drawing.blocks import SectionContent, Table, TableColumn, Text, Value
from rlexp.reports.sections import ReportContext
from rlexp.stats.pairs.comparison import PairwiseComparison
from rlexp.text import join_names

COLUMNS = (
    TableColumn(title="first", label=True),
    TableColumn(title="second", label=True),
    TableColumn(title="verdict"),
    TableColumn(title="runs"),
    TableColumn(title="difference"),
    TableColumn(title="difference of means"),
    TableColumn(title="Cliff's delta"),
    TableColumn(title="permutation p", digits=4),
    TableColumn(title="Welch p", digits=4),
    TableColumn(title="Mann–Whitney p", digits=4),
    TableColumn(title="adjusted p", digits=4),
)

IDENTICAL = "identical runs"
"""Shown in place of the verdict for labels whose runs are bit-identical."""


@dataclass(frozen=True, slots=True)
class PairwiseTestsSection:
    """Table of all pairs of labels with every test."""

    def part(self, report: ReportContext) -> SectionContent | None:
        """Compute the part; `None` where there are fewer than two labels."""
        compared = pairs(report)
        if not compared:
            return None
        table = Table(
            name="pairs",
            title="Every test of every pair",
            columns=COLUMNS,
            rows=tuple(_row(pair, report) for pair in compared),
            note=_note(report, compared),
        )
        return SectionContent(
            name="pairs", title="Tests of every pair", blocks=(_text(report), table)
        )


def _row(pair: LabelPair, report: ReportContext) -> tuple[Value, ...]:
    row = _tests(pair)
    is_identical = (pair.first, pair.second) in identical_labels(report)
    if is_identical and not is_told_apart(pair):
        return (*row[:2], IDENTICAL, *row[3:])
    return row


def _tests(pair: LabelPair) -> tuple[Value, ...]:
    if pair.decision is None:
        return (pair.first, pair.second, pair.reason, *(None,) * (len(COLUMNS) - 3))
    member = pair.decision.member
    comparison = member.comparison
    return (
        pair.first,
        pair.second,
        str(member.verdict),
        _runs(comparison),
        comparison.difference,
        comparison.mean_difference,
        comparison.effect.cliffs_delta,
        comparison.permutation.p,
        comparison.welch.p,
        comparison.mann_whitney.p,
        member.adjusted_p,
    )


def _runs(comparison: PairwiseComparison) -> str:
    first, second = (sum(sizes) for sizes in comparison.sizes)
    return f"{first} and {second}"


def _text(report: ReportContext) -> Text:
    return Text(
        text=f"Differences are {order_of_difference(report)}, in units of the {verdict_unit(report)}. The "
        f"permutation test of the difference of the {leading_metric(report)[1].title} decides the "
        "verdict, as fixed in advance. Its interval holds the differences that this test does not "
        "reject. Welch's test and the interval of means are about means, the Mann–Whitney test is "
        "about ranks; they are shown for comparison.",
    )


def _note(report: ReportContext, compared: tuple[LabelPair, ...]) -> str:
    tests = {
        test.method
        for pair in compared
        if pair.decision
        for test in (
            pair.decision.member.comparison.permutation,
            pair.decision.member.comparison.mann_whitney,
        )
        if test.p is not None
    }
    counted = "1 pair" if len(compared) == 1 else f"{len(compared)} pairs"
    corrections = sorted({str(p.decision.member.correction) for p in compared if p.decision})
    by = "" if len(compared) == 1 else f", by {join_names(corrections)}" * bool(corrections)
    head = f"Two-sided, family-wise level {report.settings.alpha:g} over {counted}{by}."
    return " ".join([head, *sorted(f"{method[:1].upper()}{method[1:]}." for method in tests)])
