"""`rlexp ablate`: says which of the changes between two configurations did it."""

import sys
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlexp.cli.completion import complete_words
from rlexp.cli.options import (
    AllowImport,
    DryRun,
    Json,
    Probe,
    Quiet,
    Retry,
    console_for,
    current_workspace,
    observer_for,
    render_result,
)
from rlexp.cli.short_form import FullOption

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rlexp.app.commands.judge.ablate import AblationOutcome, AblationOutline
    from rlexp.console import Console
    from rlexp.reports.analysis.ablation_effects import AblationEffects, Effect
    from rlexp.reports.drawing.blocks import Table

ArgumentsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SWEEP | A B | A WORDS",
        show_default=False,
        autocompletion=complete_words,
        help="A sweep; two configurations (EXPERIMENT/LABEL); or one and words that change it.",
    ),
]
CommitsOption = Annotated[
    str | None,
    typer.Option(
        "--commits",
        metavar="FIRST..LAST",
        help="Train the configuration of the words by the code of each commit of a range.",
    ),
]
PathOption = Annotated[
    bool | None,
    typer.Option(
        "--path/--each",
        help="Add the changes along a path, or each alone and left out (by default, to 5 changes).",
    ),
]
GroupOption = Annotated[
    int, typer.Option("--group", min=2, help="New seeds of each configuration at each analysis.")
]
MaxSeedsOption = Annotated[
    int, typer.Option("--max-seeds", min=2, help="Most test seeds of each configuration.")
]
AlphaOption = Annotated[
    float | None, typer.Option("--alpha", help="Family-wise error over all comparisons (0.05).")
]
FamilyOption = Annotated[
    str,
    typer.Option("--family", help="How comparisons share the error (holm, bonferroni or maxt)."),
]
RestartOption = Annotated[
    bool, typer.Option("--restart", help="Replace the frozen design by a new one.")
]
HOW = {
    "each": "each left out, and each added alone",
    "path": "added along a path",
    "commits": "each against the one before it, and the last against the first",
}
"""How changes are judged, as a part of a sentence."""
LONGEST_VALUES = 26
"""Characters of the values of a change in the short table."""


def ablate(
    arguments: ArgumentsArgument = None,
    commits: CommitsOption = None,
    path: PathOption = None,
    group: GroupOption = 5,
    max_seeds: MaxSeedsOption = 25,
    alpha: AlphaOption = None,
    family: FamilyOption = "holm",
    restart: RestartOption = False,
    retry: Retry = False,
    allow_import: AllowImport = None,
    dry_run: DryRun = False,
    probe: Probe = None,
    quiet: Quiet = False,
    full: FullOption = False,
    as_json: Json = False,
) -> None:
    """Find out which change or commit made the difference."""
    from rlexp.app.commands.judge.ablate import AblateRequest, AblationOutcome
    from rlexp.app.commands.judge.ablate import ablate as use_case
    from rlexp.cli.exit_codes import exit_code

    console = console_for(as_json=as_json, quiet=quiet)
    workspace = current_workspace(allow_import)
    request = AblateRequest(
        arguments=tuple(arguments or ()),
        commits=commits,
        path=path,
        group=group,
        max_seeds=max_seeds,
        alpha=alpha,
        family=family,
        dry_run=dry_run,
        restart=restart,
        retry=retry,
        probe=probe,
        command=("rlexp", *sys.argv[1:]),
    )
    result = use_case(request, workspace, observer_for(console))
    render_result(result, console, partial(show_ablation, full=full))
    interrupted = result.interrupted if isinstance(result, AblationOutcome) else None
    raise typer.Exit(exit_code(complete=True, interrupted=interrupted))


def show_ablation(
    result: "AblationOutcome | AblationOutline", console: "Console", *, full: bool
) -> None:
    """Show the answer with one short table; with `full`, everything; or the plan."""
    from rlexp.app.commands.judge.ablate import AblationOutline
    from rlexp.cli.short_form import with_full
    from rlexp.cli.summaries import next_lines

    if isinstance(result, AblationOutline):
        for line in outline_lines(result):
            console.line(line)
        return
    if full:
        from rlexp.reports.analysis.ablation_blocks import ablation_blocks

        console.blocks(tuple(ablation_blocks(result.effects, alone=True)))
    else:
        console.paragraph(result.answer, style="bold")
        console.paragraph(result.basis)
        console.line()
        console.blocks((short_table(result.effects),))
        for text in _remarks(result.effects):
            console.paragraph(text)
        for text in _warnings(result.effects):
            console.paragraph(f"Warning: {text}", style="yellow")
    console.line()
    for line in _cost(result):
        console.paragraph(line)
    if not full:
        console.line(f"To see every number: {with_full()}")
    for line in next_lines(result.next):
        console.line(line)


