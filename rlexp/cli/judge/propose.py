"""`rlexp propose`: judges candidates against a champion, and tests the last champion."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.completion import complete_words
from rlexp.cli.options import (
    AllowImport,
    Json,
    Quiet,
    Retry,
    console_for,
    current_workspace,
    observer_for,
    render_result,
)
from rlexp.text import format_count, format_score

if TYPE_CHECKING:
    from rlexp.app.commands.judge.stream_result import CandidateRow, StreamResult
    from rlexp.app.streams.beginning import StreamRequest
    from rlexp.console import Console

StudyArgument = Annotated[
    str, typer.Argument(metavar="STUDY", help="The stream, a folder under runs/.")
]
WordsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        autocompletion=complete_words,
        help="Settings that differ from the champion, algorithm.gamma=0.98; with --begin, the "
        "first champion. Without words, the stream is shown.",
    ),
]
DiffOption = Annotated[
    Path | None, typer.Option("--diff", help="A patch to the champion's code, of git diff.")
]
WorktreeOption = Annotated[
    Path | None, typer.Option("--worktree", help="A clean git worktree with changed code.")
]
FinalOption = Annotated[
    bool, typer.Option("--final", help="Close the stream, and test its champion.")
]
ContinueOption = Annotated[
    bool, typer.Option("--continue", help="Finish the candidate that is not decided yet.")
]
BeginOption = Annotated[
    bool, typer.Option("--begin", help="Begin the stream: the words are its first champion.")
]
AlphaOption = Annotated[
    float | None,
    typer.Option("--alpha", help="With --begin: false discovery rate of the stream (0.05)."),
]
CandidatesOption = Annotated[
    int | None,
    typer.Option(
        "--candidates", min=1, help="With --begin: most candidates; without it, endless."
    ),
]
MarginOption = Annotated[
    float | None,
    typer.Option("--margin", min=0, help="With --begin: gain by which a seed is won (0)."),
]
ProtectOption = Annotated[
    list[str] | None,
    typer.Option("--protect", help="With --begin: a further file or folder no candidate changes."),
]
FreeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--free", help="With --begin: a setting candidates may change (compute.threads)."
    ),
]
SHORT = 12
"""Digits of a digest that are shown."""
MANY = 100
"""An e-value from this on is shown without decimals."""


def propose(
    study: StudyArgument,
    words: WordsArgument = None,
    diff: DiffOption = None,
    worktree: WorktreeOption = None,
    final: FinalOption = False,
    goes_on: ContinueOption = False,
    begin: BeginOption = False,
    alpha: AlphaOption = None,
    candidates: CandidatesOption = None,
    margin: MarginOption = None,
    protect: ProtectOption = None,
    free: FreeOption = None,
    retry: Retry = False,
    allow_import: AllowImport = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Judge a candidate against the champion, on tuning seeds."""
    of_beginning = {
        "--alpha": alpha,
        "--candidates": candidates,
        "--margin": margin,
        "--protect": protect,
        "--free": free,
    }
    others = {"--diff": diff, "--worktree": worktree, "--final": final, "--continue": goes_on}
    _check_options(of_beginning, others, begin=begin)
    from rlexp.app.commands.judge.propose import ProposeRequest
    from rlexp.app.commands.judge.propose import propose as use_case
    from rlexp.app.streams.proposal import CandidateProposal

    console = console_for(as_json=as_json, quiet=quiet)
    given = tuple(words or ())
    proposal = CandidateProposal(
        words=() if begin else given,
        diff=diff,
        worktree=worktree,
        command=("rlexp", *sys.argv[1:]),
    )
    request = ProposeRequest(
        study=study,
        proposal=proposal,
        begins=_beginning(given, alpha, candidates, margin, protect, free) if begin else None,
        final=final,
        goes_on=goes_on,
        retry=retry,
    )
    result = use_case(request, current_workspace(allow_import), observer_for(console))
    render_result(result, console, show_stream)
    raise typer.Exit(stream_exit_code(result))


def _beginning(
    words: tuple[str, ...],
    alpha: float | None,
    candidates: int | None,
    margin: float | None,
    protect: list[str] | None,
    free: list[str] | None,
) -> "StreamRequest":
    from rlexp.app.streams.beginning import StreamRequest
    from rlexp.stats.sequential.candidates import StreamDesign

    usual = StreamDesign()
    return StreamRequest(
        words=words,
        alpha=usual.alpha if alpha is None else alpha,
        candidates=candidates,
        margin=usual.margin if margin is None else margin,
        protect=tuple(protect or ()),
        free=tuple(free or ()),
    )


def _check_options(
    of_beginning: Mapping[str, object], others: Mapping[str, object], *, begin: bool
) -> None:
    from rlexp.errors import ConfigError

    wrong = others if begin else of_beginning
    given = next((name for name, value in wrong.items() if value not in (None, False)), None)
    if given is not None:
        remedy = f"leave out {given}" if begin else f"leave out {given}: the stream has frozen it"
        raise ConfigError(f"{given} does not go with this command: {remedy}", key=given)


def stream_exit_code(result: "StreamResult") -> int:
    """The exit code of a command of a stream: one for each decision that is not a keep."""
    from rlexp.app.commands.judge.stream_result import StreamAnswer
    from rlexp.cli.exit_codes import COMPLETE, DISCARDED, UNDECIDED, exit_code

    match result.answer:
        case StreamAnswer.DISCARDED:
            return DISCARDED
        case StreamAnswer.UNDECIDED:
            return UNDECIDED
        case StreamAnswer.INCOMPLETE:
            return exit_code(complete=False, interrupted=result.interrupted)
        case _:
            return COMPLETE


def show_stream(result: "StreamResult", console: "Console") -> None:
    """Print the answer, the stream with its candidates, the test, and the next commands."""
    from rlexp.cli.short_form import show_sweep_card
    from rlexp.cli.summaries import next_lines

    _show_lines(result, console)
    if result.card is not None:
        console.line("")
        show_sweep_card(result.card, console, f"rlexp show {result.study} --full")
    for line in next_lines(result.next):
        console.line(line)


def _show_lines(result: "StreamResult", console: "Console") -> None:
    """Print the answer, the stream with its candidates, and what it has spent."""
    console.paragraph(answer(result))
    console.line("")
    for text in frozen_text(result):
        console.paragraph(text)
    if result.candidates:
        console.line("")
        for row in _table(result.candidates):
            console.line(row)
    console.line("")
    for text in alpha_text(result):
        console.paragraph(text)


def _table(rows: "tuple[CandidateRow, ...]") -> Iterator[str]:
    """A row for each candidate."""
    yield f"{'':>4}  {'decision':<10} {'n':>4} {'won':>4} {'lost':>4} {'mean':>9} {'champion':>9}  change"
    for row in rows:
        means = ("" if m is None else format_score(m) for m in (row.mean, row.champion_mean))
        mean, champion = means
        counts = f"{row.n:>4} {row.won:>4} {row.lost:>4} {mean:>9} {champion:>9}"
        yield f"{row.number:>4}  {row.decision or 'open':<10} {counts}  {shown_change(row)}"


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
