"""The short form of results, which fits on one screen: the answer, one table, the cost.

It shows the summary card of a report, so its answer and its numbers are those of the page.
"""

import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rlexp.app.commands.judge.compare import Comparison
    from rlexp.app.reading.summary import LabelSummary, PhaseSummary
    from rlexp.console import Console
    from rlexp.console.score_rows import ScoreRows
    from rlexp.reports.analysis.answer import Answer
    from rlexp.reports.drawing.blocks import Block, Panel, SummaryCard, Table

FullOption = Annotated[
    bool, typer.Option("--full", help="Show every detail; by default, only what fits one screen.")
]
MOST_WARNINGS = 3
"""Most warnings of which the first sentence is printed."""
PARAMETERS = "answer-parameters"
"""The name of the table on the card of a sweep with the searched hyperparameters."""
CAVEAT = "Warning: runs are missing or unusual, which weakens this answer; rlexp compare says how."
"""The line below an answer about data that are incomplete or unusual."""
MOST_TASKS = 3
"""Most tasks whose labels are printed."""
MOST_REACHED = 4
"""Most labels of which the runs that reached the threshold are counted one by one."""
MOST_FAILURES = 3
"""Most runs without a score that are printed with the reason."""
LONGEST_FAILURE = 155
"""Characters of the line about such a run; the reason of an exception may quote whole arrays."""


def with_full() -> str:
    """The present command with `--full`."""
    return shlex.join(["rlexp", *sys.argv[1:], "--full"])


def show_answer(card: "SummaryCard | Answer", console: "Console") -> None:
    """Show the answer, and what it rests on."""
    from rlexp.reports.drawing.blocks import Tone

    problem = "Problem: " if card.tone is Tone.PROBLEM else ""
    # A full stop would belong to a sentence; the answer is a heading.
    console.paragraph(f"{problem}{card.text}", style="bold")
    if card.basis:
        console.paragraph(card.basis)
    if card.tone is Tone.WARNING:
        console.paragraph(CAVEAT, style="yellow")


def show_facts(card: "SummaryCard", console: "Console") -> None:
    """Show the cost, and what is missing."""
    for name, text in card.facts:
        console.paragraph(f"{name}: {text}.")


def show_warnings(
    blocks: "Iterable[Block]",
    console: "Console",
    details: str,
    *,
    said: "SummaryCard | Answer | None",
) -> None:
    """Show the first sentence of each warning that the answer does not already give.

    Args:
        blocks: The warnings, among other blocks.
        console: Where to print.
        details: What shows everything: a command.
        said: The answer.
    """
    from rlexp.reports.drawing.blocks import Callout, Tone
    from rlexp.text import first_sentence, format_count

    warnings = [
        b.text
        for b in blocks
        if isinstance(b, Callout)
        and b.tone in {Tone.WARNING, Tone.PROBLEM}
        and (said is None or not b.text.startswith(said.text))
    ]
    for text in warnings[:MOST_WARNINGS]:
        console.paragraph(f"Warning: {first_sentence(text)[0]}", style="yellow")
    if len(warnings) > MOST_WARNINGS:
        more = format_count(len(warnings) - MOST_WARNINGS, "more warning")
        console.paragraph(f"{more}: {details}", style="yellow")


def show_short_comparison(result: "Comparison", console: "Console", details: str) -> None:
    """Show the answer of a comparison, every label with its runs, warnings and the cost.

    `details` is the command that shows everything.
    """
    if result.card is None:
        return
    show_answer(result.card, console)
    console.line()
    console.scores(_compared_rows(result), details)
    console.line()
    # The footnotes of the rows already say which intervals are too narrow.
    named = [part for part in result.parts if part.name in {"verdicts", "missing"}]
    blocks = (block for part in named for block in part.blocks)
    show_warnings(blocks, console, details, said=result.card)
    show_facts(result.card, console)


