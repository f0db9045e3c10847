"""`rlexp report`: writes a reliability report, and says which files it consists of."""

from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.options import Allow, Json, console_for, here, render_result
from rlexp.cli.report_settings import (
    Alpha,
    Interval,
    Level,
    Margin,
    Phase,
    Seed,
    Set,
    Strict,
    Targets,
    setting_overrides,
)

if TYPE_CHECKING:
    from rlexp.app.commands.report import ReportFiles
    from rlexp.console import Console

MOST_NAMED = 10
"""Files that are named one by one."""


def report(
    targets: Targets,
    formats: Annotated[
        list[str] | None, typer.Option("--format", help="html (default), latex, csv, json, md")
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Folder to write to")
    ] = None,
    figures: Annotated[
        str | None, typer.Option("--figures", help="Folder for figures as PDF and SVG")
    ] = None,
    phase: Phase = None,
    margin: Margin = None,
    alpha: Alpha = None,
    interval: Interval = None,
    level: Level = None,
    seed: Seed = None,
    settings: Set = None,
    allow_import: Allow = None,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Write a reliability report: one page, or tables for a paper."""
    from rlexp.app.commands.report import ReportRequest
    from rlexp.app.commands.report import report as use_case
    from rlexp.cli.exit_codes import COMPLETE, REFUSED

    request = ReportRequest(
        targets=tuple(targets),
        formats=tuple(formats or ("html",)),
        output=output,
        figures=figures,
        phase=phase,
        overrides=setting_overrides(
            settings, margin=margin, alpha=alpha, interval=interval, level=level, seed=seed
        ),
    )
    result = use_case(request, here(allow_import))
    render_result(result, console_for(as_json=as_json), show_report)
    raise typer.Exit(REFUSED if strict and result.failed_checks else COMPLETE)


def show_report(result: "ReportFiles", console: "Console") -> None:
    """Show what a reader must not miss, the files, and what makes sense now."""
    from rlexp.cli.summaries import next_lines

    console.blocks(result.notices)
    for text in result.failed_checks:
        console.line(f"Check failed: {text}")
    verb = "Nothing changed since this was written:" if result.unchanged else "Wrote"
    for path in result.files[:MOST_NAMED]:
        console.line(f"{verb} {path}")
    if len(result.files) > MOST_NAMED:
        console.line(f"{verb} {len(result.files) - MOST_NAMED} further files")
    for line in next_lines(result.next):
        console.line(line)
