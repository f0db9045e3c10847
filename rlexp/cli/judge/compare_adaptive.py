"""`rlexp compare --adaptive`: shows the decisions of a sequential comparison."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rlexp.cli.options import observer_for, show_result

if TYPE_CHECKING:
    from rlexp.app.commands.judge.compare_adaptive import (
        AdaptiveComparison,
        AdaptiveRequest,
        NextLook,
    )
    from rlexp.app.comparison.sequential import PairDecision
    from rlexp.app.workspace import Workspace
    from rlexp.console import Console

DECISION_PHRASES = {
    "better": "is better than",
    "worse": "is worse than",
    "continue": "is still undecided against",
}


def compare_adaptively(
    request: "AdaptiveRequest", workspace: "Workspace", console: "Console"
) -> int:
    """Launch test seeds until every pair is decided, and show the decisions.

    Returns:
        The exit code.
    """
    from rlexp.app.commands.judge.compare_adaptive import AdaptiveComparison
    from rlexp.app.commands.judge.compare_adaptive import compare_adaptively as use_case
    from rlexp.cli.exit_codes import exit_code

    result = use_case(request, workspace, observer_for(console))
    show_result(result, console, adaptive_lines)
    interrupted = result.interrupted if isinstance(result, AdaptiveComparison) else None
    return exit_code(complete=True, interrupted=interrupted)


def adaptive_lines(result: "AdaptiveComparison | NextLook") -> Iterator[str]:
    """The decisions on all pairs, or the runs of the next interim analysis, as lines."""
    from rlexp.app.commands.judge.compare_adaptive import NextLook
    from rlexp.cli.summaries import next_lines

    if isinstance(result, NextLook):
        yield from _next_look_lines(result)
        return
    if result.finished:
        for pair in result.pairs:
            if pair.last_look is not None:
                yield _decision(pair, result.design.interims)
                if pair.warning is not None:
                    yield f"Warning: {pair.warning}"
        yield (
            f"{result.runs} runs in {result.looks} interim analyses; the fixed design with "
            f"{result.design.interims} × {result.design.group} seeds of every label needs "
            f"{result.fixed_design} runs: {result.saved} saved, {result.trained} trained"
        )
    yield from next_lines(result.next)


def _next_look_lines(result: "NextLook") -> Iterator[str]:
    from rlexp.cli.plans import run_plan_lines

    if result.plan is None:
        yield "Nothing to run: the existing scores are all that the design needs"
        return
    yield from run_plan_lines(result.plan)
    yield (
        f"Interim analysis {result.look} of {result.looks}: {', '.join(result.wanted)}; at most "
        f"{result.most_runs} runs in total"
    )


def _decision(pair: "PairDecision", interims: int) -> str:
    """The decision on a pair as a sentence with its p-value."""
    at = f"interim analysis {pair.last_look} of {interims}"
    p = f"p = {pair.p:.4f}, threshold {pair.allowed:.4f}"
    if pair.decision == "equal":
        return (
            f"no difference between {pair.first} and {pair.second} was found by {at} ({p}); "
            "this is no evidence that they are equally good"
        )
    if pair.crossed not in {None, pair.last_look}:
        # A step-down family decides a pair only after all pairs with smaller p-values.
        p = f"{p} at interim analysis {pair.crossed}; other pairs had to be decided first"
    return f"{pair.first} {DECISION_PHRASES[pair.decision]} {pair.second}, decided at {at} ({p})"
