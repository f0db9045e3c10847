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
from rlexp.text import format_count, format_p_value, format_ranges, format_score

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
SPECIAL = str.maketrans({c: f"\\{c}" for c in "\\`*_[]<>|#"})
"""Characters that Markdown would take for marks, with a backslash before them."""


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
    yield f"{'seed':>6}  {'baseline':>12}  {'now':>12}"
    for run in runs:
        score = run.state if run.score is None else format_score(run.score)
        mark = "" if run.tested else "  not tested"
        yield f"{run.seed:>6}  {format_score(run.baseline):>12}  {score:>12}{mark}"


def baseline_lines(result: "WrittenBaseline") -> Iterator[str]:
    """What was written, or why nothing was, and the next commands."""
    from rlexp.cli.summaries import next_lines

    yield baseline_answer(result)
    yield from failure_lines(result)
    yield from next_lines(result.next)


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


def gate_markdown(result: "GateResult") -> str:
    """The decision, what it rests on, and a table of the scores, as Markdown."""
    return "\n".join([*_markdown_lines(result), ""])


def _markdown_lines(result: "GateResult") -> Iterator[str]:
    title = f"{result.label} on {result.task}: {result.decision}"
    yield from (f"### {_escaped(title)}", "", _escaped(answer(result)) + ".", "")
    if result.repeated is not None and not result.repeated.identical:
        yield from (_escaped(identity_text(result)) + ".", "")
    for change in result.changes:
        yield f"- changed: {_escaped(change)}"
    if result.changes:
        yield ""
    if result.runs:
        yield from _markdown_table(result)
        yield from ("", _escaped(test_text(result)) + ".", "")
    if result.warning:
        yield from (f"**Warning:** {_escaped(result.warning)}", "")
    yield f"Baseline: `{result.baseline}`, sum `{result.sum[:12]}`"


def _markdown_table(result: "GateResult") -> Iterator[str]:
    yield "| seed | baseline | now | tested |"
    yield "|---:|---:|---:|---|"
    for run in result.runs:
        now = run.state if run.score is None else format_score(run.score)
        tested = "yes" if run.tested else "no"
        yield f"| {run.seed} | {format_score(run.baseline)} | {now} | {tested} |"


def _escaped(text: str) -> str:
    return " ".join(text.split()).translate(SPECIAL)