def outline_lines(outline: "AblationOutline") -> Iterator[str]:
    """The comparisons of an ablation, and the runs of its next interim analysis."""
    from rlexp.cli.plans import run_plan_lines
    from rlexp.text import format_count, format_percentage

    subject = "commit" if outline.kind == "commits" else "change"
    changes = format_count(len(outline.changes), subject)
    # Of a single change, leaving it out and adding it are the same comparison.
    how = f", {HOW[outline.kind]}" if outline.comparisons > 1 else ""
    yield f"{changes}{how}: {format_count(outline.comparisons, 'comparison')}"
    for change in outline.changes:
        moved = "" if outline.kind == "commits" else f": {_moved(change.old, change.new)}"
        yield f"  {change.name}{moved}"
        if change.remark is not None:
            yield f"    {change.remark}"
    if outline.order is not None:
        yield outline.order
    yield f"Configurations: {', '.join(outline.labels)}"
    if outline.plan is None:
        yield "Nothing to run: the existing scores are all that the design needs"
        return
    yield from run_plan_lines(outline.plan)
    yield (
        f"Interim analysis {outline.look} of {outline.looks}; at most {outline.most_runs} runs in "
        f"total, and an error in any comparison in at most {format_percentage(outline.alpha)} of cases"
    )


def short_table(effects: "AblationEffects") -> "Table":
    """A table of 80 columns: values and effects of each change; a star marks a decision."""
    from rlexp.reports.drawing.blocks import Table, TableColumn

    names = [n for n in ("left_out", "added", "step") if _has(effects, n)]
    is_commits = effects.kind == "commits"
    titles = {
        "left_out": f"in {effects.total.first}",
        "added": f"in {effects.total.second}",
        "step": "of the commit" if is_commits else "of the step",
    }
    rows = [
        (
            change.name,
            *([] if is_commits else [_moved(change.old, change.new)]),
            *(_effect(getattr(change, n)) for n in names),
        )
        for change in effects.changes
    ]
    total = [_effect(effects.total), *("" for _ in names[1:])]
    return Table(
        name="ablation-short",
        title="Effect on the score",
        columns=(
            TableColumn(title="commit" if is_commits else "change"),
            *([] if is_commits else [TableColumn(title="values")]),
            *(TableColumn(title=titles[n]) for n in names),
        ),
        rows=(*rows, ("all commits", *total) if is_commits else ("all changes", "", *total)),
        note=f"* decided, with an error over all comparisons of at most {effects.alpha:g}.",
    )


def _has(effects: "AblationEffects", name: str) -> bool:
    return any(getattr(change, name) is not None for change in effects.changes)


def _effect(effect: "Effect | None") -> str:
    from rlexp.reports.analysis.ablation_answer import signed

    if effect is None:
        return "—"
    if effect.difference is None:
        return "no runs yet"
    star = " *" if effect.is_decided else ""
    return f"{signed(effect.difference)}{star}"


def _moved(old: "Mapping[str, Any]", new: "Mapping[str, Any]") -> str:
    """The values of a change (`0.0003 → 0.01`)."""
    from rlexp.reports.analysis.ablation_blocks import values_text
    from rlexp.text import shorten_middle

    return shorten_middle(f"{values_text(old)} → {values_text(new)}", LONGEST_VALUES)


def _warnings(effects: "AblationEffects") -> Iterator[str]:
    from rlexp.text import first_sentence

    texts = dict.fromkeys(e.warning for e in effects.effects if e.warning is not None)
    yield from (first_sentence(text)[0] for text in texts)


def _remarks(effects: "AblationEffects") -> Iterator[str]:
    """Interactions, and missing comparisons."""
    for change in effects.changes:
        if change.interaction is not None:
            yield f"{change.name} {change.interaction}."
        if change.remark is not None:
            yield f"{change.name}: {change.remark}."


def _cost(result: "AblationOutcome") -> Iterator[str]:
    from rlexp.text import format_count

    saved = max(result.most_runs - result.trained, 0)
    yield (
        f"Cost: {format_count(result.trained, 'run')} trained of at most {result.most_runs} "
        f"({saved} saved); experiment {result.experiment}, seeds.root={result.root}."
    )
    if result.failed:
        count = format_count(len(result.failed), "run")
        yield f"Without a score: {count} ({', '.join(result.failed[:3])})."
