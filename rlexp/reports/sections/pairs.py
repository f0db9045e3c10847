"""Every pair of labels with every test: the numbers behind the verdicts."""

from dataclasses import dataclass

from rlexp.reports.analysis.estimates import Pair, pairs, unit
from rlexp.reports.drawing.blocks import Column, Part, Table, Text, Value
from rlexp.reports.sections import Inquiry
from rlexp.stats.comparison import Comparison

COLUMNS = (
    Column(title="first", label=True),
    Column(title="second", label=True),
    Column(title="runs"),
    Column(title="difference"),
    Column(title="Cliff's delta"),
    Column(title="permutation p", digits=4),
    Column(title="Welch p", digits=4),
    Column(title="Mann–Whitney p", digits=4),
    Column(title="p after Holm", digits=4),
    Column(title="verdict"),
)


@dataclass(frozen=True, slots=True)
class Pairs:
    """A table of all pairs; nothing where there is one label only."""

    def part(self, inquiry: Inquiry) -> Part | None:
        """Compute the part."""
        found = pairs(inquiry)
        if not found:
            return None
        table = Table(
            name="pairs",
            title="Every test of every pair",
            columns=COLUMNS,
            rows=tuple(_row(pair) for pair in found),
            note=_note(inquiry, found),
        )
        return Part(name="pairs", title="Tests of every pair", blocks=(_text(inquiry), table))


def _row(pair: Pair) -> tuple[Value, ...]:
    if pair.decision is None:
        return (pair.first, pair.second, *(None,) * (len(COLUMNS) - 3), pair.reason)
    member = pair.decision.member
    found = member.comparison
    return (
        pair.first,
        pair.second,
        _runs(found),
        found.difference,
        found.effect.cliffs_delta,
        found.permutation.p,
        found.welch.p,
        found.mann_whitney.p,
        member.adjusted_p,
        str(member.verdict),
    )


def _runs(found: Comparison) -> str:
    first, second = (sum(sizes) for sizes in found.sizes)
    return f"{first} and {second}"


def _text(inquiry: Inquiry) -> Text:
    return Text(
        text=f"Differences are first minus second, in units of the {unit(inquiry.evidence)}. The "
        "permutation test decides; the others stand beside it, and none of them is chosen "
        "afterwards.",
    )


def _note(inquiry: Inquiry, found: tuple[Pair, ...]) -> str:
    tests = {
        test.method
        for pair in found
        if pair.decision
        for test in (
            pair.decision.member.comparison.permutation,
            pair.decision.member.comparison.mann_whitney,
        )
        if test.p is not None
    }
    counted = "1 pair" if len(found) == 1 else f"{len(found)} pairs"
    head = f"Two-sided, family-wise level {inquiry.settings.alpha:g} over {counted}, by Holm."
    return " ".join([head, *sorted(f"{words[:1].upper()}{words[1:]}." for words in tests)])
