"""`rlexp report`: writes a reliability report and lists its files."""

from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.completion import one_of
from rlexp.cli.options import AllowImport, Json, console_for, current_workspace, render_result
from rlexp.cli.report_settings import (
    AlphaOption,
    IntervalOption,
    LevelOption,
    MarginOption,
    PhaseOption,
    SeedOption,
    SettingsOption,
    StrictOption,
    TargetsOption,
    setting_overrides,
)

if TYPE_CHECKING:
    from rlexp.app.commands.judge.report import ReportFiles
    from rlexp.app.tracking.report_attachment import ReportAttachment
    from rlexp.console import Console

MOST_NAMED = 10
"""Longest list of files that is printed in full."""


def report(
    targets: TargetsOption,
    formats: Annotated[
        list[str] | None,
        typer.Option(
            "--format",
            autocompletion=one_of("html", "latex", "csv", "json", "md"),
            help="html (default), latex, csv, json or md; may be repeated.",
        ),
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Folder of the report.")
    ] = None,
    figures: Annotated[
        str | None, typer.Option("--figures", help="Folder for figures as PDF and SVG.")
    ] = None,
    phase: PhaseOption = None,
    margin: MarginOption = None,
    alpha: AlphaOption = None,
    interval: IntervalOption = None,
    level: LevelOption = None,
    seed: SeedOption = None,
    settings: SettingsOption = None,
    allow_import: AllowImport = None,
    strict: StrictOption = False,
    as_json: Json = False,
) -> None:
    """Write a reliability report: a page, or tables for a paper."""
    from rlexp.app.commands.judge.report import ReportRequest
    from rlexp.app.commands.judge.report import report as use_case
    from rlexp.cli.exit_codes import COMPLETE, REFUSED
    from rlexp.cli.observer import TerminalObserver

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
    console = console_for(as_json=as_json)
    result = use_case(request, current_workspace(allow_import), TerminalObserver(console))
    render_result(result, console, show_report)
    raise typer.Exit(REFUSED if strict and result.failed_checks else COMPLETE)


def _attachment_line(tracker: "ReportAttachment") -> str:
    if tracker.attached:
        location = f": {tracker.page}" if tracker.page else ""
        return f"Attached in {tracker.tracker}{location}"
    location = f" in {tracker.tracker}" if tracker.tracker else ""
    return f"Not attached{location}: {tracker.problem}"


def show_report(result: "ReportFiles", console: "Console") -> None:
    """Show the answer, warnings, failed checks, the files of the report, trackers, next commands."""
    from rlexp.cli.short_form import show_answer, show_warnings
    from rlexp.cli.summaries import next_lines

    if result.answer is not None:
        show_answer(result.answer, console)
    for text in result.kept_protocols:
        console.line(f"Protocol: {text}.")
    show_warnings(result.notices, console, "see the report", said=result.answer)
    # Of a stream that takes candidates, the only line says that there is nothing to check yet.
    nothing_yet = not result.labels and len(result.failed_checks) == 1
    check = "Not yet a result" if nothing_yet else "Check failed"
    for text in result.failed_checks:
        console.line(f"{check}: {text}")
    verb = "Unchanged, already written:" if result.unchanged else "Wrote"
    for path in result.files[:MOST_NAMED]:
        console.line(f"{verb} {path}")
    if len(result.files) > MOST_NAMED:
        console.line(f"{verb} {len(result.files) - MOST_NAMED} further files")
    for tracker in result.attached:
        console.line(_attachment_line(tracker))
    for line in next_lines(result.next):
        console.line(line)
