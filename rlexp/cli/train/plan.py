"""`rlexp plan`: proposes how a sweep spends some hours, and what to expect of it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.options import (
    AllowImport,
    Json,
    Probe,
    console_for,
    current_workspace,
    observer_for,
    render_result,
)
from rlexp.cli.train.sweep import Definition

if TYPE_CHECKING:
    from rlexp.app.commands.train.plan import ProposedSweep, SweepAdvice
    from rlexp.console import Console
    from rlexp.reports.drawing.blocks import Table

BASES = {
    "runs": "measured by earlier runs",
    "probe": "measured by a probe",
    "guess": "a first guess; --probe measures it",
}
"""The words for the origin of the expected time."""


def plan(
    arguments: Definition = None,
    hours: Annotated[
        float,
        typer.Option("--hours", help="Hours of wall-clock that the sweep may take."),
    ] = 24.0,
    probe: Probe = None,
    allow_import: AllowImport = None,
    as_json: Json = False,
) -> None:
    """Propose how a sweep spends some hours, and what to expect of it.

    The time of a run on this machine comes from earlier runs or from a probe. What designs reach comes from
    published trainings on ten tasks.
    """
    from rlexp.app.commands.train.plan import PlanAsk
    from rlexp.app.commands.train.plan import plan as use_case
    from rlexp.app.sweeps.request import split_definition

    name, overrides = split_definition(arguments or ())
    ask = PlanAsk(hours=hours, name=name, overrides=tuple(overrides), probe=probe)
    console = console_for(as_json=as_json)
    advice = use_case(ask, current_workspace(allow_import), observer_for(console))
    render_result(advice, console, _show)


def _show(advice: "SweepAdvice", console: "Console") -> None:
    from rlexp.cli.summaries import next_lines

    for line in advice_lines(advice):
        console.paragraph(line)
    console.blocks([_expected(advice)])
    for line in next_lines(advice.next):
        console.line(line)


def advice_lines(advice: "SweepAdvice") -> Iterator[str]:
    """The proposal as sentences."""
    from rlexp.text import format_count, format_duration

    proposal = advice.proposal
    yield (
        f"{advice.hours:g} h hold about {format_count(advice.runs, 'run')} of {advice.experiment}: one "
        f"ends every {format_duration(advice.seconds_per_run)}, "
        f"{format_count(advice.workers, 'worker')} ({BASES[advice.basis]})."
    )
    if advice.offline_steps:
        steps = f"{advice.offline_steps:,} gradient steps on the dataset"
        yield f"Each run takes {steps} before its first step; the time contains them."
    yield f"Proposed: {_design_words(proposal)}."
    low, high = advice.seconds_low, advice.seconds_high
    between = (
        ""
        if low is None or high is None
        else f" ({format_duration(low)} to {format_duration(high)})"
    )
    yield (
        f"At most {format_count(proposal.runs, 'run')}, {format_duration(advice.seconds)}{between}."
    )
    if advice.largest:
        yield (
            f"The table of plans ends here: the published tasks tell of searches up to "
            f"{advice.largest_trials} trials, and nothing about larger ones. What is left of the time is "
            f"spent on test seeds, up to {proposal.test_seeds}."
        )
        unused = advice.runs - proposal.runs
        if unused > 0:
            yield (
                f"{format_count(unused, 'run')} of the {advice.hours:g} h are not planned: a larger "
                "sweep.trials or budget.steps may gain more, and by how much is unknown."
            )


def _design_words(proposal: "ProposedSweep") -> str:
    from rlexp.text import format_count, format_percentage

    if proposal.tuning_seeds > 1:
        promoted = f"the best {format_percentage(proposal.promoted)} on {proposal.tuning_seeds}"
        tuning = f"1 tuning seed, {promoted}"
    else:
        tuning = "1 tuning seed"
    selection = (
        f"{format_count(proposal.finalists, 'finalist')} on "
        f"{format_count(proposal.selection_seeds, 'selection seed')}"
        if proposal.selection_seeds
        else "the best trial wins"
    )
    return (
        f"{format_count(proposal.trials, 'trial')} on {tuning}; {selection}; winner and default on "
        f"{format_count(proposal.test_seeds, 'test seed')}"
    )


def _expected(advice: "SweepAdvice") -> "Table":
    """What to expect of the proposal, and of one hour more."""
    from rlexp.reports.drawing.blocks import Table, TableColumn

    plans = (advice.proposal, advice.more)
    rows = (
        ("trials", *(str(p.trials) for p in plans)),
        ("test seeds", *(str(p.test_seeds) for p in plans)),
        ("true score of the winner", *(f"{p.true:.2f} ± {p.true_spread:.2f}" for p in plans)),
        ("optimism", *(f"{p.optimism:.2f} ± {p.optimism_spread:.2f}" for p in plans)),
        ("detectable difference", *(_detectable(p) for p in plans)),
    )
    return Table(
        name="expected",
        title="Expected",
        columns=tuple(
            TableColumn(title=title)
            for title in ("", f"{advice.hours:g} h", f"{advice.hours + 1:g} h")
        ),
        rows=rows,
        note=f"Scores are on a scale where 0 and 1 are the 5th and 95th percentile of the configurations "
        f"of a task; a random one has {advice.default:.2f}. Means and standard deviations between "
        f"{advice.landscapes} published tasks, {advice.repeats:,} random searches each. Detectable: by "
        "winner and default with 80 % power, in standard deviations of runs (on the scale).",
    )


def _detectable(proposal: "ProposedSweep") -> str | None:
    if proposal.detectable is None or proposal.detectable_score is None:
        return None
    return f"{proposal.detectable:.2f} SD ({proposal.detectable_score:.2f})"
