"""`rlexp verify`: shows every record that is missing, edited or copied."""

from typing import TYPE_CHECKING, Annotated

import typer

from rlexp.cli.completion import complete_experiment
from rlexp.cli.options import Json, console_for, current_workspace, show_result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlexp.app.commands.exchange.verify import (
        Verification,
        VerifiedExperiment,
        VerifiedLooks,
        VerifiedProtocols,
    )
    from rlexp.app.streams.verification import VerifiedStream


def verify(
    experiment: Annotated[
        str | None,
        typer.Argument(autocompletion=complete_experiment, help="An experiment; default: all."),
    ] = None,
    head: Annotated[
        str | None,
        typer.Option("--head", help="An earlier head (hex digits) that the ledger must contain."),
    ] = None,
    looks_head: Annotated[
        str | None,
        typer.Option(
            "--looks-head", help="An earlier head that the register of looks must contain."
        ),
    ] = None,
    protocols_head: Annotated[
        str | None,
        typer.Option(
            "--protocols-head", help="An earlier head that the register of protocols must contain."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check that records are the same as when they were written.

    Compares records with the ledger, which holds their sums. Shows every record that is missing,
    edited or copied; the exit code is 1 if there is one. Records that were changed together with
    the ledger are found only with a head that you noted earlier: give it with --head.

    Also checks the register of looks at test scores, and that of protocols with their deviations.
    """
    from rlexp.app.commands.exchange.verify import verify as use_case
    from rlexp.cli.exit_codes import exit_code

    verification = use_case(
        experiment,
        head,
        current_workspace(),
        looks_head=looks_head,
        protocols_head=protocols_head,
    )
    show_result(verification, console_for(as_json=as_json), verification_lines)
    raise typer.Exit(exit_code(complete=verification.faultless, interrupted=None))


def verification_lines(verification: "Verification") -> "Iterator[str]":
    """The findings on each experiment, its verdict and the next commands, as lines."""
    if not verification.experiments:
        yield f"{verification.folder} holds no experiments yet; to start one, use 'rlexp run'"
    for experiment in verification.experiments:
        yield from _experiment_lines(experiment)
    if verification.looks is not None:
        yield from _register_lines("looks", "broken chain", verification.looks)
    if verification.protocols is not None:
        yield from (verified.verdict for verified in verification.protocols.protocols)
        yield from _register_lines("protocols", "fault", verification.protocols)
    for stream in verification.streams:
        yield from _register_lines("candidates", "fault", stream)


def _register_lines(
    what: str, kind: str, verified: "VerifiedLooks | VerifiedProtocols | VerifiedStream"
) -> "Iterator[str]":
    name = f"register of {what}"
    yield from (f"{kind}: {name}: {fault}" for fault in verified.faults)
    yield from (f"remark: {name}: {remark}" for remark in verified.remarks)
    yield f"{name}: {verified.verdict}"


def _experiment_lines(verified: "VerifiedExperiment") -> "Iterator[str]":
    from rlexp.cli.summaries import next_lines

    name = verified.experiment
    for finding in verified.findings:
        where = f"{name}/{finding.run}" if finding.run else name
        yield f"{finding.kind}: {where}: {finding.text}"
    yield f"{name}: {verified.verdict}"
    yield from next_lines(verified.next)
