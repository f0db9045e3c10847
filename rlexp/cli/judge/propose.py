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
    from rlexp.cli.judge.propose_words import alpha_text, answer, frozen_text

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
    from rlexp.cli.judge.propose_words import shown_change
    from rlexp.text import format_score

    yield f"{'':>4}  {'decision':<10} {'n':>4} {'won':>4} {'lost':>4} {'mean':>9} {'champion':>9}  change"
    for row in rows:
        means = ("" if m is None else format_score(m) for m in (row.mean, row.champion_mean))
        mean, champion = means
        counts = f"{row.n:>4} {row.won:>4} {row.lost:>4} {mean:>9} {champion:>9}"
        yield f"{row.number:>4}  {row.decision or 'open':<10} {counts}  {shown_change(row)}"