def _compared_rows(result: "Comparison") -> "ScoreRows":
    from rlexp.console.score_rows import ScoreRow, ScoreRows

    intervals = None if result.card is None else result.card.intervals
    panel = intervals.panels[0] if intervals else None
    marks = {} if panel is None else {mark.label: mark for mark in panel.marks}
    # The panel has the best label first; labels without a score follow.
    ranks = {label: rank for rank, label in enumerate(marks)}
    return ScoreRows(
        title=_scored_title(result.tasks, "" if panel is None else panel.axis.title),
        statistic="" if panel is None else panel.title,
        rows=[
            ScoreRow(
                label=runs.label,
                runs=runs.text,
                estimate=marks[runs.label].interval if runs.label in marks else None,
                scores=marks[runs.label].dots if runs.label in marks else (),
            )
            for runs in sorted(result.runs, key=lambda r: ranks.get(r.label, len(ranks)))
        ],
        labels=result.labels,
    )


def _scored_title(tasks: "Sequence[str]", unit: str) -> str:
    """The only task, or the unit of an aggregate over several tasks."""
    return tasks[0] if len(tasks) == 1 else unit


def show_short_summary(
    summary: "PhaseSummary", card: "SummaryCard | None", console: "Console", all_of_them: str
) -> None:
    """Show the answer about a phase, its labels on every task, failed runs and the cost.

    Args:
        summary: The scores and runs of the phase.
        card: The card of the phase; None where there is none.
        console: Where to print.
        all_of_them: The command that prints every label and every run.
    """
    if card is not None:
        show_answer(card, console)
        console.line()
    elif unfinished := _unfinished_text(summary):
        # An interrupted command has no card, because a report takes seconds.
        console.paragraph(unfinished, style="bold")
        console.line()
    tasks = list(dict.fromkeys(cell.task for cell in summary.cells))
    for task in tasks[:MOST_TASKS]:
        console.scores(_summary_rows(task, summary), all_of_them)
        console.line()
    if len(tasks) > MOST_TASKS:
        console.paragraph(f"and {len(tasks) - MOST_TASKS} more tasks: {all_of_them}")
    for line in _remarks(summary, all_of_them):
        console.paragraph(line)
    if card is not None:
        show_facts(card, console)
    console.line(f"Records: {summary.folder}")


def _unfinished_text(summary: "PhaseSummary") -> str:
    """How many runs have no score, by state (`No run has a score yet: 2 of 2 runs are lost.`).

    The text is empty where every run has a score.
    """
    from collections import Counter

    from rlexp.text import join_names

    planned = len(summary.runs)
    states = Counter(run.state for run in summary.runs if run.score is None)
    if not states:
        return ""
    scored = planned - states.total()
    counts = [f"{count} {_is_in(state, count)}" for state, count in states.most_common()]
    first, *others = counts
    missing = join_names([first.replace(" ", f" of {planned} runs ", 1), *others])
    if not scored:
        return f"No run has a score yet: {missing}."
    return f"{scored} of {planned} runs {'has' if scored == 1 else 'have'} a score: {missing}."


def _is_in(state: str, runs: int) -> str:
    """The state as the end of a sentence about some runs (`is lost`, `failed`)."""
    if state in {"failed", "completed"}:
        return state
    return f"{'is' if runs == 1 else 'are'} {state}"


def _summary_rows(task: str, summary: "PhaseSummary") -> "ScoreRows":
    from rlexp.cli.summaries import short_runs_of
    from rlexp.console.score_rows import ScoreRow, ScoreRows

    cells = [cell for cell in summary.cells if cell.task == task]
    return ScoreRows(
        title=task,
        statistic=" or ".join(dict.fromkeys(cell.title for cell in cells)),
        rows=[
            ScoreRow(
                label=cell.label,
                runs=short_runs_of(cell),
                estimate=cell.estimate,
                scores=[run for runs in cell.estimate.runs for run in runs]
                if cell.estimate
                else (),
            )
            for cell in sorted(cells, key=_rank)
        ],
        labels=[cell.label for cell in cells],
    )


def _rank(cell: "LabelSummary") -> float:
    """A number that is smaller for a better label; labels without a score are last."""
    from math import inf, isnan

    if cell.estimate is None or isnan(cell.estimate.estimate):
        return inf
    return cell.estimate.estimate if cell.lower_is_better else -cell.estimate.estimate


