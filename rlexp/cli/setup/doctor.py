"""`rlexp doctor`: shows the findings of checks and how to fix them."""

from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.exit_codes import COMPLETE, REFUSED
from rlexp.cli.options import AllowImport, Json, console_for, current_workspace, show_result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlexp.app.commands.setup.doctor import Diagnosis
    from rlexp.app.diagnostics.finding import Finding


def doctor(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(help="With --determinism: a configuration, or the name of a run."),
    ] = None,
    environment: Annotated[
        str | None,
        typer.Option("--environment", help="Check one environment, in a separate process."),
    ] = None,
    determinism: Annotated[
        bool,
        typer.Option("--determinism", help="Train twice with equal seeds, and compare."),
    ] = False,
    allow_import: AllowImport = None,
    as_json: Json = False,
) -> None:
    """Check the installation, one environment, or determinism.

    Without options: versions of packages, threads, memory and disk.
    """
    from rlexp.app.commands.setup.doctor import doctor as use_case
    from rlexp.errors import ConfigError

    if arguments and not determinism:
        raise ConfigError(
            f"{arguments[0]!r} has no meaning without --determinism; add --determinism or leave "
            f"out {arguments[0]!r}"
        )
    if environment is not None and determinism:
        raise ConfigError(
            "--environment and --determinism are separate checks: give only one of them; to check "
            "the determinism of an environment: rlexp doctor --determinism environment=…"
        )
    trained = arguments or [] if determinism else None
    diagnosis = use_case(environment, current_workspace(allow_import), trained=trained)
    show_result(diagnosis, console_for(as_json=as_json), diagnosis_lines)
    raise typer.Exit(REFUSED if diagnosis.failed else COMPLETE)


def diagnosis_lines(diagnosis: "Diagnosis") -> "Iterator[str]":
    """Every finding with its fix, then the number of errors and warnings."""
    for finding in diagnosis.findings:
        yield from _finding_lines(finding)
    yield _verdict(diagnosis)


def _finding_lines(finding: "Finding") -> "Iterator[str]":
    from rlexp.text import safe_for_terminal

    yield f"{finding.status:<4}  {finding.check}: {safe_for_terminal(finding.detail, '')}"
    if finding.fix:
        yield f"      → {safe_for_terminal(finding.fix, '')}"


def _verdict(diagnosis: "Diagnosis") -> str:
    from rlexp.app.diagnostics.finding import FindingStatus
    from rlexp.text import format_count

    counts = {
        status: sum(f.status is status for f in diagnosis.findings) for status in FindingStatus
    }
    if counts[FindingStatus.FAIL]:
        return f"{counts[FindingStatus.FAIL]} of {len(diagnosis.findings)} checks failed"
    if counts[FindingStatus.WARN]:
        return f"0 errors, {format_count(counts[FindingStatus.WARN], 'warning')}"
    return "no problems found"
