"""`rlexp gate`: judges changed code against a committed baseline, or writes the baseline."""

import os
import sys
from collections.abc import Iterator
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
    show_result,
)

if TYPE_CHECKING:
    from rlexp.app.commands.judge.gate import GatedRun, GateRequest, GateResult
    from rlexp.app.commands.judge.gate_baseline import BaselineRequest, WrittenBaseline
    from rlexp.app.workspace import Workspace
    from rlexp.console import Console

SUMMARY = "GITHUB_STEP_SUMMARY"
"""Variable with the file to which a step of GitHub Actions appends its summary."""
BaselineArgument = Annotated[
    Path, typer.Argument(metavar="BASELINE", help="The baseline, a JSON file of the repository.")
]
WordsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        autocompletion=complete_words,
        help="Changed settings, algorithm.learning_rate=1e-3; with --write, the configuration.",
    ),
]
WriteOption = Annotated[
    bool, typer.Option("--write", help="Train the seeds, and write their scores as the baseline.")
]
MarginOption = Annotated[
    float | None,
    typer.Option("--margin", help="Largest loss that does not matter, in units of the metric."),
]
BudgetOption = Annotated[
    float | None, typer.Option("--budget", help="Most minutes that the command may take.")
]
MarkdownOption = Annotated[
    Path | None, typer.Option("--markdown", help="Write the result to this file as Markdown.")
]
GroupOption = Annotated[
    int | None, typer.Option("--group", min=2, help="With --write: new seeds at each look (5).")
]
AlphaOption = Annotated[
    float | None, typer.Option("--alpha", help="With --write: level of the test (0.05).")
]
StepsOption = Annotated[
    int | None,
    typer.Option(
        "--identity-steps",
        min=0,
        help="With --write: steps of the training that must repeat bit by bit; 0 leaves it out.",
    ),
]


def gate(
    baseline: BaselineArgument,
    words: WordsArgument = None,
    margin: MarginOption = None,
    budget: BudgetOption = None,
    markdown: MarkdownOption = None,
    write: WriteOption = False,
    group: GroupOption = None,
    alpha: AlphaOption = None,
    identity_steps: StepsOption = None,
    retry: Retry = False,
    allow_import: AllowImport = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Test whether changed code learns worse than a committed baseline."""
    of_writing = {"--group": group, "--alpha": alpha, "--identity-steps": identity_steps}
    _check_options(of_writing, {"--budget": budget, "--markdown": markdown}, write=write)
    console = console_for(as_json=as_json, quiet=quiet)
    workspace = current_workspace(allow_import)
    command = ("rlexp", *sys.argv[1:])
    if write:
        from rlexp.app.commands.judge.gate_baseline import ALPHA, BaselineRequest
        from rlexp.app.comparison.sequential import GROUP

        request = BaselineRequest(
            path=baseline,
            words=tuple(words or ()),
            margin=margin,
            group=GROUP if group is None else group,
            alpha=ALPHA if alpha is None else alpha,
            short_steps=identity_steps,
            retry=retry,
            command=command,
        )
        raise typer.Exit(_write(request, workspace, console))
    from rlexp.app.commands.judge.gate import GateRequest

    judged = GateRequest(
        path=baseline,
        words=tuple(words or ()),
        margin=margin,
        minutes=budget,
        retry=retry,
        outputs=() if markdown is None else (markdown,),
        command=command,
    )
    raise typer.Exit(_judge(judged, markdown, workspace, console))


def _check_options(
    of_writing: dict[str, float | None], of_judging: dict[str, object], *, write: bool
) -> None:
    from rlexp.errors import ConfigError

    wrong = of_judging if write else of_writing
    given = next((name for name, value in wrong.items() if value is not None), None)
    if given is not None:
        remedy = f"leave out {given}, or leave out --write" if write else "add --write"
        text = "judges" if write else "is part of the baseline, which is written once"
        raise ConfigError(f"{given} {text}: {remedy}", key=given)


def _write(request: "BaselineRequest", workspace: "Workspace", console: "Console") -> int:
    from rlexp.app.commands.judge.gate_baseline import make_baseline
    from rlexp.cli.exit_codes import exit_code

    result = make_baseline(request, workspace, observer_for(console))
    show_result(result, console, baseline_lines)
    return exit_code(complete=result.path is not None, interrupted=result.interrupted)


def _judge(
    request: "GateRequest", markdown: Path | None, workspace: "Workspace", console: "Console"
) -> int:
    from rlexp.app.commands.judge.gate import gate as use_case

    result = use_case(request, workspace, observer_for(console))
    show_result(result, console, gate_lines)
    _write_summaries(result, markdown, console)
    return gate_exit_code(result)


def gate_exit_code(result: "GateResult") -> int:
    """The exit code of a gate: one for each decision that is not a pass."""
    from rlexp.app.commands.judge.gate import GateDecision
    from rlexp.cli.exit_codes import COMPLETE, INCOMPLETE, UNDECIDED, WORSE, exit_code

    match result.decision:
        case GateDecision.IDENTICAL | GateDecision.NOT_WORSE:
            return COMPLETE
        case GateDecision.WORSE:
            return WORSE
        case GateDecision.FAILED:
            return INCOMPLETE
        case _ if result.interrupted:
            return exit_code(complete=False, interrupted=result.interrupted)
        case _:
            return UNDECIDED


def _write_summaries(result: "GateResult", markdown: Path | None, console: "Console") -> None:
    """Write the Markdown where it is wanted; a file that fails changes no decision."""
    from rlexp.cli.judge.gate_markdown import gate_markdown

    text = gate_markdown(result)
    step = os.environ.get(SUMMARY)
    for path, mode in ((markdown, "w"), (Path(step) if step else None, "a")):
        if path is None:
            continue
        try:
            with path.open(mode, encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            console.error(f"{path} cannot be written: {error.strerror}; the decision stands")


def gate_lines(result: "GateResult") -> Iterator[str]:
    """The decision in one sentence, what it rests on, the scores, and the next commands."""
    from rlexp.cli.judge.gate_words import answer, identity_text, test_text
    from rlexp.cli.summaries import next_lines

    yield answer(result)
    if result.repeated is not None and not result.repeated.identical:
        yield identity_text(result)
    for change in result.changes:
        yield f"Changed: {change}"
    if result.runs:
        yield ""
        yield from _table(result.runs)
        yield ""
        yield test_text(result)
    if result.warning:
        yield f"Warning: {result.warning}"
    yield from next_lines(result.next)


def _table(runs: "tuple[GatedRun, ...]") -> Iterator[str]:
    """A row for each seed."""
    from rlexp.text import format_score

    yield f"{'seed':>6}  {'baseline':>12}  {'now':>12}"
    for run in runs:
        score = run.state if run.score is None else format_score(run.score)
        mark = "" if run.tested else "  not tested"
        yield f"{run.seed:>6}  {format_score(run.baseline):>12}  {score:>12}{mark}"


def baseline_lines(result: "WrittenBaseline") -> Iterator[str]:
    """What was written, or why nothing was, and the next commands."""
    from rlexp.cli.judge.gate_words import baseline_answer, failure_lines
    from rlexp.cli.summaries import next_lines

    yield baseline_answer(result)
    yield from failure_lines(result)
    yield from next_lines(result.next)
