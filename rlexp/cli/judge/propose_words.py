"""The sentences of `rlexp propose`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rlexp.text import format_count, format_score

if TYPE_CHECKING:
    from rlexp.app.commands.judge.stream_result import CandidateRow, StreamResult

SHORT = 12
"""Digits of a digest that are shown."""
MANY = 100
"""An e-value from this on is shown without decimals."""


def answer(result: "StreamResult") -> str:
    """What the command has done, in one sentence."""
    row = result.judged
    match result.answer:
        case "begun":
            return f"{result.study} has begun: its champion is the first one, {result.label}."
        case "tested":
            return f"Tested: {result.champion_name} of {result.study}; the stream is closed."
        case "incomplete" if result.tests_missing:
            missing = format_count(result.tests_missing, "test run")
            return f"Incomplete: {missing} of {result.study} without a score."
        case "shown" if result.earlier:
            return "This is the first champion: nothing was spent."
        case "shown" | "incomplete":
            closed = result.tests_missing is not None
            state = "is closed" if closed else "takes candidates"
            is_open = row is not None and not row.decision
            how = f"has candidate {result.candidate} open" if is_open else state
            return f"{result.study} {how}; champion: {result.champion_name}."
        case _:
            return _decision(result, row)


def _decision(result: "StreamResult", row: "CandidateRow | None") -> str:
    if row is None:
        return str(result.answer).capitalize()
    before = " before, so that nothing was spent" if result.earlier else ""
    evidence = (
        ""
        if row.e_value is None or row.threshold is None
        else f"e-value {_e_value(row.e_value)}; a keep needs {_e_value(row.threshold)}"
    )
    follows = "it is the champion now" if row.decision == "kept" else "the champion stays"
    if result.earlier:
        follows = f"the champion is {result.champion_name}"
    return (
        f"{str(row.decision).capitalize()}{before}: candidate {row.number}; {row.reason} "
        f"({evidence}); {follows}."
    )


def _e_value(value: float) -> str:
    """An e-value with the digits that a reader can use."""
    return format_score(value, 0 if value >= MANY else 2)


def frozen_text(result: "StreamResult") -> Iterator[str]:
    """What the stream has frozen, a paragraph each."""
    better = "lower" if result.lower_is_better else "higher"
    limit = (
        "" if result.horizon is None else f", at most {format_count(result.horizon, 'candidate')}"
    )
    yield (
        f"Stream: {result.label} on {result.task}, {result.steps:,} steps, score "
        f"{result.score} ({better} is better), up to {format_count(result.seeds, 'tuning seed')} for "
        f"a candidate, margin {result.margin:g}{limit}; scored by {_trusted_code(result)}"
    )
    if result.protected:
        yield f"Protected: {', '.join(result.protected)}"


def _trusted_code(result: "StreamResult") -> str:
    if result.commit is not None:
        return f"code {result.code[:SHORT]}"
    return "the code of this folder, which has no git commit: only protected files are frozen"


def alpha_text(result: "StreamResult") -> Iterator[str]:
    """What of alpha is spent and left, and what the next candidate needs."""
    spent = (
        f"Alpha: {result.alpha:g} over the whole stream (false discovery rate, e-LOND); spent "
        f"{result.alpha_spent:.3g}, left {result.alpha_left:.3g}"
    )
    if result.next_level is not None:
        needs = (
            f"can be kept on {format_count(result.fewest_seeds, 'seed')} at the earliest"
            if result.fewest_seeds is not None
            else "could never be kept with these seeds, so that none is accepted"
        )
        spent += f"; the next candidate has the level {result.next_level:.3g} and {needs}"
    yield spent
    yield f"Register: head {(result.head or '')[:SHORT]}"


def shown_change(row: "CandidateRow") -> str:
    """What a candidate changes, in a few words."""
    if row.source == "settings":
        return " ".join(row.words)
    return f"{row.name} (code {row.code[:SHORT]})"
