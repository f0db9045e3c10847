"""The sentences of `rlexp gate`, for the terminal and for Markdown."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rlexp.text import format_count, format_p_value, format_ranges, format_score

if TYPE_CHECKING:
    from rlexp.app.commands.judge.gate import GateResult
    from rlexp.app.commands.judge.gate_baseline import WrittenBaseline


def answer(result: "GateResult") -> str:
    """The decision in one sentence, with its numbers and their n."""
    decision = result.decision
    if decision == "identical" and result.repeated is not None:
        repeated = result.repeated
        return (
            f"Identical: {_subject(result)} has the weights and evaluations of the baseline after a "
            f"training of {repeated.steps:,} steps (seed {repeated.seed}); no score was compared"
        )
    head = f"{str(decision).capitalize()}: "
    if decision == "failed":
        return f"{head}{result.reason}; a gate with a run that has no score never passes"
    if result.difference is None:
        return f"{head}{result.reason}, before {format_count(result.group, 'seed')} had a score"
    measured = f"{head}{_difference(result)}"
    if decision == "undecided":
        return f"{measured}; {result.reason}"
    verdict = f"more than the margin of {result.margin:g}"
    if decision == "not worse":
        verdict = f"a loss of {result.margin:g} or more is ruled out"
    return f"{measured}; {verdict} ({_p(result)})"


def _subject(result: "GateResult") -> str:
    return f"{result.label} on {result.task}"


def _difference(result: "GateResult") -> str:
    """How the means differ, as words."""
    size = result.difference or 0.0
    side = "above" if size > 0 else "below"
    where = f"{format_score(abs(size))} {side}" if size else "as high as"
    mean, baseline = (
        "" if value is None else format_score(value)
        for value in (result.mean, result.baseline_mean)
    )
    return (
        f"the mean {result.quantity} of {_subject(result)} is {where} the baseline "
        f"({mean} against {baseline}, n = {format_count(result.n, 'seed')} each)"
    )


def _p(result: "GateResult") -> str:
    if result.p is None:
        return ""
    return f"{format_p_value(result.p)}, at interim analysis {result.analyses} of {result.most_analyses}"


def identity_text(result: "GateResult") -> str:
    """That the bits of the short training differ, with the known reasons."""
    repeated = result.repeated
    if repeated is None:
        return ""
    why = f" ({repeated.explanation})" if repeated.explanation else ""
    return (
        f"The training of {repeated.steps:,} steps (seed {repeated.seed}) differs from the "
        f"baseline's{why}, so scores were compared"
    )


def test_text(result: "GateResult") -> str:
    """The test with everything that it depends on."""
    better = "lower" if result.lower_is_better else "higher"
    seeds = format_ranges(run.seed for run in result.runs if run.tested) or "none"
    return (
        f"Test: sequential permutation test of the mean (AdaStop), margin {result.margin:g}, "
        f"alpha {result.alpha:g}, {result.most_analyses} interim analyses of {result.group} seeds, random seed "
        f"{result.random_seed}; score: {result.score}, {better} is better; tuning seeds of root "
        f"{result.root}: {seeds}"
    )


def baseline_answer(result: "WrittenBaseline") -> str:
    """What the baseline holds, or that there is none."""
    subject = f"{result.label} on {result.task}"
    if result.path is None or result.mean is None:
        return (
            f"No baseline was written: {subject} has {result.n} of "
            f"{format_count(result.planned, 'score')}"
        )
    margin = "no margin" if result.margin is None else f"margin {result.margin:g}"
    steps = result.short_steps
    short = "no short training" if steps is None else f"a short training of {steps:,} steps"
    return (
        f"{result.path}: {subject}, mean {result.quantity} {format_score(result.mean)} "
        f"(n = {result.n} tuning seeds), {margin}, alpha {result.alpha:g}, {result.interims} interim analyses of "
        f"{result.group} seeds, {short}; commit this file"
    )


def failure_lines(result: "WrittenBaseline") -> Iterator[str]:
    """The runs without a score."""
    yield from result.failures
