"""How many configurations have been looked at on the test seeds, and what the best of them overstates."""

from collections.abc import Iterator, Sequence

from rlexp.metrics.estimate_text import decimals_of_width, with_ends
from rlexp.records.integrity import SHORT
from rlexp.records.look import Look, TaskLooks
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.drawing.blocks import Block, Callout, LookCount, Table, TableColumn, Tone
from rlexp.stats.interval import Interval
from rlexp.stats.resampling import Resampling
from rlexp.stats.selection_bias import ScoredConfiguration, overstatement_of_best
from rlexp.text import decimals_for_values, format_count, join_names

MOST_TASKS = 3
"""Most tasks whose overstatement is said in the sentence about looks."""
BEST = "the best mean score is expected to be too good by"
MORE = "(Protocol in the report)"
"""Where the sentence is explained by a table."""


def look_counts(report: ReportContext) -> tuple[LookCount, ...]:
    """The looks at the test seeds of every task of a report."""
    resampling = report.settings.resampling
    return tuple(_count(looks, resampling) for looks in report.evidence.looks.tasks)


def looks_text(report: ReportContext, counts: Sequence[LookCount]) -> str:
    """The number of configurations, and by how much the best overstates, without a full stop.

    Empty where no test score is shown.
    """
    if not counts:
        return ""
    return "; ".join([_counted(counts), *report.evidence.looks.problems])


def look_blocks(report: ReportContext) -> Iterator[Block]:
    """The table of looks with its method, and what is wrong with the register."""
    counts = look_counts(report)
    if counts:
        yield _table(counts)
    for problem in report.evidence.looks.problems:
        yield Callout(tone=Tone.WARNING, text=f"{problem[0].upper()}{problem[1:]}.")


def _count(looks: TaskLooks, resampling: Resampling) -> LookCount:
    return LookCount(
        task=looks.seeds.task,
        root=looks.seeds.root,
        configurations=len(looks.looks),
        runs=sum(len(look.seeds) for look in looks.looks),
        overstatement=_overstatement(looks.looks, resampling),
        digest=looks.digest,
    )


def _overstatement(looks: Sequence[Look], resampling: Resampling) -> Interval | None:
    rules = [look.score for look in looks]
    # Scores of different rules have no common spread: the most frequent rule gives it.
    rule = max(sorted(set(rules)), key=rules.count)
    scored = [
        ScoredConfiguration(runs=len(look.seeds), mean=look.mean, deviation=look.deviation)
        for look in looks
        if look.score == rule
    ]
    return overstatement_of_best(scored, resampling, len(looks))


def _counted(counts: Sequence[LookCount]) -> str:
    if len(counts) > 1:
        return _counted_by_task(counts)
    (count,) = counts
    number = format_count(count.configurations, "configuration")
    if count.configurations == 1:
        return f"{number} has been tried on these test seeds"
    text = f"{number} have been tried on these test seeds"
    if count.overstatement is None:
        return f"{text}; with one seed each, it cannot be estimated how much too good the best is"
    return f"{text}; {BEST} {_amount(count.overstatement)} {MORE}"


def _counted_by_task(counts: Sequence[LookCount]) -> str:
    numbers = sorted({count.configurations for count in counts})
    shown = f"{numbers[0]:,} to {numbers[-1]:,}" if len(numbers) > 1 else f"{numbers[0]:,}"
    noun = "configuration has" if numbers[-1] == 1 else "configurations have"
    text = f"{shown} {noun} been tried on the test seeds of each of {len(counts)} tasks"
    amounts = [
        f"{_amount(count.overstatement)} on {count.task}"
        for count in counts
        if count.overstatement is not None
    ]
    if len(amounts) > MOST_TASKS:
        return f"{text}; the section Protocol of a report says what the best of them overstate"
    return f"{text}; {BEST} {join_names(amounts)} {MORE}" if amounts else text


def _amount(overstatement: Interval) -> str:
    return with_ends(overstatement, decimals_of_width(overstatement))


def _table(counts: Sequence[LookCount]) -> Table:
    intervals = [count.overstatement for count in counts if count.overstatement is not None]
    digits = decimals_for_values(i.estimate for i in intervals)
    titles = ("task", "root", "configurations", "runs", "overstatement of the best", "digest")
    return Table(
        name="looks",
        title="Looks at these test seeds",
        columns=tuple(
            TableColumn(title=title, digits=digits if number == 4 else 0)
            for number, title in enumerate(titles)
        ),
        rows=tuple(
            (c.task, c.root, c.configurations, c.runs, c.overstatement, c.digest[:SHORT])
            for c in counts
        ),
        note="Every configuration counts whose scores on these seeds a command has used, also if it "
        "was removed or is not in this report. The overstatement is how much better the best mean "
        "score of so many is expected to look than it is, in a Gaussian model.",
    )