def _remarks(summary: "PhaseSummary", all_of_them: str) -> "Iterator[str]":
    """The rule of the score, thresholds that were reached, failed runs, and restarts."""
    from rlexp.cli.summaries import d4rl_text, failure_lines, rule_of
    from rlexp.text import shorten_middle

    rules = dict.fromkeys(rule_of(cell) for cell in summary.cells)
    yield f"Score: {'; '.join(rules)}, {summary.phase} seeds."
    measured = [c for c in summary.cells if c.threshold is not None and c.scores]
    several = len({cell.task for cell in summary.cells}) > 1
    for task, threshold in dict.fromkeys((cell.task, cell.threshold) for cell in measured):
        cells = [cell for cell in measured if (cell.task, cell.threshold) == (task, threshold)]
        whose = f"threshold of {task}, " if several else "task's threshold of "
        yield f"Reached the {whose}{threshold:g}: {_reached(cells)}."
    normalised = {cell.label: text for cell in summary.cells if (text := d4rl_text(cell))}
    for label, text in list(normalised.items())[:MOST_REACHED]:
        yield f"D4RL's normalised score: {label} {text}."
    failures = list(failure_lines(summary))
    yield from (shorten_middle(line, LONGEST_FAILURE) for line in failures[:MOST_FAILURES])
    if len(failures) > MOST_FAILURES:
        yield f"and {len(failures) - MOST_FAILURES} more runs without a score: {all_of_them}"
    sentences = (*summary.past.sentences(), *summary.remarks)
    yield from (f"{sentence.rstrip('.')}." for sentence in sentences)


def show_sweep_card(card: "SummaryCard", console: "Console", all_of_them: str) -> None:
    """Show the answer of a sweep, winner and default in every phase, its parameters and the cost.

    Args:
        card: The card of the sweep.
        console: Where to print.
        all_of_them: The command that prints every detail.
    """
    show_answer(card, console)
    for panel in () if card.intervals is None else card.intervals.panels:
        console.line()
        console.scores(_panel_rows(panel), all_of_them)
    # The hyperparameters come first, because they say what was compared.
    for table in reversed(card.tables):
        for line in _lines_of_table(table, all_of_them):
            console.paragraph(line)
    show_facts(card, console)


def _lines_of_table(table: "Table", all_of_them: str) -> "Iterator[str]":
    """The hyperparameters of the winner, or the optimism of its tuning score, as a line.

    The page and `--full` have the tables, which would fill a second screen.
    """
    from rlexp.console.blocks import cell
    from rlexp.text import first_sentence

    if table.name != PARAMETERS:
        yield from filter(None, [first_sentence(table.note)[1]])
        return
    if not table.rows:
        # A stream searches no range, so that its table has no row.
        return
    *_, column = table.columns
    names = [str(row[0]).rpartition(".")[2] for row in table.rows]
    settings = " ".join(
        f"{name if names.count(name) == 1 else row[0]}={cell(row[-1], column)}"
        for name, row in zip(names, table.rows, strict=True)
    )
    yield f"{column.title}: {settings}"
    if table.note:
        yield f"All of its hyperparameters: {all_of_them}"


def _panel_rows(panel: "Panel") -> "ScoreRows":
    from rlexp.console.score_rows import ScoreRow, ScoreRows

    rows = [
        ScoreRow(
            label=mark.label,
            runs=f"{mark.interval.n:,}",
            estimate=mark.interval,
            scores=mark.dots,
        )
        for mark in panel.marks
    ]
    return ScoreRows(
        title=f"test {panel.axis.title}",
        statistic=panel.title,
        rows=rows,
        labels=[row.label for row in rows],
    )


def _reached(cells: "Sequence[LabelSummary]") -> str:
    """How many runs reached the threshold: of each of few labels, or of all together."""
    from rlexp.text import join_names

    if len(cells) > MOST_REACHED:
        runs = sum(len(cell.scores) for cell in cells)
        return f"{sum(cell.reached for cell in cells)} of {runs} runs"
    return join_names(f"{cell.label} {cell.reached} of {len(cell.scores)}" for cell in cells)
