"""`rlexp doctor`: shows what checks have found, and what to do."""

from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.exit_codes import COMPLETE, REFUSED
from rlexp.cli.options import Allow, Json, console_for, here, show_result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlexp.app.commands.doctor import Diagnosis
    from rlexp.app.diagnostics.finding import Finding


def doctor(
    words: Annotated[
        list[str] | None,
        typer.Argument(help="With --determinism: a configuration, or the name of a run"),
    ] = None,
    environment: Annotated[
        str | None,
        typer.Option("--environment", help="Check one environment in a process of its own"),
    ] = None,
    determinism: Annotated[
        bool,
        typer.Option("--determinism", help="Train twice with equal seeds, and compare"),
    ] = False,
    allow_import: Allow = None,
    as_json: Json = False,
) -> None:
    """Check versions, threads and disk; or one environment; or determinism."""
    from rlexp.app.commands.doctor import doctor as use_case
    from rlexp.errors import ConfigError

    if words and not determinism:
        raise ConfigError(f"{words[0]!r} is of no use without --determinism; give that, too")
    if environment is not None and determinism:
        raise ConfigError(
            "--environment and --determinism are checks of their own: give one; "
            "rlexp doctor --determinism environment=… trains on an environment"
        )
    trained = words or [] if determinism else None
    diagnosis = use_case(environment, here(allow_import), trained=trained)
    show_result(diagnosis, console_for(as_json=as_json), diagnosis_lines)
    raise typer.Exit(REFUSED if diagnosis.failed else COMPLETE)


def diagnosis_lines(diagnosis: "Diagnosis") -> "Iterator[str]":
    """Every finding with what to do about it, and a last line on all of them."""
    for finding in diagnosis.findings:
        yield from _finding_lines(finding)
    yield _verdict(diagnosis)


def _finding_lines(finding: "Finding") -> "Iterator[str]":
    from rlexp.text import printable

    yield f"{finding.status:<4}  {finding.check}: {printable(finding.detail, '')}"
    if finding.fix:
        yield f"      → {printable(finding.fix, '')}"


def _verdict(diagnosis: "Diagnosis") -> str:
    from rlexp.app.diagnostics.finding import Status

    counts = {status: sum(f.status is status for f in diagnosis.findings) for status in Status}
    if counts[Status.FAIL]:
        return f"{counts[Status.FAIL]} of {len(diagnosis.findings)} checks failed"
    if counts[Status.WARN]:
        return f"nothing failed; {counts[Status.WARN]} to know about"
    return "all is well"
